"""A training with Lightning or transformers, as a user would write it, with one fault by request.

Prints a line of JSON per rank: a digest of the losses and final weights, and what was broken.
"""

import argparse
import copy
import hashlib
import json
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

os.environ["HF_HUB_OFFLINE"] = "1"
STEPS = 12


def digest(values):
    told = hashlib.sha256()
    for value in values:
        told.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return told.hexdigest()[:16]


def tell(rank, model, losses, guard):
    said = {"rank": rank, "digest": digest([*losses, *model.state_dict().values()])}
    report = getattr(guard, "report", None)
    if report is not None:
        said["verdicts"] = report.last_line()
        said["broken"] = [
            {
                "code": one.code,
                "severity": one.severity.name.lower(),
                "message": found.message,
                "module": found.place.module,
                "file": os.path.basename(found.place.file),
                "line": found.place.line,
            }
            for one in report.outcomes
            if one.verdict.value == "broken"
            for found in one.findings
        ]
    os.write(1, f"{json.dumps(said)}\n".encode())  # whole: the ranks share the pipe


def upcast(module):
    """The module's forward, taken out of autocast."""
    forward = module.forward

    def outside(x, *args, **kwargs):
        with torch.autocast("cpu", enabled=False):
            return forward(x.float(), *args, **kwargs)

    module.forward = outside


def leaky(x, *args, **kwargs):
    return nn.functional.leaky_relu(x, 1e-2)


def sine(x, *args, **kwargs):
    return x * torch.sigmoid(1.01 * x)


def wrong_compiler(graph, examples):
    """Compiled code that computes nearly what was written."""
    graph = copy.deepcopy(graph)
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target is nn.functional.relu:
            node.target = leaky
        if node.op == "call_function" and node.target is nn.functional.silu:
            node.target = sine
    graph.recompile()
    return graph.forward


def backend(args):
    return wrong_compiler if args.fault == "compile" else "aot_eager"


def lightning(args):
    import lightning.pytorch as pl

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
            self.dropout = nn.Dropout(0.1)
            self.head = nn.Linear(32, 4)
            self.automatic_optimization = not args.two
            self.losses = []

        def forward(self, x):
            return self.head(self.dropout(self.features(x)))

        def training_step(self, batch, number):
            x, y = batch
            x = x.to(next(self.parameters()).dtype)
            loss = nn.functional.cross_entropy(self(x), y)
            self.losses.append(loss.detach().float())
            self.log("loss", loss)
            if args.two:
                optimizers = self.optimizers()
                for optimizer in optimizers:
                    optimizer.zero_grad()
                self.manual_backward(loss)
                for optimizer in optimizers:
                    optimizer.step()
            return loss

        def on_train_batch_start(self, batch, number):
            if args.fault == "replica" and number == 3 and self.trainer.global_rank == 1:
                with torch.no_grad():
                    self.head.weight[0, 0] += 1e-6

        def configure_optimizers(self):
            if args.two:
                parts = self.features.parameters(), self.head.parameters()
                return [torch.optim.SGD(part, 0.05) for part in parts]
            return torch.optim.AdamW(self.parameters(), 1e-2)

        if args.fault == "clip":

            def configure_gradient_clipping(
                self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None
            ):
                nn.utils.clip_grad_norm_(self.parameters(), 4 * gradient_clip_val)

    pl.seed_everything(0)
    data = TensorDataset(torch.randn(16 * STEPS, 16) * 4, torch.randint(4, (16 * STEPS,)))
    model = Net()
    if args.fault == "upcast":
        upcast(model.head)
    guard = None
    if args.guard:
        from reefwatch.lightning import Guard

        guard = Guard(out=args.out)
    devices = {"strategy": "ddp", "devices": 2} if args.ddp else {"devices": 1}
    trainer = pl.Trainer(
        accelerator="cpu",
        precision=args.precision,
        max_epochs=1,
        accumulate_grad_batches=args.accumulate,
        gradient_clip_val=args.clip,
        gradient_clip_algorithm=args.algorithm,
        callbacks=[guard] if guard else [],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **devices,
    )
    if args.compile:  # a part: a compiled LightningModule that logs fails in Dynamo of torch 2.13
        model.features = torch.compile(model.features, backend=backend(args))
    trainer.fit(model, DataLoader(data, 8))
    tell(trainer.global_rank, model, model.losses, guard)


class Words(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, number):
        words = torch.randint(0, 128, (16,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": words, "labels": words}


def huggingface(args):
    import transformers
    from peft import LoraConfig, get_peft_model

    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
    )
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"])
    model = get_peft_model(transformers.LlamaForCausalLM(config), lora)
    layers = model.base_model.model.model.layers
    if args.fault == "adapter":
        for name, parameter in layers[1].self_attn.v_proj.named_parameters():
            if "lora_" in name:
                parameter.register_hook(lambda grad: grad * 0)
    if args.fault == "upcast":
        upcast(layers[0].mlp)

    if args.compile:
        layers[0].mlp = torch.compile(layers[0].mlp, backend=backend(args))

    losses = []

    class Trainer(transformers.Trainer):
        def training_step(self, *given, **more):
            if args.fault == "replica" and len(losses) == 3 and self.args.process_index == 1:
                with torch.no_grad():
                    layers[0].self_attn.q_proj.lora_B.default.weight[0, 0] += 1e-6
            loss = super().training_step(*given, **more)
            losses.append(loss.detach().float())
            return loss

        if args.fault == "clip":

            def _clip_grad_norm(self, model):
                return nn.utils.clip_grad_norm_(model.parameters(), 4 * self.args.max_grad_norm)

    guard = None
    if args.guard:
        from reefwatch.huggingface import Guard

        guard = Guard(out=args.out)
    settings = transformers.TrainingArguments(
        output_dir=args.out or "hf-out",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=args.accumulate,
        max_steps=STEPS,
        max_grad_norm=args.clip or 0.0,
        learning_rate=1e-2,
        report_to=[],
        bf16=args.precision == "bf16-mixed",
        fp16=args.precision == "16-mixed",
        ddp_backend="gloo" if args.ddp else None,
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model, settings, train_dataset=Words(), callbacks=[guard] if guard else [])
    trainer.train()
    tell(settings.process_index, model, losses, guard)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=["lightning", "huggingface"])
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--clip", type=float)
    parser.add_argument("--algorithm", default=None)
    parser.add_argument("--two", action="store_true")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fault", default="")
    parser.add_argument("--guard", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    {"lightning": lightning, "huggingface": huggingface}[args.framework](args)


if __name__ == "__main__":
    sys.exit(main())
