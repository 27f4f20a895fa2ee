"""The precision audit: what was dispatched, in which dtype, from where, and why."""

from __future__ import annotations

from typing import Any

from reefwatch.core.dtypes import FLOATS, HIGH
from reefwatch.core.errors import Breach
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.precision.arithmetic import kind_of
from reefwatch.gather.precision.blame import Blame
from reefwatch.gather.precision.cause import Policy, of_backward, of_cast, of_op
from reefwatch.gather.precision.eager import Eager
from reefwatch.gather.precision.rows import Row
from reefwatch.gather.precision.saved import Kept
from reefwatch.gather.precision.state import State, flags
from reefwatch.gather.precision.told import facts_of
from reefwatch.gather.precision.updates import Asked, Updates
from reefwatch.gather.regions import Regions, follow, unfollow

_SDPA_MATH = "aten._safe_softmax"
"""Dispatched by the plain path of scaled_dot_product_attention alone (torch 2.5 and newer)."""


class PrecisionAudit(Instrument):
    """Fills the section Precision of docs/record.md."""

    name = "precision"
    contract = "precision"
    wants_ops = True
    wrapped = True

    def arm(self, tools: Tools) -> None:
        torch = tools.torch
        self.tools = tools
        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._short: dict[Any, str] = {}
        self._plans: dict[int, tuple[str, Any, bool, bool, Any]] = {}
        self.rows: dict[tuple[Any, ...], Row] = {}
        self.trail: list[Row] | None = None
        """The rows in the order of their calls, while somebody wants to know it."""
        self.regions: Regions = follow(tools)
        self._policy = Policy(torch)
        self._kept = Kept(torch)
        self._blame = Blame(torch, self._kept)
        self._eager = Eager()
        self._holding = False
        self._twice = False  # until a backward makes a graph of its own (`create_graph`)
        self.state = State()
        self.updates = Updates()
        self.asked = Asked(torch)
        self.saved: dict[str, int] = {}
        self._saved_by: dict[tuple[Row, str], int] = {}
        self._told_by: set[tuple[Row, str]] = set()
        self._pending: list[tuple[Row, int, int]] = []
        self._unsure: list[tuple[Row, int, int]] = []
        """Upcasts under a `_log_softmax`, which the op after it tells of: cross entropy, or not."""
        self._weights_cast: dict[int, int] = {}
        self._device = "cpu"
        self.devices: set[str] = set()
        self._policy_sites: set[Any] = set()
        self._heads: dict[Any, Row] = {}
        """By forward site, the row that a backward op of it takes its cause from."""
        self.layer: Any = None
        self.flags: dict[str, Any] = {}
        self.examined = self.of = self.orphans = 0
        self.seen_modules: set[str] = set()
        self._measured = 0
        self.compiled_calls = 0

    def on_optimizer(self, optimizer: Any) -> None:
        self.state.add_optimizer(optimizer)

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        self.of += 1
        if self.tools.referee is not None:
            row = self._eager.gone()
            if row is not None:
                self._ask(row)

    def after_update(self, optimizer: Any, examined: bool) -> None:
        if examined and self._measured < 4:
            self._measured += 1
            self.state.add_optimizer(optimizer)  # it may be older than the watch
            self.state.measure()
            self.updates.ended(optimizer)

    # -- one op ------------------------------------------------------------------------------

    def on_op(self, call: Any) -> None:
        func, out = call.func, call.out
        plan = self._plans.get(id(func))
        if plan is None:
            plan = self._plan(func, call.name)
        site, tensor = call.site, self._tensor
        single = isinstance(out, tensor)
        ins = tuple([a.dtype for a in call.args if isinstance(a, tensor)])
        if not ins:
            ins = self._nested(call.args)
        if not single and not ins:
            if self.trail is not None:
                self.trail.append(_SILENT)
            return
        if self._unsure:
            self._resolve(call)
        key = (site, id(func), ins, out.dtype if single else None)
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = self._row(call, plan, ins)
        if self._pending:
            self._settle(call)
        row.calls += 1
        if self.trail is not None:
            self.trail.append(row)
        if row.kind == "cast":
            self._on_cast(call, row)
        elif site.phase == "optimizer" and self._measured < 4:
            self.updates.count(call.name)
        if row.formula is not None:
            try:
                row.flops += row.formula(call.args, out)
            except RuntimeError:  # a nested tensor has no sizes
                call.layer.locator.miss("the size of products of nested tensors")
        if row.makes:
            if self._holding and site.phase == "backward":
                self._count_saved()
            if single:
                if out.layout is self._strided:  # sparse tensors have no storage of their own
                    if row.floats:
                        row.bytes += out.nbytes
                    if row.keeps:
                        self._keep(out, row)
            elif isinstance(out, (tuple, list)):
                for made in out:
                    if isinstance(made, tensor) and made.layout is self._strided:
                        if self._name(made.dtype) in FLOATS:
                            row.bytes += made.nbytes
                        if row.keeps:
                            self._keep(made, row)

    def _plan(self, func: Any, name: str) -> tuple[str, Any, bool, bool, Any]:
        """(kind, flop formula, makes new memory, writes into an argument, the op itself)."""
        kind, formula = kind_of(name)
        schema = getattr(func, "_schema", None)
        alias = [a.alias_info for a in schema.arguments if a.alias_info] if schema else []
        writes = any(info.is_write for info in alias)
        plan = (kind, formula, not alias, writes, func)
        self._plans[id(func)] = plan
        return plan

    def _nested(self, args: Any) -> tuple[Any, ...]:
        """Dtypes of the first list of tensors; the `_foreach` and `cat` ops have no other."""
        for arg in args:
            if isinstance(arg, (list, tuple)):
                found = dict.fromkeys(a.dtype for a in arg if isinstance(a, self._tensor))
                if found:
                    return tuple(found)
        return ()

    def _name(self, dtype: Any) -> str:
        name = self._short.get(dtype)
        if name is None:
            name = self._short[dtype] = short(dtype)
        return name

    def _keep(self, made: Any, row: Row) -> None:
        if type(made) in self._plain and made.numel():
            self._holding = True
            self._kept.add(made, self._name(made.dtype), row, row.site.phase == "forward")

    def _row(self, call: Any, plan: tuple[str, Any, bool, bool, Any], ins: Any) -> Row:
        """A new row: everything that is told once per op and site."""
        kind, formula, makes, writes, _ = plan
        if self.layer is None:
            self.layer = call.layer
        row = Row(len(self.rows), call.name, kind, formula, call.site)
        row.makes = makes
        row.ins = tuple(self._name(dtype) for dtype in ins)
        out = call.out if isinstance(call.out, (tuple, list)) else (call.out,)
        made = [t for t in out if isinstance(t, self._tensor)]
        row.outs = tuple(self._name(t.dtype) for t in made)
        row.floats = row.outs[:1] != () and row.outs[0] in FLOATS
        if call.site.compiled:
            row.grade = "predicted"
        if kind == "cast" and not (row.ins[0] in FLOATS and row.outs[:1] != row.ins[:1]):
            kind = row.kind = "other"
        if call.site.phase == "forward":
            self.seen_modules.add(call.module)
        if call.name.startswith(_SDPA_MATH) and made:
            row.length = int(made[0].shape[-1])
        if call.site.phase == "backward" and not call.site.file and kind in ("matmul", "conv"):
            self.orphans += 1
            if self._twice:
                row.cause = "double backward"
        if call.phase == "backward" and not self._twice:
            self._twice = self.tools.torch.is_grad_enabled()
        self._find_cause(row, call, writes)
        if kind in ("matmul", "conv"):
            if made:
                self._device = made[0].device.type
                self.devices.add(self._device)
            self._ask(row.as_dict())
        elif row.length:
            self._ask(row.as_dict())
        return row

    # -- casts and causes --------------------------------------------------------------------

    def _find_cause(self, row: Row, call: Any, writes: bool) -> None:
        site = call.site
        if row.kind != "cast" and row.cause is None:
            before = self._cast_before(call)
            row.cause = of_op(row.kind, row.ins, row.outs, site, before, writes)
            if row.cause == before == "explicit upcast":
                self._doubt(row, call.name.split(".")[1], self._here(call))
            if row.kind in ("matmul", "conv"):
                if row.cause == "policy":
                    self._policy_sites.add(site)
                elif row.cause == "inherited" and site.origin in self._policy_sites:
                    row.cause = "policy"
        if site.phase == "backward" and (row.cause is None or site.region is None):
            head = self._heads.get(site.origin)
            # the gradient of a weight that was cast down is fp32 as the weight is
            down = head is not None and head.kind == "cast" and head.outs[0] not in HIGH
            forward = None if head is None or down else head.cause
            row.cause = row.cause or of_backward(row.ins, row.outs, forward)
            if head is not None and row.cause is not None:
                row.origin = head.origin
        elif row.cause in ("inherited", "type promotion", "autocast off") or row.kind == "cast":
            self._charge(row, call)
        if site.phase != "backward":
            head = self._heads.get(site)
            if head is None or (head.cause is None and row.cause is not None):
                self._heads[site] = row

    def _charge(self, row: Row, call: Any) -> None:
        """Charge fp32 that came from elsewhere to the op that brought it in."""
        modules = self.layer.modules if self.layer is not None else None
        owner, row.origin = self._blame.of(call.args, modules)
        if owner is None:
            return
        if row.cause == "inherited":
            row.root = owner.root
        if owner.kind == "cast":
            owner.feeds.add(call.name.split(".")[1])

    def _on_cast(self, call: Any, row: Row) -> None:
        arg = call.args[0]
        if isinstance(arg, self._parameter) and call.phase == "forward":
            if self._weights_cast.get(id(arg)) == self.regions.here.entered:
                row.recasts += 1
            self._weights_cast[id(arg)] = self.regions.here.entered
        if row.site.phase != "backward":
            self._pending.append((row, *self._here(call)))

    def _here(self, call: Any) -> tuple[int, int]:
        """What tells the calls of the program apart; one call of a replayed policy is one."""
        replay = self.tools.options.get("replay")
        if replay is not None and replay.inside:
            return 0, -replay.inside
        return call.frame, call.lasti

    def _settle(self, call: Any) -> None:
        """The op after a cast tells whether the cast was written there or belongs to a call."""
        _, frame, lasti = self._pending[-1]
        if (frame, lasti) == self._here(call):
            if call.name.startswith("aten._to_copy"):
                return
            self._close_casts(call.name.split(".")[1], True)
        else:
            self._close_casts("", False)

    def _resolve(self, call: Any) -> None:
        """The op after a `_log_softmax` tells whether it was a part of cross entropy."""
        same = call is not None and self._unsure[-1][1:] == self._here(call)
        if same and call.name.startswith("aten.detach"):
            return  # what autograd saves
        unsure, self._unsure = self._unsure, []
        if not (same and "nll_loss" in call.name):
            for row, *_ in unsure:
                row.cause = "explicit upcast"

    def _close_casts(self, consumer: str, one_call: bool) -> None:
        for row, frame, lasti in self._pending:
            up = row.outs[0] in HIGH and row.ins[0] not in HIGH
            if up and one_call:
                row.feeds.add(consumer)
            if row.cause is None and row.site.phase != "backward":
                listed = not frame or self._lists(consumer)
                row.cause = of_cast(up, one_call, consumer, listed, row.site.autocast)
                if one_call and row.cause == "explicit upcast":
                    self._doubt(row, consumer, (frame, lasti))
        self._pending.clear()

    def _doubt(self, row: Row, consumer: str, place: tuple[int, int]) -> None:
        """Where autocast lists the whole of cross entropy, the upcast in it may be its policy."""
        on = consumer == "_log_softmax" and row.site.autocast != "off"
        if on and self._lists("cross_entropy_loss"):
            row.cause = "policy"
            self._unsure.append((row, *place))

    def _lists(self, base: str) -> bool:
        return bool(base) and self._policy.lists(base, self._device)

    def _cast_before(self, call: Any) -> str | None:
        """The cause of an upcast that belongs to the same call as this op, if there is one."""
        here = self._here(call)
        ups = [row for row, *place in self._pending if tuple(place) == here and row.outs[0] in HIGH]
        if not ups:
            return None
        base = call.name.split(".")[1]
        listed = not here[0] or self._lists(base)
        return of_cast(True, True, base, listed, call.autocast)

    def _ask(self, row: dict[str, Any]) -> None:
        """Strict mode: raise at the first row that breaks the contract."""
        referee = self.tools.referee
        message = None if referee is None else referee.breach(self.contract, row)
        if message is not None:
            raise Breach(message)

    # -- saved for backward ------------------------------------------------------------------

    def _count_saved(self) -> None:
        """The backward begins: what still lives of the forward is what it keeps."""
        total: dict[str, int] = {}
        by: dict[tuple[Row, str], int] = {}
        for size, dtype, owner in self._kept.alive():
            total[dtype] = total.get(dtype, 0) + size
            key = owner.root, dtype
            by[key] = by.get(key, 0) + size
        if sum(total.values()) > sum(self.saved.values()):
            self.saved, self._saved_by = total, by
        self._kept.clear()
        self._holding = False

    # -- the end of a step, and of the run ---------------------------------------------------

    def close(self, step: int) -> bool:
        self.flags = flags(self.tools.torch, self.flags)  # scripts set them after the import
        self.examined += 1
        self._close_casts("", False)
        if self._unsure:
            self._resolve(None)
        self._kept.clear()
        self._holding = False
        self._weights_cast.clear()
        new = any(not row.written for row in self.rows.values())
        if new and self.layer is not None:
            self.asked.read(self.layer.modules)
        if new or self.examined & (self.examined - 1) == 0:
            self._write()
        return new

    def release(self) -> None:
        self._kept.clear()
        self._pending.clear()
        self._weights_cast.clear()

    def disarm(self) -> None:
        self._write()
        unfollow(self.tools)

    def _write(self) -> None:
        sink = self.tools.sink
        for row in self.rows.values():
            if row.written != row.calls:
                row.written = row.calls
                sink.event("precision.op", row.as_dict(), id=str(row.number))
        for row, dtype in self._told_by - self._saved_by.keys():  # of a step that kept less
            sink.event("precision.saved_by", row.saved(dtype, 0), id=f"{row.number} {dtype}")
        for (row, dtype), size in self._saved_by.items():
            sink.event("precision.saved_by", row.saved(dtype, size), id=f"{row.number} {dtype}")
        self._told_by = set(self._saved_by)
        for name, fact in facts_of(self).items():
            sink.fact(name, fact)


class _Nowhere:
    phase = "setup"


_SILENT = Row(-1, "", "other", None, _Nowhere())
"""Stands in the trail for an op without tensors."""
