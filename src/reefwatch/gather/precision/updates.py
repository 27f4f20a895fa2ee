"""How the optimizer runs: one op for all parameters, or a loop; and what trainers asked for."""

from __future__ import annotations

import sys
from typing import Any

from reefwatch.core.fact import Evidence, Unknown
from reefwatch.gather.dtypes import short

Facts = dict[str, "Evidence | Unknown"]


class Updates:
    """Counts the ops of optimizer updates by form: `fused`, `foreach` or `loop`."""

    def __init__(self) -> None:
        self._ops: dict[str, int] = {}
        self._updates = 0
        self._optimizers: dict[str, dict[str, Any]] = {}

    def count(self, name: str) -> None:
        """One op of an update: `aten._foreach_add_.List`. Reading a step count is none."""
        if "_local_scalar_dense" in name:
            return
        base = name.partition(".")[2]
        form = (
            "fused"
            if base.startswith("_fused_")
            else "foreach"
            if base.startswith(("_foreach_", "_amp_foreach"))
            else "loop"
        )
        self._ops[form] = self._ops.get(form, 0) + 1

    def ended(self, optimizer: Any) -> None:
        """An examined update is over: note how many tensors it went over, and what was asked."""
        self._updates += 1
        params = [p for group in optimizer.param_groups for p in group["params"]]
        trained = [p for p in params if p.grad is not None]
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        plain = sum(type(p).__name__ == "Parameter" for p in params)
        self._optimizers[type(optimizer).__name__] = {
            "params": len(params),
            "trained": len(trained),
            "asked": {word: group.get(word) for word in ("foreach", "fused") if word in group},
            "devices": sorted({p.device.type for p in params}),
            "dtypes": sorted({short(p.dtype) for p in params}),
            "subclasses": len(params) - plain,
            "sparse": sum(p.grad.layout is not p.layout for p in trained),
        }

    def facts(self) -> Facts:
        """`precision.optimizer`: ops per update by form, and what each optimizer holds."""
        name = "precision.optimizer"
        if not self._updates:
            return {name: Evidence(name, None, source="no optimizer update was seen")}
        if all(held["devices"] == ["cpu"] for held in self._optimizers.values()):
            return {name: Evidence(name, None, source="the parameters are on the CPU")}
        if not self._ops:
            return {name: Unknown("no op of an optimizer update was seen")}
        ops = {form: count / self._updates for form, count in self._ops.items()}
        return {
            name: Evidence(name, {"ops": ops, "optimizers": self._optimizers}, source="dispatch")
        }


class Asked:
    """What a trainer or a library was asked for, read from its objects; nothing is imported."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._policies: dict[str, Any] = {}
        self._quantised: dict[str, Any] = {}
        self._trainer: dict[str, Any] = {}

    def read(self, modules: Any) -> None:
        """Look over the modules seen so far, and the trainers that are loaded."""
        for path, module in modules.named():
            policy = _fsdp_policy(module)
            if policy is not None:
                self._policies[path] = {key: _dtype(value) for key, value in policy.items()}
            if type(module).__name__ in ("Linear4bit", "LinearFP4", "LinearNF4"):
                self._quantised[path] = _dtype(getattr(module, "compute_dtype", None)) or "not set"
            trainer = module.__dict__.get("_trainer")
            precision = getattr(trainer, "precision", None) if trainer is not None else None
            if isinstance(precision, str):
                self._trainer["lightning"] = precision
        state = sys.modules.get("accelerate.state")
        shared = getattr(getattr(state, "AcceleratorState", None), "_shared_state", None) or {}
        if isinstance(shared.get("_mixed_precision"), str):
            self._trainer["accelerate"] = shared["_mixed_precision"]

    def facts(self) -> Facts:
        """`precision.fsdp`, `precision.quantised`, `precision.trainer`; empty when none."""
        found: dict[str, tuple[dict[str, Any], str]] = {
            "precision.fsdp": (self._policies, "no FSDP module was seen"),
            "precision.quantised": (self._quantised, "no 4-bit module of bitsandbytes was seen"),
            "precision.trainer": (self._trainer, "no trainer of Lightning or accelerate was seen"),
        }
        return {
            name: Evidence(name, dict(value), source="attributes")
            if value
            else Evidence(name, {}, source=why)
            for name, (value, why) in found.items()
        }


def _fsdp_policy(module: Any) -> dict[str, Any] | None:
    """The mixed-precision policy of an FSDP module of either version; None when it has none."""
    policy = module.__dict__.get("mixed_precision")  # FSDP1
    if policy is not None and hasattr(policy, "param_dtype"):
        names = ("param_dtype", "reduce_dtype", "buffer_dtype", "cast_forward_inputs")
        return {name: getattr(policy, name, None) for name in names}
    state_of = getattr(type(module), "_get_fsdp_state", None)
    if state_of is None:
        return None
    try:
        group = state_of(module)._fsdp_param_group
        policy = group.mp_policy if group is not None else None
    except (AttributeError, RuntimeError, AssertionError, ValueError):
        return None
    if policy is None:
        return None
    names = ("param_dtype", "reduce_dtype", "output_dtype", "cast_forward_inputs")
    return {name: getattr(policy, name, None) for name in names}


def _dtype(value: Any) -> Any:
    return short(value) if type(value).__name__ == "dtype" else value
