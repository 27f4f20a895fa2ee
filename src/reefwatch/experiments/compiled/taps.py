"""The first op that departs while the graph stays whole: every value in it becomes a result.

A graph that is cut is another program: what a pass looked for in it may be gone. With all values
among the results one compilation tells which is the first that is off, and, by sending a gradient
into the first few of them alone, through which one gradients go wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from reefwatch.gather.compiled.compare import Difference
from reefwatch.gather.compiled.copies import plain
from reefwatch.gather.compiled.trial import Rules, Trial, judge_again

MOST = 400
"""Values of one graph that are told of."""


def tapped(graph: GraphModule, nodes: list[Node]) -> GraphModule | None:
    """The graph with these nodes for its results; None where it cannot be written so."""
    made = Graph()
    known: dict[Node, Node] = {}
    try:
        for node in graph.graph.nodes:
            if node.op != "output":
                known[node] = made.node_copy(node, lambda n: known[n])
                known[node].meta = dict(node.meta)
        made.output(tuple(known[node] for node in nodes))
        made.lint()
        return GraphModule(graph, made)
    except Exception:
        return None


class Taps:
    """One compilation of the tapped graph, and what it says."""

    def __init__(
        self,
        graph: GraphModule,
        inputs: tuple[Any, ...],
        values: dict[Node, Any],
        setting: Any,
        backend: Any,
        rules: Rules,
    ) -> None:
        self.nodes = [
            node
            for node in graph.graph.nodes
            if node.op not in ("placeholder", "get_attr", "output")
            and isinstance(values.get(node), torch.Tensor)
            and plain(values[node])
        ][:MOST]
        self._inputs, self._values, self._setting = inputs, values, setting
        self._rules, self._backend = rules, backend
        self._graph = tapped(graph, self.nodes)

    def first(self, labels: tuple[str, ...], going: Callable[[], bool]) -> Node | None:
        """The first node that departs, in its value or, with `labels`, in its gradient."""
        if self._graph is None or not self.nodes or not self._steady():
            return None
        torch._dynamo.reset()
        compiled = torch.compile(self._graph, backend=self._backend)
        try:
            at = self._backward(compiled, labels, going) if labels else self._forward(compiled)
        except Exception:  # a result more is another program, and may be refused
            return None
        return None if at is None else self.nodes[at]

    def _steady(self) -> bool:
        """False where a value is written to later: the results would not be what the ops gave."""
        assert self._graph is not None
        trial = self._trial(self._graph)
        told = trial.run(self._graph).tensors
        return all(
            (seen := told.get(f"output[{n}]")) is not None
            and seen.shape == self._values[node].shape
            and torch.equal(seen.nan_to_num(), self._values[node].detach().nan_to_num())
            for n, node in enumerate(self.nodes)
        )

    def _trial(self, call: Callable[..., Any]) -> Trial:
        with self._setting.again():
            trial = Trial(call, self._inputs, {}, whole=True)
        trial.setting, trial.later = self._setting, True
        return trial

    def _forward(self, compiled: Callable[..., Any]) -> int | None:
        assert self._graph is not None
        found = judge_again(self._trial(self._graph), compiled, self._rules, ())
        return min(
            (n for one in found.differences if (n := _number(one)) is not None), default=None
        )

    def _backward(
        self, compiled: Callable[..., Any], labels: tuple[str, ...], going: Callable[[], bool]
    ) -> int | None:
        """Gradients are sent into the first few results alone: the fewest that make them depart."""
        graph = self._graph
        assert graph is not None
        wanted = [n for n, node in enumerate(self.nodes) if self._values[node].requires_grad]

        def departs(last: int) -> bool:
            chosen = wanted[: last + 1]

            def few(call: Callable[..., Any]) -> Callable[..., Any]:
                return lambda *args: _only(call(*args), chosen)

            found = judge_again(self._trial(few(graph)), few(compiled), self._rules, labels)
            return any(  # compiled code sends zeros where eager sends nothing
                one.kind in ("value", "nan") and one.path.startswith("gradient")
                for one in found.differences
            )

        low, high = 0, len(wanted) - 1
        if not wanted or not departs(high):
            return None
        while low < high and going():
            middle = (low + high) // 2
            low, high = (low, middle) if departs(middle) else (middle + 1, high)
        return wanted[high] if low == high else None


def _only(outs: Any, chosen: list[int]) -> Any:
    """These results; the others send no gradient."""
    return tuple(outs[n] for n in chosen)


def _number(one: Difference) -> int | None:
    number = one.path.removeprefix("output[").removesuffix("]")
    return int(number) if number.isdigit() else None
