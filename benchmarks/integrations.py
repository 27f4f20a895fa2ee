"""What a Guard costs inside Lightning's and transformers' trainers, and how much was seen for it.

One training per framework. After the exam, blocks of steps with the guard at work and without
follow each other (ABBA), as in cost.py; reported is the median over neighbours of the ratio of
their times, examined steps included. Needs `pip install 'reefwatch[frameworks]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from cost import HERE, SHORT, scratch, switch
from models import WORKLOADS
from torch.nn import functional as F

import reefwatch

os.environ["HF_HUB_OFFLINE"] = "1"


class Alternating:
    """Told of each step's end by a trainer; the guard works in every other block."""

    def __init__(self, guard: Any, pairs: int) -> None:
        self.guard, self.pairs = guard, pairs
        self.told: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        self.order: list[bool] = []
        self.count = 0
        self.exam_steps = 0
        self.over = False
        self._held: Any = None
        self._at = (0.0, 0.0)

    def step_ended(self) -> None:
        if self.over:
            return
        if not self.order:
            self.exam_steps += 1
            watch = self.guard._guarding._session._watch
            if watch._scheduler.ended:
                for number in range(self.pairs):
                    self.order += [True, False] if number % 2 else [False, True]
                self._begin()
            return
        self.count += 1
        if self.count == 1:  # the step of the change itself is not counted
            self._at = time.perf_counter(), time.process_time()
        elif self.count == SHORT + 1:
            wall, cpu = self._at
            spent = time.perf_counter() - wall, time.process_time() - cpu
            self.told[self.order.pop(0)].append(spent)
            self._begin()

    def _begin(self) -> None:
        """Put the guard to work, or to rest, for the next block."""
        self.count = 0
        on = self.order[0] if self.order else True
        if self._held is None:
            self._held = self.guard._guarding
        switch(SimpleNamespace(_session=self._held._session), on)
        self.guard._guarding = self._held if on else None
        self.over = not self.order

    def ratios(self, part: int) -> list[float]:
        pairs = zip(self.told[True], self.told[False], strict=True)
        return sorted(on[part] / off[part] for on, off in pairs)


class UntilOver(torch.utils.data.IterableDataset):
    """The same batches again and again, until enough was measured."""

    def __init__(self, batches: list[Any], alternating: Alternating) -> None:
        self.batches, self.alternating = batches, alternating

    def __iter__(self) -> Any:
        while not self.alternating.over:
            yield from self.batches


def lightning(exam: float, pairs: int, folder: Path) -> tuple[Alternating, Any]:
    import lightning.pytorch as pl

    from reefwatch.lightning import Guard

    load = WORKLOADS["transformer"]

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = load.build()

        def training_step(self, batch: Any, number: int) -> Any:
            words, targets = batch
            return F.cross_entropy(self.net(words).flatten(0, -2), targets.flatten())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)

    guard = Guard(exam=exam, out=folder)
    alternating = Alternating(guard, pairs)

    class Ends(pl.Callback):
        def on_train_batch_end(self, trainer: Any, *more: Any) -> None:
            alternating.step_ended()

    torch.manual_seed(0)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        precision="bf16-mixed",
        max_epochs=1,
        callbacks=[guard, Ends()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = UntilOver([load.batch("cpu") for _ in range(4)], alternating)
    trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=None))
    return alternating, guard


def huggingface(exam: float, pairs: int, folder: Path) -> tuple[Alternating, Any]:
    import transformers

    from reefwatch.huggingface import Guard

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=2000,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=8,
        max_position_embeddings=256,
    )
    words = torch.randint(2000, (64, 128))

    class Words(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 1 << 20

        def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
            return {"input_ids": words[number % 64], "labels": words[number % 64]}

    guard = Guard(exam=exam, out=folder)
    alternating = Alternating(guard, pairs)

    class Ends(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            alternating.step_ended()
            control.should_training_stop = alternating.over

    settings = transformers.TrainingArguments(
        output_dir=str(folder / "hf"),
        per_device_train_batch_size=8,
        max_steps=100_000,
        bf16=True,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
    )
    model = transformers.LlamaForCausalLM(config)
    trainer = transformers.Trainer(
        model, settings, train_dataset=Words(), callbacks=[guard, Ends()]
    )
    trainer.train()
    return alternating, guard


ABOUT = {
    "lightning": "Lightning's Trainer: LLaMA of 4 layers, width 256, batch 8 x 128 words",
    "huggingface": "transformers' Trainer: LLaMA of 4 layers, width 256, batch 8 x 128 words",
}


def measure(name: str, exam: float, pairs: int) -> dict[str, Any]:
    with scratch() as folder:
        alternating, guard = globals()[name](exam, pairs, folder / "run")
    record = guard.report.records[0]
    facts = {n: getattr(record.fact(n), "value", None) for n in ("precision.ops", "watch.budget")}
    wall, cpu = alternating.ratios(0), alternating.ratios(1)
    on, off = (sum(one[0] for one in alternating.told[side]) for side in (True, False))
    return {
        "about": ABOUT[name],
        "pairs": len(wall),
        "steps_of_a_block": SHORT,
        "plain_ms": 1e3 * off / (len(wall) * SHORT),
        "ratio": median(wall),
        "ratio_low": wall[len(wall) // 4],
        "ratio_high": wall[-1 - len(wall) // 4],
        "ratio_of_sums": on / off,
        "cpu_ratio": median(cpu),
        "exam_steps": alternating.exam_steps,
        "verdicts": guard.report.last_line(),
        "facts": facts,
        "load": os.getloadavg()[0],
    }


def table(told: dict[str, Any]) -> str:
    machine = told["machine"]
    lines = [
        f"cpu, {machine['threads']} threads, torch {machine['torch']}, Python {machine['python']}, "
        f"Reefwatch {machine['reefwatch']}, {machine['frameworks']}.",
        "",
        "| trainer | plain step | guard / plain | middle half | ratio of sums | in CPU time | "
        "exam | seen in the steady state | modules seen | load of the machine |",
        "| --- " * 10 + "|",
    ]
    for one in told["trainers"].values():
        ops, budget = one["facts"]["precision.ops"] or {}, one["facts"]["watch.budget"] or {}
        cells = [
            one["about"],
            f"{one['plain_ms']:.1f} ms",
            f"**{one['ratio']:.3f}**",
            f"{one['ratio_low']:.3f} - {one['ratio_high']:.3f} ({one['pairs']} pairs)",
            f"{one['ratio_of_sums']:.3f}",
            f"{one['cpu_ratio']:.3f}",
            f"{one['exam_steps']} steps",
            f"examined {budget.get('examined')}, looked at {budget.get('looked')} "
            f"of {budget.get('of')} steps",
            f"{ops.get('modules_seen')} of {ops.get('modules_total')}",
            f"{one['load']:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(ABOUT), default=list(ABOUT))
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--exam", type=float, default=5.0, help="seconds")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    chosen = parser.parse_args()
    from importlib import metadata

    frameworks = ", ".join(f"{n} {metadata.version(n)}" for n in ("lightning", "transformers"))
    machine = {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "reefwatch": reefwatch.__version__,
        "frameworks": frameworks,
    }
    told: dict[str, Any] = {"machine": machine, "trainers": {}}
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.only:
        told["trainers"][name] = measure(name, chosen.exam, chosen.pairs)
        (chosen.out / "cpu-integrations.json").write_text(json.dumps(told, indent=1) + "\n")
        (chosen.out / "cpu-integrations.md").write_text(table(told))
        print(name, told["trainers"][name]["ratio"], file=sys.stderr, flush=True)
    print(table(told))


if __name__ == "__main__":
    main()
