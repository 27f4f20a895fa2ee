"""Small random models of transformers and diffusers under the guard: a finding is a false one.

Each is judged in training (dropout off, gradients for both cotangents) and in inference.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from typing import Any

warnings.filterwarnings("ignore")
import torch  # noqa: E402
from compile_clean import judged  # noqa: E402


def _words(vocabulary: int = 99) -> torch.Tensor:
    return torch.randint(3, vocabulary, (2, 12))


def transformers_models() -> dict[str, Any]:
    import transformers as t

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    inner, words = {"intermediate_size": 48}, {"vocab_size": 99}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    grouped = {"num_key_value_heads": 2}
    return {
        "gpt2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(
                n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **words
            )
        ),
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**small, **inner, **words, **grouped)),
        "mistral": lambda: t.MistralForCausalLM(
            t.MistralConfig(**small, **inner, **words, **grouped)
        ),
        "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**small, **inner, **words, **grouped)),
        "bert": lambda: t.BertForMaskedLM(t.BertConfig(**small, **inner, **words, **off)),
        "roberta": lambda: t.RobertaForMaskedLM(t.RobertaConfig(**small, **inner, **words, **off)),
        "opt": lambda: t.OPTForCausalLM(
            t.OPTConfig(ffn_dim=48, dropout=0.0, word_embed_proj_dim=32, **small, **words)
        ),
        "neox": lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**small, **inner, **words)),
        "t5": lambda: t.T5EncoderModel(
            t.T5Config(
                d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0, **words
            )
        ),
        "albert": lambda: t.AlbertForMaskedLM(
            t.AlbertConfig(embedding_size=16, **small, **inner, **words, **off)
        ),
        "vit": lambda: t.ViTModel(
            t.ViTConfig(image_size=16, patch_size=4, **small, **inner, **off)
        ),
        "convnext": lambda: t.ConvNextModel(
            t.ConvNextConfig(hidden_sizes=[8, 16, 16, 24], depths=[1, 1, 1, 1], image_size=32)
        ),
    }


def diffusers_models() -> dict[str, Any]:
    import diffusers as d

    return {
        "unet": lambda: d.UNet2DModel(
            sample_size=16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        ),
        "vae": lambda: d.AutoencoderKL(
            block_out_channels=(16, 16), norm_num_groups=8, latent_channels=4,
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        ),
        "dit": lambda: d.DiTTransformer2DModel(
            num_attention_heads=2, attention_head_dim=8, in_channels=3, num_layers=2, sample_size=8,
            norm_num_groups=8,
        ),
    }  # fmt: skip


def inputs(name: str) -> tuple[Any, ...]:
    if name in ("vit", "convnext"):
        return (torch.randn(2, 3, 16 if name == "vit" else 32, 16 if name == "vit" else 32),)
    if name == "unet":
        return torch.randn(2, 3, 16, 16), torch.tensor([3, 70])
    if name == "vae":
        return (torch.randn(1, 3, 16, 16),)
    if name == "dit":
        return torch.randn(2, 3, 8, 8), torch.tensor([3, 70]), torch.tensor([1, 2])
    return (_words(),)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=36_000)
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    torch._inductor.config.fallback_random = True
    count: Counter[str] = Counter()
    print(f"### Right programs: small random models, backend {given.backend}\n")
    print("| model | training | inference | seconds |\n| --- | --- | --- | --- |", flush=True)
    told, makers = [], {}
    for group in (transformers_models, diffusers_models):
        try:
            makers.update(group())
        except ImportError as error:
            told.append(f"not tried: {error}")
    for name, make in makers.items():
        if given.only and name not in given.only.split(","):
            continue
        began, words = time.monotonic(), []
        if began > until:
            print(f"| {name} | not tried: out of time | | |")
            count["not tried"] += 1
            continue
        for training in (True, False):
            torch.manual_seed(0)
            try:
                model = make().train(training)
                torch._dynamo.reset()
                compiled = torch.compile(model, backend=given.backend)
                with torch.set_grad_enabled(training):
                    verdict = judged(model, inputs(name), {}, compiled)
            except Exception as error:
                words.append(f"{type(error).__name__}: {str(error)[:80]}".replace("\n", " "))
                count["not tried"] += 1
                continue
            count["judged"] += not verdict.unproven
            count["finding"] += bool(verdict.differences)
            count["inconclusive"] += bool(verdict.inconclusive)
            told += [
                f"{name} training={training}: {one.kind}: {one.text}"
                for one in (*verdict.differences[:2], *verdict.inconclusive[:2])
            ]
            words.append(
                verdict.unproven
                or (
                    "FINDING"
                    if verdict.differences
                    else "inconclusive"
                    if verdict.inconclusive
                    else "right"
                )
                + f" ({verdict.referee}{', gradients' if verdict.graded else ''})"
            )
        print(f"| {name} | {' | '.join(words)} | {time.monotonic() - began:.0f} |", flush=True)
    print(f"\n{dict(count)}\n")
    for line in told:
        print(f"- {line}")
    return int(
        count["finding"] > 0
        or count["not tried"] > 0
        or count["inconclusive"] > 0.02 * max(1, count["judged"])
    )


if __name__ == "__main__":
    sys.exit(main())
