"""Fine-tune a small random LLaMA with LoRA and transformers' Trainer, guarded.

One line is Reefwatch's. Nothing is downloaded: weights and words are random.
"""

import argparse
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset

from reefwatch.huggingface import Guard


class Words(Dataset):
    """Sequences that count upwards from a random word."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        start = torch.randint(0, 128, (1,), generator=torch.Generator().manual_seed(number))
        words = (start + torch.arange(32)) % 128
        return {"input_ids": words, "labels": words}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--out", default="huggingface-lora")
    args = parser.parse_args()

    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
    )
    model = transformers.LlamaForCausalLM(config)
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    settings = transformers.TrainingArguments(
        output_dir=args.out,
        max_steps=args.steps,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        bf16=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model, settings, train_dataset=Words(), callbacks=[Guard()])
    trainer.train()


if __name__ == "__main__":
    main()
