"""The precision audit: what was dispatched, in which dtype, from where, and why."""

from __future__ import annotations

import sys
from typing import Any

from reefwatch.core.dtypes import FLOATS, HIGH
from reefwatch.core.errors import Breach
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short
from reefwatch.gather.instrument import Instrument, Tools
from reefwatch.gather.ops import OTHER_THREADS
from reefwatch.gather.precision.arithmetic import kind_of
from reefwatch.gather.precision.cause import Policy, of_cast, of_op
from reefwatch.gather.precision.claim import claim_of
from reefwatch.gather.precision.rows import Row
from reefwatch.gather.precision.saved import Kept
from reefwatch.gather.precision.state import State, flags
from reefwatch.gather.regions import Regions, follow, unfollow


class PrecisionAudit(Instrument):
    """Fills the section Precision of docs/record.md."""

    name = "precision"
    contract = "precision"
    wants_ops = True
    wrapped = True

    def arm(self, tools: Tools) -> None:
        torch = tools.torch
        self._tools = tools
        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._short: dict[Any, str] = {}
        self._plans: dict[int, tuple[str, Any, bool, bool, Any]] = {}
        self._rows: dict[tuple[Any, ...], Row] = {}
        self._regions: Regions = follow(tools)
        self._policy = Policy(torch)
        self._kept = Kept(torch)
        self._holding = False
        self._twice = False  # until a backward makes a graph of its own (`create_graph`)
        self._state = State()
        self._saved: dict[str, int] = {}
        self._saved_by: dict[tuple[Row, str], int] = {}
        self._pending: list[tuple[Row, int, int]] = []
        self._called: tuple[int, int, str | None] = (0, 0, None)
        self._weights_cast: dict[int, int] = {}
        self._device = "cpu"
        self._devices: set[str] = set()
        self._policy_sites: set[Any] = set()
        self._layer: Any = None
        self._flags: dict[str, Any] = {}
        self._examined = self._of = self._ops = self._orphans = 0
        self._seen_modules: set[str] = set()
        self._measured = 0
        self._compiled_calls = 0

    def on_optimizer(self, optimizer: Any) -> None:
        self._state.add_optimizer(optimizer)

    def on_step(self, step: int, seconds: float, examined: bool) -> None:
        self._of += 1

    def after_update(self, optimizer: Any, examined: bool) -> None:
        if examined and self._measured < 4:
            self._measured += 1
            self._state.add_optimizer(optimizer)  # it may be older than the watch
            self._state.measure()

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
            return
        key = (site, id(func), ins, out.dtype if single else None)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._row(call, plan, ins)
        if self._pending:
            self._settle(call)
        row.calls += 1
        if row.kind == "cast":
            self._on_cast(call, row)
        if row.formula is not None:
            row.flops += row.formula(call.args, out)
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
            self._kept.add(made, self._name(made.dtype), row.root, row.site.phase == "forward")

    def _row(self, call: Any, plan: tuple[str, Any, bool, bool, Any], ins: Any) -> Row:
        """A new row: everything that is told once per op and site."""
        kind, formula, makes, writes, _ = plan
        if self._layer is None:
            self._layer = call.layer
        row = Row(len(self._rows), call.name, kind, formula, call.site)
        row.makes = makes
        row.ins = tuple(self._name(dtype) for dtype in ins)
        out = call.out if isinstance(call.out, (tuple, list)) else (call.out,)
        row.outs = tuple(self._name(t.dtype) for t in out if isinstance(t, self._tensor))
        row.floats = row.outs[:1] != () and row.outs[0] in FLOATS
        if kind == "cast" and not (row.ins[0] in FLOATS and row.outs[:1] != row.ins[:1]):
            kind = row.kind = "other"
        if call.site.phase == "forward":
            self._seen_modules.add(call.module)
        if call.site.phase == "backward" and not call.site.file and kind in ("matmul", "conv"):
            self._orphans += 1
            if self._twice:
                row.cause = "double backward"
        if call.phase == "backward" and not self._twice:
            self._twice = self._tools.torch.is_grad_enabled()
        if kind != "cast" and row.cause is None:
            before = self._cast_before(call)
            row.cause = of_op(kind, row.ins, row.outs, call.site, before, writes)
            if kind in ("matmul", "conv"):
                if row.cause == "policy":
                    self._policy_sites.add(call.site)
                elif row.cause == "inherited" and call.site.origin in self._policy_sites:
                    row.cause = "policy"
            if row.cause in ("inherited", "type promotion"):
                self._blame(row, call)
        if kind in ("matmul", "conv"):
            first = next((t for t in out if isinstance(t, self._tensor)), None)
            if first is not None:
                self._device = first.device.type
                self._devices.add(self._device)
            self._judge(row)
        return row

    # -- casts and causes --------------------------------------------------------------------

    def _on_cast(self, call: Any, row: Row) -> None:
        arg = call.args[0]
        if isinstance(arg, self._parameter) and call.phase == "forward":
            if self._weights_cast.get(id(arg)) == self._regions.here.entered:
                row.recasts += 1
            self._weights_cast[id(arg)] = self._regions.here.entered
        if row.site.phase != "backward":  # a cast of the engine's has no cause to be found
            self._pending.append((row, call.frame, call.lasti))

    def _settle(self, call: Any) -> None:
        """The op after a cast tells whether the cast was written there or belongs to a call."""
        _, frame, lasti = self._pending[-1]
        if frame == call.frame and lasti == call.lasti:
            if call.name.startswith("aten._to_copy"):
                return
            self._close_casts(call.name.split(".")[1], True)
        else:
            self._close_casts("", False)

    def _close_casts(self, consumer: str, one_call: bool) -> None:
        for row, _, _ in self._pending:
            if row.cause is None and row.site.phase != "backward":
                up = row.outs[0] in HIGH and row.ins[0] not in HIGH
                listed = bool(consumer) and self._policy.lists(consumer, self._device)
                row.cause = of_cast(up, one_call, consumer, listed, row.site.autocast)
        self._pending.clear()

    def _cast_before(self, call: Any) -> str | None:
        """The cause of an upcast that belongs to the same call as this op, if there is one."""
        ups = [
            row
            for row, frame, lasti in self._pending
            if frame == call.frame and lasti == call.lasti and row.outs[0] in HIGH
        ]
        if not ups:
            return None
        base = call.name.split(".")[1]
        return of_cast(True, True, base, self._policy.lists(base, self._device), call.autocast)

    def _blame(self, row: Row, call: Any) -> None:
        """Charge fp32 that came from elsewhere to the op that brought it in."""
        for arg in call.args:
            if not isinstance(arg, self._tensor) or self._name(arg.dtype) not in HIGH:
                continue
            if isinstance(arg, self._parameter):
                row.origin = row.origin or "a parameter in fp32"
                continue
            stored = type(arg) in self._plain and arg.layout is self._strided
            owner: Row | None = self._kept.owner(arg) if stored else None
            if owner is None:
                row.origin = row.origin or "an input in fp32"
                continue
            root = owner.root
            if row.cause == "inherited":
                row.root = root
            row.origin = f"{root.name} at {root.site.file}:{root.site.line}"
            return

    def _judge(self, row: Row) -> None:
        """Strict mode: raise at the first row that breaks the contract."""
        referee = self._tools.referee
        if referee is None:
            return
        message = referee.breach(self.contract, row.as_dict())
        if message is not None:
            raise Breach(message)

    # -- saved for backward ------------------------------------------------------------------

    def _count_saved(self) -> None:
        """The backward begins: what still lives of the forward is what it keeps."""
        total: dict[str, int] = {}
        by: dict[tuple[Row, str], int] = {}
        for size, dtype, owner in self._kept.alive():
            total[dtype] = total.get(dtype, 0) + size
            by[owner, dtype] = by.get((owner, dtype), 0) + size
        if sum(total.values()) > sum(self._saved.values()):
            self._saved, self._saved_by = total, by
        self._kept.clear()
        self._holding = False

    # -- the end of a step, and of the run ---------------------------------------------------

    def close(self, step: int) -> bool:
        self._flags = flags(self._tools.torch, self._flags)  # scripts set them after the import
        self._examined += 1
        self._close_casts("", False)
        self._kept.clear()
        self._holding = False
        self._weights_cast.clear()
        new = any(not row.written for row in self._rows.values())
        if new or self._examined & (self._examined - 1) == 0:
            self._write()
        return new

    def release(self) -> None:
        self._kept.clear()
        self._pending.clear()
        self._weights_cast.clear()

    def disarm(self) -> None:
        self._write()
        unfollow(self._tools)

    def _write(self) -> None:
        sink = self._tools.sink
        for row in self._rows.values():
            if row.written != row.calls:
                row.written = row.calls
                sink.event("precision.op", row.as_dict(), id=str(row.number))
        for (row, dtype), size in self._saved_by.items():
            site = row.site
            data = {
                "module": site.module,
                "dtype": dtype,
                "bytes": size,
                "op": row.name,
                "cause": row.cause,
                "origin": row.origin,
                "caller": site.caller,
                "file": site.file,
                "line": site.line,
            }
            sink.event("precision.saved_by", data, id=f"{row.number} {dtype}")
        for name, fact in self._facts().items():
            sink.fact(name, fact)

    def _facts(self) -> dict[str, Evidence | Unknown]:
        facts: dict[str, Evidence | Unknown] = {}
        if self._examined:
            facts["precision.ops"] = Evidence("precision.ops", self._coverage())
        else:
            facts["precision.ops"] = Unknown("no step was examined at op level")
        facts["precision.saved"] = (
            Evidence("precision.saved", dict(self._saved), "bytes", "weak storage references")
            if self._saved
            else Unknown("no backward was seen in an examined step")
        )
        if self._state.param:
            facts["precision.state"] = Evidence("precision.state", self._state.as_dict(), "bytes")
        else:
            facts["precision.state"] = Unknown("no optimizer update was seen in an examined step")
        if self._flags:
            facts["precision.flags"] = Evidence("precision.flags", self._flags)
        facts.update(self._flops())
        if not self._tools.options.get("claim"):
            seen = {dtype for _, dtype in self._regions.seen}
            sites = [row.site for row in self._rows.values()] if self._examined else []
            facts["claim.precision"] = claim_of(seen, sites, bool(self._compiled_calls))
        return facts

    def _flops(self) -> dict[str, Evidence | Unknown]:
        """Flops of matmul and convolution by dtype, in all and inside regions; the regions seen."""
        all_: dict[str, int] = {}
        inside: dict[str, int] = {}
        for row in self._rows.values():
            if row.kind in ("matmul", "conv"):
                dtype = next((d for d in row.ins if d in FLOATS), "other")
                all_[dtype] = all_.get(dtype, 0) + row.flops
                if row.site.region is not None:
                    inside[dtype] = inside.get(dtype, 0) + row.flops
        regions: dict[str, dict[str, int]] = {}
        for (device, dtype), count in self._regions.seen.items():
            regions.setdefault(device, {})[dtype] = count
        autocast: dict[str, Any] = {
            "regions": regions,
            "devices": sorted(self._devices),
            "inside": bool(inside),
        }
        nothing = "no matmul or convolution was seen"
        hidden = " outside of compiled code" if self._compiled_calls else ""
        facts: dict[str, Evidence | Unknown] = {
            "precision.compute": Evidence("precision.compute", all_, "flops", "dispatch")
            if all_
            else Unknown(f"{nothing}{hidden} in an examined step"),
            "precision.region": Evidence("precision.region", inside, "flops", "dispatch")
            if inside
            else Unknown(f"{nothing} inside an autocast region{hidden} in an examined step"),
            "precision.autocast": Evidence("precision.autocast", autocast),
        }
        if not all_:
            facts["precision.autocast"] = facts["precision.compute"]
        elif not inside and self._layer is not None and OTHER_THREADS in self._layer.unseen:
            why = "other threads trained, and autocast may have been entered in them"
            facts["precision.autocast"] = Unknown(why)
        elif self._compiled_calls and not inside:
            why = "compiled code ran, and autocast may have been entered inside it"
            facts["precision.autocast"] = Unknown(why)
        return facts

    def _coverage(self) -> dict[str, Any]:
        layer = self._layer
        with_weights: set[str] = set()
        unseen: list[str] = []
        if layer is not None:
            with_weights = layer.modules.weighted
            unseen.extend(layer.unseen)
        unseen.extend(self._unseen())
        return {
            "steps": self._examined,
            "steps_of": max(self._of, self._examined),
            "ops": sum(row.calls for row in self._rows.values()),
            "modules_seen": len(with_weights & self._seen_modules),
            "modules_total": len(with_weights),
            "compiled_calls": self._compiled_calls,
            "unseen": unseen,
        }

    def _unseen(self) -> list[str]:
        reasons = []
        dynamo = sys.modules.get("torch._dynamo")
        if dynamo is not None:
            graphs = int(dynamo.utils.counters["stats"].get("unique_graphs", 0))
            if graphs:
                self._compiled_calls = graphs
                reasons.append(f"inside {graphs} compiled graphs")
        if self._orphans:
            what = f"the forward of {self._orphans} products whose backward was seen"
            reasons.append(f"{what} (another thread, or an earlier step)")
        return reasons
