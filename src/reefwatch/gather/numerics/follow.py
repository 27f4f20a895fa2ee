"""A run that follows a recorded reference: an active mode, which says what it put in place.

Where an op first reads a tensor that the step was given, the reference's bytes are put into it, and
random masks are replaced by the reference's; the record says how many.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.ports import ReferenceReader
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Tools
from reefwatch.gather.numerics.reference import Rows, constant, put
from reefwatch.gather.numerics.sketch import digest, raw
from reefwatch.gather.numerics.small import Batch, asked, named
from reefwatch.measure.matching import match
from reefwatch.measure.sketches import coarser
from reefwatch.measure.soft import Soft

GAP = 3
"""The first step that is not on the ladder: its batch is the run's own, so what follows a replaced
batch is no longer the reference's training."""


class Follower(Rows):
    """`run --against REF`. Active: it puts the reference's weights, batches and masks in place."""

    name = "numerics.against"

    def arm(self, tools: Tools) -> None:
        super().arm(tools)
        self._reader: ReferenceReader = tools.options["reference"]
        self._rows: dict[int, list[Any]] = {}
        self._given: dict[str, Any] = {}
        for row in self._reader.rows():
            if "given" in row:
                self._given[row["given"]] = row
            else:
                self._rows.setdefault(row["step"], []).append(row)
        self._small = bool(self._reader.head.get("small"))
        """True for a lone checkpoint with a batch: it says little, and nothing of the order."""
        self._batch_of = Batch(tools.torch, self._given) if self._small else None
        self._zero = -1
        """The step that a small reference is of: an evaluation may come before it."""
        self._odd: list[str] = []
        """What of a small reference could not be put in place."""
        here = self.about()
        self._same = all(self._reader.head.get(part) == here[part] for part in here)
        self._undrawn: list[str] = []
        """Ops whose draws have no counterpart in the reference: its masks cannot be put there."""
        self._here: list[dict[str, Any]] = []
        self._soft = Soft()
        self._met = self._of = 0
        self._coarsest = "f64"
        self._taken: set[str] = set()
        self._fed = Counter[str]()
        self._replaced = False
        """True when a batch or a mask of its own was replaced by the reference's."""
        self._number = 0

    def given(self, name: str, tensor: Any) -> None:
        mine = digest(self._torch, tensor)
        if self._small:
            return
        kept = self._counterpart(name, mine)
        data: dict[str, Any] = {"name": name, "step": self._step, "shape": list(tensor.shape)}
        data.update(dtype=short(tensor.dtype), same=False, fed=False, known=kept is not None)
        data["weight"] = isinstance(tensor, self._torch.nn.Parameter)
        data["bytes"] = tensor.numel() * tensor.element_size()
        data["constant"] = constant(tensor)
        data["carried"] = self.carried(name, tensor)
        if kept is not None:
            data["same"] = kept["digest"] == mine
            found = None if data["same"] else self._reader.tensor(kept["given"])
            if found is not None:
                data["fed"] = put(self._torch, tensor, found)
        self._told(data, name)

    def _told(self, data: dict[str, Any], name: str) -> None:
        self._replaced |= not data["same"] and not data["weight"]
        self._fed["fed" if data["fed"] else "same" if data["same"] else "other"] += 1
        self._tools.sink.event("reference.given", data, step=self._step, id=name)

    def before_op(self, func: Any, args: Any, kwargs: Any) -> None:
        super().before_op(func, args, kwargs)
        if self._batch_of is None or self._step < 0 or self._updating:
            return
        begun = self._batch_of.begun
        for name, tensor in self._batch_of.reads((*args, *kwargs.values())):
            self._feed(name, tensor)
        if begun is None and self._batch_of.begun is not None:
            self._zero = self._step
            self._feed_weights(self._batch_of.begun)

    def _feed_weights(self, called: Any) -> None:
        """Put a checkpoint's weights and buffers into the model of which a module is called."""
        self._modules.learn(called.parameters())
        for root in self._modules.roots:
            module = root.module()
            for name, tensor in named(module) if module is not None else ():
                chosen = self._reader.resolve(name)  # type: ignore[attr-defined]
                if chosen:
                    self._feed(chosen, tensor)
                else:
                    self._odd.append(name)

    def _feed(self, name: str, tensor: Any) -> None:
        """Put one tensor of a small reference in place."""
        found, row = self._reader.tensor(name), self._given[name]
        same = row["digest"] == digest(self._torch, tensor)
        fed = not same and found is not None and put(self._torch, tensor, found)
        if not same and not fed:
            self._odd.append(name)
        self._taken.add(name)
        data = {k: v for k, v in row.items() if k not in ("given", "digest")}
        self._told({**data, "name": name, "step": 0, "same": same, "fed": fed, "known": True}, name)

    def _counterpart(self, name: str, mine: str) -> Any:
        """The reference's tensor: of this name, but one with the same bytes comes first."""
        step = name.partition("/")[0] + "/"
        alike = [
            other
            for other, row in self._given.items()
            if row["digest"] == mine and other.startswith(step) and other not in self._taken
        ]
        chosen = name if name in alike or not alike else alike[0]
        kept = self._given.get(chosen)
        if kept is not None:
            self._taken.add(chosen)
        return kept

    def drawn(self, name: str, tensor: Any) -> None:
        if self._small:
            return
        found = self._reader.tensor(name)
        if found is not None and found[0] == raw(self._torch, tensor):
            return
        if found is not None and put(self._torch, tensor, found):
            self._replaced = True
            self._fed["drawn"] += 1
        elif self._step in self._reader.head.get("steps", ()) and self._comparable():
            self._undrawn.append(name.split("/")[2])

    def row(self, row: dict[str, Any], sketch: dict[str, Any] | None) -> None:
        if self._small and row["step"] != self._zero:
            return  # it says something of the first training step alone
        if self._small:
            row = {**row, "step": 0}
        if self._small or self._comparable():
            self._here.append({**row, "sketch": sketch})

    def close(self, step: int) -> bool:
        new = super().close(step)
        self._match()
        return new

    def _match(self) -> None:
        """Match the rows of the step that has ended, and write how far apart they are."""
        if not self._here:
            return
        here, self._here = self._here, []
        there = self._rows.pop(here[0]["step"], [])
        if self._small:
            here, there = asked(here, there)
        pairs, missing = match(here, there, self._same)
        for row, kept in pairs:
            told = {k: v for k, v in row.items() if k != "sketch"}
            data: dict[str, Any] = {**told, "matched": kept is not None, "problem": ""}
            if kept is not None:
                self._met += 1
                data.update(self._soft.compared(row, kept, self._same))
                self._coarsest = coarser(self._coarsest, data.get("dtype", "f64"))
            self._tell(data)
        for kept in missing:
            told = {k: v for k, v in kept.items() if k not in ("sketch", "noise")}
            self._tell({**told, "matched": False, "problem": "missing"})
        self._of += max(len(here), len(there))

    def _tell(self, data: dict[str, Any]) -> None:
        sink = self._tools.sink
        sink.event("reference.row", data, step=data["step"], id=str(self._number))
        self._number += 1

    @property
    def _compared(self) -> list[int]:
        """Steps that can be compared: of another order of data only those before the gap."""
        return [step for step in self._steps if step < GAP or not self._replaced]

    def _comparable(self) -> bool:
        return self._step < GAP or not self._replaced

    def disarm(self) -> None:
        sink = self._tools.sink
        self.fetch()
        self._match()
        head = self._reader.head
        lost = [name for name in self._given if "/given/" in name and name not in self._taken]
        if self._small and (self._odd or lost):
            names = ", ".join((*self._odd, *lost)[:3])
            why = f"{len(self._odd) + len(lost)} tensors of it could not be put in place: {names}"
            sink.fact("numerics.reference", Unknown(f"the checkpoint and batch do not fit: {why}"))
            return
        if not self._steps or not (self._met or self._small):
            sink.fact(
                "numerics.reference", Unknown("no step of the reference's ladder was examined")
            )
            return
        if self._undrawn:
            what = f"{len(self._undrawn)} random draws of this run ({self._undrawn[0]} first)"
            said = f"{what} have no counterpart in the reference: masks differ"
            sink.fact("numerics.reference", Unknown(said))
            return
        value: dict[str, Any] = {
            "steps": [0] if self._small else self._compared,
            "of": head.get("steps", []),
            "rows": self._met,
            "rows_of": self._of,
            "same_machine": self._same,
            "coarsest": self._coarsest,
            "noise": head.get("noise", 0),
            "rerun": bool(head.get("rerun")),
            "fed": dict(self._fed),
        }
        sink.fact("numerics.reference", Evidence("numerics.reference", value))
        losses = self.losses()[: 1 if self._small else GAP if self._replaced else None]
        curve = {
            "here": losses,
            "there": head.get("losses", []),
            "band": head.get("band", []),
        }
        sink.fact("numerics.curve", Evidence("numerics.curve", curve))
