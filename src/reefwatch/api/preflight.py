"""A trainer's exact combination, tried out on this machine before the training: a small fit.

It runs in a process of its own (several, when the combination has several devices), so that the
program's random state, device and process group are as without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reefwatch.core.report import ExitPolicy, Report, exit_code

STEPS = 12
"""Batches of the small fit."""
_LAUNCHED = (
    "RANK",
    "LOCAL_RANK",
    "NODE_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
"""Variables of a launcher that would make the small fit a part of the program's own job."""


@dataclass(frozen=True)
class Preflight:
    """What came of the small fit."""

    combination: Mapping[str, Any]
    """Precision, strategy, devices, accumulation, clipping, compile, as they were tried."""
    refused: str = ""
    """Why it does not run here: the last line of the error; empty when it ran."""
    report: Report | None = None
    """What the contracts say of the small fit; None when it did not run."""
    untried: tuple[str, ...] = field(default=())
    """What of the trainer's combination was not tried, with the reason."""

    @property
    def ok(self) -> bool:
        """True when it ran, and no claim is broken at error level."""
        return self.report is not None and exit_code(self.report, ExitPolicy()) == 0

    def __str__(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.combination.items() if value)
        lines = [f"preflight: {words}"]
        if self.refused:
            lines.append(f"does not run here: {self.refused}")
        lines += [f"not tried: {reason}" for reason in self.untried]
        if self.report is not None:
            from reefwatch.show import text

            lines.append(text.render(self.report, color=False, width=100))
        return "\n".join(lines)


def lightning(
    combination: Mapping[str, Any], untried: tuple[str, ...], seconds: float
) -> Preflight:
    """Try a combination of Lightning's Trainer (`reefwatch.lightning.preflight`)."""
    from reefwatch import api
    from reefwatch.core.errors import ReefwatchError

    environ = {k: v for k, v in os.environ.items() if k not in _LAUNCHED}
    environ = {k: v for k, v in environ.items() if not k.startswith(("TORCHELASTIC_", "SLURM_"))}
    with tempfile.TemporaryDirectory(prefix="reefwatch-preflight-") as folder:
        out = Path(folder) / "run"
        asked = json.dumps({**combination, "out": str(out)})
        command = [sys.executable, "-m", "reefwatch.lightning", asked]
        try:
            told = subprocess.run(
                command, env=environ, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return Preflight(combination, f"it was not over after {seconds:g} s", None, untried)
        if told.returncode:
            lines = [line for line in told.stderr.splitlines() if line.strip()]
            errors = [line for line in lines if "Error: " in line or "Exception: " in line]
            last = (errors or lines or [f"exit {told.returncode}"])[-1]
            return Preflight(combination, last.strip()[:300], None, untried)
        try:
            return Preflight(combination, "", api.report(out), untried)
        except ReefwatchError as error:
            return Preflight(combination, f"it left no record: {error}", None, untried)


def fit(root: Any, guard: Any, combination: Mapping[str, Any]) -> None:
    """The small fit itself, in its own process. `root` is Lightning, `guard` makes a Guard."""
    import torch
    from torch import nn

    class Small(root.LightningModule):  # type: ignore[misc]
        """Convolution, normalisation, attention and a product: what most models are made of."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(8, 32, 3, padding=1), nn.LayerNorm(32)
            self.mix, self.head = nn.Linear(32, 96), nn.Linear(32, 4)

        def forward(self, x: Any) -> Any:
            x = self.norm(self.conv(x).transpose(1, 2))
            q, k, v = self.mix(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.head(mixed.transpose(1, 2).flatten(2).mean(1))

        def training_step(self, batch: Any, number: int) -> Any:
            x, y = batch
            x = x.to(next(self.parameters()).dtype)
            return nn.functional.cross_entropy(self(x).float(), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), 1e-3)

    root.seed_everything(0, verbose=False)
    model = Small()
    if combination["compile"]:
        model.compile(**({} if combination["compile"] is True else combination["compile"]))
    rows = 8 * STEPS * max(1, int(combination["devices_count"]))
    data = torch.utils.data.TensorDataset(torch.randn(rows, 8, 16), torch.randint(4, (rows,)))
    trainer = root.Trainer(
        precision=combination["precision"],
        strategy=combination["strategy"],
        accelerator=combination["accelerator"],
        devices=combination["devices"],
        accumulate_grad_batches=combination["accumulate"],
        gradient_clip_val=combination["clip"],
        gradient_clip_algorithm=combination["algorithm"],
        max_epochs=1,
        callbacks=[guard(out=combination["out"], truth=True)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(data, 8))
