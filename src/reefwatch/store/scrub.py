"""Take tokens, user names and host names out of what is recorded.

Scrubbed are: the home directory (`~`), the user's name as a whole component of a path or before
`@`, this host's names, addresses, and secrets: by their form (`hf_...`, `Bearer ...`) or by the
name that they go under (`--api-key X`, `WANDB_API_KEY=X`, a key of a dictionary). Module paths,
file names, line numbers and other numbers stay: a user called `data` loses no module `data`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from reefwatch.store.lines import decode, encode

SECRET, USER, HOST = "<secret>", "<user>", "<host>"
_CODE_NAMES = frozenset(('"module"', '"op"', '"dtype"', '"kind"', '"phase"'))
"""Keys whose strings are names from code, untouched unless they are paths."""
_PLAIN_USERS = frozenset(("root", "user", "ubuntu", "admin", "runner", "jovyan", "nobody"))
"""Accounts of machine images, that name nobody."""

_SECRET_WORDS = {"token", "secret", "password", "passwd", "passphrase", "credential"}
_SECRET_WORDS |= {"credentials", "apikey", "pwd"}
_KEY_OF = {"api", "access", "private", "secret", "auth", "account", "ssh", "license", "encryption"}
_KEY_OF |= {"wandb", "comet", "openai", "hf"}
_MODEL_WORDS = {"pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop", "start", "end", "image"}
_MODEL_WORDS |= {"special", "max", "num", "n", "per", "last", "first", "next"}
"""`--pad-token`, `--max-token`: tokens of a language model."""
_SECRET_ENVIRON = re.compile(
    r"(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(?![A-Z])"
)
_HOST_WORDS = {"host", "hostname", "addr", "nodelist", "nodename", "endpoint"}
_USER_WORDS = {"user", "username", "logname", "login"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_PEM = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)
_URL_LOGIN = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@\"'<>]+@")
_URL_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|key|secret|passw(?:or)?d|signature|credential|auth|sig)=)[^\s&#\"'<>]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b((?:Bearer|Basic)\s+)(?=\S*[\d=]|\S{20})[\w.~+/=-]{6,}", re.IGNORECASE)
_FORMS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      hf_(?=[A-Za-z]*\d|[a-z]*[A-Z]|[a-z]{24})[A-Za-z0-9]{10,}      # Hugging Face
    | sk-(?=[\w-]*\d|[\w-]*[A-Z]|[\w-]{24})[\w-]{12,}               # OpenAI, Anthropic
    | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{20,} | glpat-[\w-]{16,}
    | xox[abeprs]-[\w-]{10,}                                        # Slack
    | (?:AKIA|ASIA)[0-9A-Z]{16}                                     # AWS
    | AIza[\w-]{35}                                                 # Google
    | pypi-[\w-]{40,} | npm_[A-Za-z0-9]{30,} | nvapi-[\w-]{20,}
    | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*                               # JSON web token
    )""",
    re.VERBOSE,
)
_WANDB = re.compile(r"(\bwandb\b[^\n]{0,40}?\b)[0-9a-f]{40}\b", re.IGNORECASE)
_NAMED = re.compile(
    r"(?<![\w./-])(?P<name>(?P<option>--)?-?[A-Za-z][\w.-]*)"
    r"(?P<sign>[\"']?\s?=\s?[\"']?|[\"']?:\s?[\"']?|(?(option)\s+[\"']?(?!-)|(?!)))"
    r"(?=(?P<value>[^\s\"',;&<>]+))"
)
"""A name and what stands for `is`: `--name value`, `NAME=value`, `name: value`."""
_IP = r"(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}"
_URL_ADDRESS = re.compile(rf"((?:://|@)){_IP}(?![\w.])|(?<![\w.]){_IP}(?=:\d{{2,5}}(?!\w))")
_OTHER_HOME = re.compile(r"(?<![\w.~>-])(/home/|/Users/)[^/\s\"':;,<>()]+")
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_PIECE = re.compile(
    rf'({_STRING}):({_STRING})?|("-[^"\\]*"),("(?!-)[^"\\]*(?:\\.[^"\\]*)*")|({_STRING})'
)
"""In JSON text: a key with its string, an option and its value in a list, or a string alone."""
_MOST_KNOWN = 50_000
"""Strings that are remembered: a deep model has a name per module."""
_LOCAL = frozenset(("localhost", "::1", "0.0.0.0", "none", "None", ""))


def stands_for(name: str) -> str:
    """What goes under this name of an option, variable or key: SECRET, HOST, USER, or ""."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return ""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if name.isupper() and _SECRET_ENVIRON.search(name):
        return SECRET
    if last in _SECRET_WORDS and before not in _MODEL_WORDS and name not in ("PWD", "OLDPWD"):
        return SECRET
    if last == "key" and (before in _KEY_OF or (name.startswith("-") and not before)):
        return SECRET
    return HOST if last in _HOST_WORDS else USER if last in _USER_WORDS else ""


def _any_of(words: Iterable[str]) -> str:
    """A pattern of any of the words, longest first; one that never matches when there are none."""
    ordered = sorted({word for word in words if word}, key=lambda word: (-len(word), word))
    return "(?:" + "|".join(map(re.escape, ordered)) + ")" if ordered else r"(?!)"


class Scrubber:
    """Scrubs for one user on one host. Scrubbing twice changes nothing more."""

    def __init__(
        self, homes: Iterable[str] = (), user: str = "", hosts: Iterable[str] = ()
    ) -> None:
        """`homes`: the home directory and other spellings of it; `hosts`: short and full names."""
        self.homes = tuple(h.rstrip("/") for h in homes if h.rstrip("/") not in ("", "/tmp"))
        self.user = "" if user in _PLAIN_USERS else user
        self.hosts = frozenset(host for host in hosts if host not in _LOCAL)
        own, user_ = _any_of(self.homes), _any_of([self.user])
        telling = [h for h in self.hosts if "." in h or (len(h) > 4 and re.search(r"\d", h))]
        self._home = re.compile(rf"(?<![\w.~-]){own}(?![\w.-])")
        self._user = re.compile(
            rf"(?:(?<=/)|(?<=torchinductor_)){user_}(?=/|$|[\s:;,\"')\]])|(?<![\w./-]){user_}(?=@)"
        )
        self._host = re.compile(
            rf"(?<![\w./-]){_any_of(telling)}(?![\w/-]|\.\w)|(?<=/){_any_of(telling)}(?=[/:]|$)"
            rf"|(?:(?<=://)|(?<=@)){_any_of(self.hosts)}(?![\w-]|\.\w)"
            rf"|(?<![\w./-]){_any_of(self.hosts)}(?=:\d{{2,5}}(?!\w))"
        )
        self._known: dict[str, str] = {}

    @classmethod
    def here(cls) -> Scrubber:
        """For the user and host of this process. Reads no network."""
        home = os.path.expanduser("~")
        homes, user, host = {home, os.path.realpath(home)}, "", ""
        try:
            import pwd

            entry = pwd.getpwuid(os.getuid())
            homes.add(entry.pw_dir)
            user = entry.pw_name
        except (ImportError, KeyError):  # a container may run as a number without a name
            user = os.environ.get("USER", "")
        try:
            host = os.uname().nodename
        except (AttributeError, OSError):
            host = os.environ.get("HOSTNAME", "")
        return cls(homes, user, (host, host.split(".")[0]))

    def text(self, text: str) -> str:
        """The text without secrets and names."""
        text = _PEM.sub(r"\1" + SECRET, text)
        text = _URL_LOGIN.sub(r"\1" + SECRET + "@", text)
        text = _URL_QUERY.sub(r"\1" + SECRET, text)
        text = _BEARER.sub(r"\1" + SECRET, text)
        text = _FORMS.sub(SECRET, text)
        text = _WANDB.sub(r"\1" + SECRET, text)
        text = self._named(text)
        text = self._home.sub("~", text)
        text = _OTHER_HOME.sub(r"\1" + USER, text)
        text = self._user.sub(USER, text)
        text = _URL_ADDRESS.sub(lambda match: (match[1] or "") + HOST, text)
        return self._host.sub(HOST, text)

    def _named(self, text: str) -> str:
        """The text with what goes under a telling name replaced; a value may itself be a name."""
        done, at = [], 0
        for match in _NAMED.finditer(text):
            value, meaning = match["value"], stands_for(match["name"])
            colon = ":" in match["sign"]
            if (
                match.start() < at
                or not meaning
                or (colon and (meaning != SECRET or value.isdigit()))
            ):
                continue
            done += [text[at : match.end()], self.under(match["name"], value)]
            at = match.end("value")
        return "".join([*done, text[at:]])

    def under(self, name: str, text: str) -> str:
        """The text as it may be recorded under this name of an option, variable or key."""
        meaning = stands_for(name)
        if meaning == SECRET and text:
            return SECRET
        if meaning == HOST:
            host, port = re.fullmatch(r"(.*?)((?::\d+)?)", text, re.DOTALL).groups()  # type: ignore[union-attr]
            return text if host in _LOCAL or host.startswith("127.") else HOST + port
        if meaning == USER and text == self.user:
            return USER
        return self.text(text)

    def json(self, encoded: str) -> str:
        """JSON text, as `lines.encode` makes it, with every string scrubbed.

        Working on the text spares the copies that a walk over the values would make. The strings of
        a run repeat: when each is known from an earlier line, they are exchanged without a look at
        what stands beside them.
        """
        if "\\" not in encoded:  # so that every quote is the start or the end of a string
            parts = encoded.split('"')
            try:
                parts[1::2] = [self._known[text] for text in parts[1::2]]
                return '"'.join(parts)
            except KeyError:
                pass
        return _PIECE.sub(self._piece, encoded)

    def _piece(self, match: re.Match[str]) -> str:
        key, string, option, argument, alone = match.groups()
        if option is not None:
            name = decode(option)
            return f"{encode(self.text(name))},{encode(self.under(name, decode(argument)))}"
        if alone is not None:
            return encode(self._learn(decode(alone)))
        name, said = decode(key), string or ""
        if said and stands_for(name):
            said = encode(self.under(name, decode(said)))
        elif said and (key not in _CODE_NAMES or "/" in said):
            said = encode(self._learn(decode(said)))
        elif said:
            self._learn(decode(said))
        return f"{encode(self._learn(name))}:{said}"

    def _learn(self, text: str) -> str:
        """The text scrubbed; known from now on if that is the same wherever it stands."""
        known = self._known.get(text)
        if known is not None:
            return known
        done = self.text(text)
        if (done == text or "/" in text) and not text.startswith("-") and not stands_for(text):
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = done
        return done

    def value(self, value: Any) -> Any:
        """A value of JSON's types with every string scrubbed."""
        return decode(self.json(encode(value)))

    def restore(self, path: str) -> str:
        """The path that a scrubbed path stood for, if it was scrubbed for this user."""
        if self.homes and (path == "~" or path.startswith("~/")):
            path = self.homes[0] + path[1:]
        return path.replace(USER, self.user) if self.user else path
