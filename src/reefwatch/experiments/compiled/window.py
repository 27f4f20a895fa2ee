"""The smallest part of the captured graph that still departs, with the inputs that it had."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from reefwatch.experiments.compiled.ladder import compiled_by, labels, with_history
from reefwatch.experiments.compiled.taps import Taps
from reefwatch.gather.compiled.copies import Copies, plain
from reefwatch.gather.compiled.guard import Later
from reefwatch.gather.compiled.trial import RANDOM, SUM, Rules, Trial, judge_again
from reefwatch.gather.compiled.world import replaced

TRIALS = 40
FEW = 3
"""Ops of a window that is told of as it is."""
_CONTEXTS = ("_enter_autocast", "_exit_autocast", "_set_grad_enabled", "_enter_inference_mode")
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


@dataclass
class Window:
    """A part of a graph that departs alone."""

    graph: GraphModule
    inputs: tuple[Any, ...]
    labels: tuple[str, ...]
    nodes: list[Node] = field(default_factory=list)
    trials: int = 0
    first: Node | None = None
    """The first that departs while the graph is whole; None when it could not be told."""

    @property
    def named(self) -> list[Node]:
        """The nodes that are told of: a long window says less than the first that departs."""
        if self.first is None or len(self.nodes) <= FEW:
            return self.nodes
        return [self.first]

    @property
    def ops(self) -> list[str]:
        return [name(node) for node in self.named]

    @property
    def source(self) -> str:
        """`file:line` of the last node whose line is the program's own."""
        for node in reversed(self.named):
            line = user_line(node)
            if line:
                return line
        return ""

    @property
    def module(self) -> str:
        """Path of the module that the last node belongs to."""
        for node in reversed(self.named):
            path = module_path(node)
            if path:
                return path
        return ""


def name(node: Node) -> str:
    """`softmax`, `linear`, `add_`."""
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", node.target)).rpartition(".")[2] or str(node.target)


def user_line(node: Node) -> str:
    """The innermost line outside of torch that a node came from."""
    lines = (node.meta.get("stack_trace") or "").splitlines()
    for line in reversed(lines):
        text = line.strip()
        if text.startswith('File "'):
            file, _, rest = text[6:].partition('", line ')
            number = rest.partition(",")[0]
            if not file.startswith(_TORCH) and number.isdigit() and "<" not in file:
                return f"{file}:{number}"
    return ""


def module_path(node: Node) -> str:
    """`layers.0.norm`, from the stack of modules that dynamo kept."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    for noise in ("L['self']", "L['fn']", "L['module']"):
        path = path.replace(noise, "")
    path = path.replace("._modules['", ".").replace("']", "").replace("['", ".")
    return path.strip(".").removeprefix("fn.").removeprefix("self.")


def captured(later: Later) -> list[tuple[GraphModule, tuple[Any, ...]]]:
    """The graphs of the call, each with copies of the inputs that it was run with."""
    found: list[tuple[GraphModule, tuple[Any, ...]]] = []

    def recording(graph: GraphModule, examples: Any) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            copies = Copies()
            fine = all(plain(a) for a in args if isinstance(a, torch.Tensor))
            if fine:
                found.append((graph, tuple(replaced(a, copies.of) for a in args)))
            return graph.forward(*args)

        return call

    compiled = compiled_by(later.use, recording)
    with_history(later, compiled)
    found.clear()
    later.trial.run(compiled, (), eager=False)
    return found


class Search:
    """Looks for the smallest window of one graph."""

    def __init__(
        self,
        graph: GraphModule,
        inputs: tuple[Any, ...],
        later: Later,
        backend: Any,
        path: str,
        going: Callable[[], bool],
    ) -> None:
        self.graph, self.inputs, self.later = graph, inputs, later
        self.backend, self.going = backend, going
        self.tapped = path.startswith(("output", "gradient"))
        self.labels = labels(path) or ((RANDOM, SUM) if path == "exception" else ())
        self.count = 0
        self.nodes = [
            node
            for node in graph.graph.nodes
            if node.op not in ("placeholder", "output", "get_attr")
        ]
        self.values: dict[Node, Any] = {}

    def find(self) -> Window | None:
        """None when the graph alone does not depart."""
        whole = Window(self.graph, self.inputs, self.labels, list(self.nodes))
        if not self._departs(self.graph, self.inputs):
            return None
        if not self._record():
            return whole
        ends = [n for n, node in enumerate(self.nodes) if self._ends(node)]
        if not ends:
            return whole
        first = self._first()
        if first is not None:
            at = self.nodes.index(first)
            if self._fails(at, at):
                return self._window(at, at, first)
        end = self._first_end(ends)
        if end is None:
            whole.trials, whole.first = self.count, first
            return whole
        start = self._last_start(end)
        if end - start >= FEW:
            start, end = self._alone(start, end)
        return self._window(start, end, first)

    def _window(self, start: int, end: int, first: Node | None) -> Window:
        made = self._part(start, end)
        assert made is not None
        nodes = self.nodes[start : end + 1]
        return Window(made[0], made[1], self.labels, nodes, self.count, first)

    def _first(self) -> Node | None:
        """The first op that departs, found without cutting the graph."""
        if not self.tapped or not self.going():
            return None
        rules = Rules(strict_casts=self.later.strict)
        setting = self.later.trial.setting
        taps = Taps(self.graph, self.inputs, self.values, setting, self.backend, rules)
        return taps.first(self.labels, self.going)

    def _record(self) -> bool:
        """The value of each node, as it was when it was made."""
        values = self.values

        class Recording(Interpreter):  # type: ignore[misc]
            def run_node(self, n: Node) -> Any:
                value = super().run_node(n)
                values[n] = replaced(value, Copies().of)
                return value

        try:
            with self.later.trial.setting.again(), torch.enable_grad():
                copies = Copies()
                Recording(self.graph).run(*(replaced(a, copies.of) for a in self.inputs))
        except Exception:
            return False
        return True

    def _ends(self, node: Node) -> bool:
        value = self.values.get(node)
        if isinstance(value, torch.Tensor):
            return not self.labels or value.requires_grad
        return False

    def _first_end(self, ends: list[int]) -> int | None:
        """The smallest end so that all up to there departs."""
        low, high = 0, len(ends) - 1
        if not self._fails(0, ends[high]):
            for end in ends:
                if self._fails(0, end):
                    return end
            return None
        while low < high:
            middle = (low + high) // 2
            if self._fails(0, ends[middle]):
                high = middle
            else:
                low = middle + 1
        return ends[high]

    def _last_start(self, end: int) -> int:
        """The largest start so that all from there to the end departs."""
        for start in (end, end - 1):
            if start >= 0 and self._fails(start, end):
                return start
        low, high = 0, max(end - 2, 0)
        while low < high:
            middle = (low + high + 1) // 2
            if self._fails(middle, end):
                low = middle
            else:
                high = middle - 1
        return low if low and self._fails(low, end) else 0

    def _alone(self, start: int, end: int) -> tuple[int, int]:
        """One node of the window that departs alone, if there is one: some faults shrink so."""
        for n in range(end, start - 1, -1):
            if self._ends(self.nodes[n]) and self._fails(n, n):
                return n, n
        return start, end

    def _fails(self, start: int, end: int) -> bool:
        made = self._part(start, end)
        return made is not None and self._departs(*made)

    def _departs(self, graph: GraphModule, inputs: tuple[Any, ...]) -> bool:
        if self.count >= TRIALS or not self.going():
            return False
        self.count += 1
        torch._dynamo.reset()
        setting = self.later.trial.setting
        with setting.again():
            trial = Trial(graph, inputs, {}, whole=True)
        trial.setting, trial.later = setting, True
        compiled = torch.compile(graph, backend=self.backend)
        try:
            found = judge_again(trial, compiled, Rules(strict_casts=self.later.strict), self.labels)
        except Exception:
            return False
        return bool(found.differences)

    def _part(self, start: int, end: int) -> tuple[GraphModule, tuple[Any, ...]] | None:
        """A graph of the nodes from `start` to `end`, and the values that it is given."""
        made, inputs = Graph(), []
        known: dict[Node, Any] = {}
        inside = set(self.nodes[start : end + 1])
        for node in self.nodes[: end + 1]:  # regions stay as they were
            if name(node) in _CONTEXTS:
                inside.add(node)

        def need(node: Node) -> Any:
            if node not in known:
                value = self.values.get(node)
                if node.op != "get_attr" and isinstance(value, torch.Tensor):
                    known[node] = made.placeholder(node.name)
                    inputs.append(value)
                elif node.op == "placeholder":
                    known[node] = value
                else:
                    known[node] = made.node_copy(node, need)
            return known[node]

        try:
            for node in self.graph.graph.nodes:
                if node in inside:
                    for other in node.all_input_nodes:
                        if other not in inside:
                            need(other)
            for node in self.nodes[: end + 1]:
                if node in inside:
                    known[node] = made.node_copy(node, need)
                    known[node].meta = dict(node.meta)
            made.output((known[self.nodes[end]],))
            made.lint()
            return GraphModule(self.graph, made), tuple(inputs)
        except Exception:
            return None


def search(later: Later, backend: Any, path: str, going: Callable[[], bool]) -> Window | None:
    """The smallest window over all graphs of the call; None when no graph departs alone."""
    for graph, inputs in captured(later):
        found = Search(graph, inputs, later, backend, path, going).find()
        if found is not None:
            return found
    return None
