import contextlib

import torch


def fresh(value):
    if torch.is_tensor(value):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value


def outcome(call, history, after=None, ones=False, cast=False):
    got = None
    for turn, given in enumerate(history):
        given = [fresh(value) for value in given]
        torch.manual_seed(turn)
        try:
            region = torch.autocast("cpu", torch.bfloat16) if cast else contextlib.nullcontext()
            with region:
                outs = call(*given)
            outs = [o for o in (outs if isinstance(outs, (tuple, list)) else [outs]) if torch.is_tensor(o)]
            got = [o.detach().clone() for o in outs] + [g.detach().clone() for g in given if torch.is_tensor(g)]
            owner = getattr(call, "_orig_mod", call)
            more = list(owner.parameters()) if isinstance(owner, torch.nn.Module) else []
            wanted = [g for g in given if torch.is_tensor(g) and g.requires_grad] + more
            outs = [o for o in outs if o.requires_grad]
            if outs and wanted:
                gen = torch.Generator().manual_seed(11)
                sent = [torch.ones(()).expand(o.shape).to(o) if ones else torch.randn(o.shape, generator=gen).to(o) for o in outs]
                got += [g for g in torch.autograd.grad(outs, wanted, sent, allow_unused=True) if g is not None]
            if isinstance(owner, torch.nn.Module):
                got += [b.clone() for b in owner.buffers()]
        except Exception as error:
            got = type(error).__name__
    return got


def main(make, plant=None, **options):
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.fallback_random = True
    call, history = make()
    plain = outcome(call, history, **options)
    if plant:
        plant()
    torch._dynamo.reset()
    call, history = make()
    made = outcome(torch.compile(call), history, **options)
    off = isinstance(plain, str) != isinstance(made, str)
    if not off and not isinstance(plain, str):
        off = len(plain) != len(made) or any(
            a.shape != b.shape or not torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-5, equal_nan=True)
            for a, b in zip(plain, made)
        )
    print("WRONG" if off else "RIGHT")
