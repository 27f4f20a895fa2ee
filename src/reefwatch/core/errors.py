"""What goes wrong, in words that a user can act on."""

from __future__ import annotations


class ReefwatchError(Exception):
    """Shown to the user as one line, without a traceback."""


class UsageError(ReefwatchError):
    """The command line or the configuration asks for something that is not there."""


class UnreadableRecord(ReefwatchError):
    """A record that cannot be read: missing, not a record, or written by a newer version."""


class MalformedCheck(ReefwatchError):
    """A check that does not say what a check must say."""


class Breach(ReefwatchError):
    """A claim broken in strict mode. Raised inside the user's own frame."""
