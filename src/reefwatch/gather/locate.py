"""Where a dispatched op came from: its site, for a backward op that of its forward.

No function mode and no module hooks (docs/decisions/0001): the module and the line come from the
Python frames above the op, the forward op of a backward one from autograd's sequence numbers, the
autocast state from the regions that are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from reefwatch.gather.frames import (
    COMPILED,
    ENGINE,
    MODULE,
    OPTIMIZER,
    USER,
    Codes,
    Modules,
    Site,
    is_graph,
    user_line,
)
from reefwatch.gather.regions import OFF, Regions


class Op(NamedTuple):
    """What is known of one op: `node` is what autograd calls its backward, without `Backward0`."""

    name: str
    writes: bool
    node: str
    func: Any


_PRODUCTS = frozenset(
    ("Mm", "Addmm", "Bmm", "Baddbmm", "Addbmm", "Mv", "Addmv", "Dot", "Linear", "Convolution")
)


# Under a dispatch mode torch takes another path, with other last bits, in the backward of the first
# and in the no-grad form of the second (scripts/verify/loop_ops.py, docs/decisions/0004).
_SHY_BACKWARD = frozenset(("Prod", "Ormqr", "LinalgEig", "LinalgLstsq"))
SHY_FORWARD = frozenset(("LinalgSvd", "LinalgEigh", "LinalgLstsq"))


class Locator:
    """Tells sites, and follows the phase of the step while it does."""

    def __init__(self, torch: Any, regions: Regions) -> None:
        self.phase = "setup"
        self.codes = Codes(torch)
        self.modules = Modules()
        self.unseen: dict[str, int] = {}
        """What ran where nobody could look, with how often it was met."""
        self.shy = False
        """True when a dispatch mode is the eye, before which some ops run otherwise."""
        self.shy_backward = False
        """True when the backward of this step has to run without the layer."""
        self.ops: dict[int, Op] = {}
        self._regions = regions
        self._sites: dict[tuple[Any, ...], Site] = {}
        self._back: dict[Site, Site] = {}
        self._updates: dict[tuple[int, int], Site] = {}
        self._forward: dict[int, Site] = {}
        self._nodes: dict[tuple[int, str], Site] = {}
        """Sites of what the engine runs by itself, by the node's number and name, in this step."""
        self._products: dict[int, str] = {}
        self._taken: dict[tuple[int, str], Site] = {}
        """By a node's number and name, the site that took its result, in this step."""
        self._orphans: dict[tuple[Site, bool], Site] = {}
        self._sequence = 0
        self._last = Site()
        self._wrote = False
        self._current_node: Callable[[], Any] = torch._C._current_autograd_node
        self._peek: Callable[[], int] = torch._C._autograd._get_sequence_nr

    def begin(self) -> None:
        """A step begins: forget the graph of the one before."""
        self.phase, self.shy_backward = "setup", False
        self._forward.clear()
        self._nodes.clear()
        self._products.clear()
        self._taken.clear()
        self._sequence = self._peek()
        self._last, self._wrote = Site(), False
        self._regions.settle()

    def learn(self, func: Any) -> Op:
        """What is told of an op once. The op is kept with it, so that its id stays its own."""
        name = str(func)
        space, _, rest = name.partition(".")
        schema = getattr(func, "_schema", None)
        writes = schema is not None and any(
            a.alias_info is not None and a.alias_info.is_write for a in schema.arguments
        )
        words = rest.partition(".")[0].strip("_").split("_")
        known = Op(name, writes, "".join(word.capitalize() for word in words), func)
        self.ops[id(func)] = known
        if not hasattr(func, "_schema"):
            self.miss(f"inside the higher-order operator {name}")
        elif space not in ("aten", "prims", "prim", "profiler", "inductor", "quantized", "mkldnn"):
            self.miss(f"inside the custom operator {name.rpartition('.')[0]}")
        return known

    def miss(self, reason: str) -> None:
        """Note something that cannot be seen."""
        self.unseen[reason] = self.unseen.get(reason, 0) + 1

    def locate(self, frame: FrameType | None, out: Any, op: Op) -> Site:
        """The site of `op`, which gave `out` and was dispatched from `frame`.

        `frame` is None on a thread of autograd's own, which has no Python above the op.
        """
        node = self._current_node()
        if node is not None:
            return self._locate_backward(frame, out, node)
        kinds, learn = self.codes.kinds, self.codes.learn
        line_frame: FrameType | None = None
        module: Any = None
        graph: Any = None  # what compiled code is kept in; or the user's own traced model
        compiled = False
        at: FrameType | None = frame
        while at is not None:
            code = at.f_code
            kind = kinds.get(id(code)) or learn(code)
            if kind >= USER:
                if line_frame is None:
                    line_frame = at
                    if module is not None:
                        break
            elif kind == MODULE:
                if module is None:
                    module = at.f_locals.get("self")
                    if compiled and not self.modules.owns(module) and is_graph(module):
                        graph, module = graph or module, None
                    elif line_frame is not None:
                        break
            elif kind == OPTIMIZER:
                if line_frame is None:
                    return self._update(at)
            elif kind == COMPILED:
                compiled = True
            at = at.f_back
        module = module if module is not None else graph
        if module is not None:
            self.phase = "forward"
        elif self.phase == "backward":
            self.phase = "setup"
        path = "" if module is None else self.modules.path(module, frame, self.codes)
        site = self._site(path, line_frame, self.phase, self._state(out), compiled)
        sequence = self._peek()
        if sequence != self._sequence:
            # a node between the last op's and this one's: an in-place op on a view makes one when
            # it has returned; any other belongs to a custom Function that this op is the first of
            between = self._last if self._wrote else site
            for number in range(self._sequence, sequence - 1):
                self._forward[number] = between
            self._forward[sequence - 1] = site
            if self.shy and op.node in _SHY_BACKWARD:
                self.shy_backward = True
                self.miss(f"the backward of {op.name}, which runs otherwise when looked at")
            if op.node in _PRODUCTS:
                self._products[sequence - 1] = op.node
            self._sequence = sequence
        self._last, self._wrote = site, op.writes
        return site

    def _update(self, frame: FrameType) -> Site:
        key = (id(frame.f_code), frame.f_lasti)
        site = self._updates.get(key)
        if site is None:
            site = self._updates[key] = self._site("", frame, "optimizer", OFF, False)
        return site

    def _state(self, out: Any) -> tuple[str, str | None]:
        now = self._regions.here.now
        if not now:
            return OFF
        tensor = out[0] if type(out) in (tuple, list) and out else out
        if getattr(tensor, "is_cpu", False):  # far cheaper to ask than a device's type
            return now.get("cpu", OFF)
        device = getattr(tensor, "device", None)
        return now.get(device.type, OFF) if device is not None else next(iter(now.values()))

    def _site(
        self,
        path: str,
        frame: FrameType | None,
        phase: str,
        state: tuple[str, str | None],
        compiled: bool,
    ) -> Site:
        key = (
            path,
            0 if frame is None else id(frame.f_code),
            0 if frame is None else frame.f_lasti,
            phase,
            state,
            compiled,
        )
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(
                path,
                "" if frame is None else frame.f_code.co_filename,
                0 if frame is None else frame.f_lineno,
                phase,
                *state,
                caller="" if frame is None else user_line(frame, self.codes),
                compiled=compiled,
            )
        return site

    def _locate_backward(self, frame: FrameType | None, out: Any, node: Any) -> Site:
        """An op that a node of the graph runs: the node's forward site, and its own line if any."""
        self.phase = "backward"
        number, name = node._sequence_nr(), node.name()
        alone = frame is None or self.codes.kinds.get(id(frame.f_code)) == ENGINE
        if alone:  # no Python between the engine and the op: the same site for all of the node's
            site = self._nodes.get((number, name))
            if site is None:
                site = self._nodes[number, name] = self._of_node(frame, out, number, name)
                self._hand_on(node, site.origin or self._taken.get((number, name)))
            return site
        return self._of_node(frame, out, number, name)

    def _of_node(self, frame: FrameType | None, out: Any, number: int, name: str) -> Site:
        origin = self._forward.get(number)
        kind = name.partition("Backward")[0]
        if kind in _PRODUCTS and self._products.get(number) != kind:
            origin = None  # numbers are given out by each thread: this node is another thread's
        own, module, compiled = self._python_in_backward(frame)
        if own is not None:
            # recomputed forward (checkpointing), or the backward of the user's own Function
            if module is None:
                state = (origin.autocast, origin.region) if origin is not None else self._state(out)
                site = self._site("", own, "backward", state, compiled)
                return site if origin is None else self._joined(origin, site)
            path = self.modules.path(module, frame, self.codes)
            site = self._site(path, own, "backward", self._state(out), compiled)
            sequence = self._peek()
            for number in range(self._sequence, sequence):
                self._forward[number] = site
            self._sequence = max(self._sequence, sequence)
            return site
        if origin is None:
            return self._orphan(self._taken.get((number, name)), compiled)
        back = self._back.get(origin)
        if back is None:
            back = self._back[origin] = Site(
                origin.module,
                origin.file,
                origin.line,
                "backward",
                origin.autocast,
                origin.region,
                origin.caller,
                origin.compiled or compiled,
                origin,
            )
        return back

    def _hand_on(self, node: Any, taker: Site | None) -> None:
        """The nodes that this one hands its gradients to gave their result to `taker`."""
        if taker is not None:
            for child, _ in node.next_functions:
                if child is not None:
                    self._taken.setdefault((child._sequence_nr(), child.name()), taker)

    def _orphan(self, taker: Site | None, compiled: bool) -> Site:
        """A node whose forward was not seen: no line, but where its result was taken as caller."""
        if taker is None:
            return self._site("", None, "backward", OFF, compiled)
        site = self._orphans.get((taker, compiled))
        if site is None:
            caller = f"{taker.file}:{taker.line}" if taker.file else ""
            site = self._orphans[taker, compiled] = Site(
                taker.module, "", 0, "backward", *OFF, caller=caller, compiled=compiled
            )
        return site

    def _joined(self, origin: Site, own: Site) -> Site:
        key = (origin, own)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = Site(
                origin.module,
                own.file,
                own.line,
                "backward",
                origin.autocast,
                origin.region,
                own.caller,
                own.compiled,
            )
        return site

    def _python_in_backward(self, frame: FrameType | None) -> tuple[FrameType | None, Any, bool]:
        """(line frame, module, compiled) of Python code that runs between the engine and the op."""
        kinds, learn = self.codes.kinds, self.codes.learn
        line_frame: FrameType | None = None
        module: Any = None
        compiled = False
        at: FrameType | None = frame
        while at is not None:
            kind = kinds.get(id(at.f_code)) or learn(at.f_code)
            if kind == ENGINE:
                break
            if kind == MODULE and module is None:
                module = at.f_locals.get("self")
            elif kind == COMPILED:
                compiled = True
            elif kind >= USER and line_frame is None:
                line_frame = at
            at = at.f_back
        return line_frame, module, compiled
