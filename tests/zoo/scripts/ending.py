"""What every script of the zoo prints at its end: all that a watch could have disturbed."""

import hashlib
import random
import threading

import numpy

random.seed(0)
numpy.random.seed(0)


def digest(*parts):
    made = hashlib.sha256()
    for part in parts:
        made.update(part)
    return made.hexdigest()[:16]


def raw(tensor):
    import torch

    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    flat = tensor.cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def tell(losses, *things):
    """Losses as hex floats; then weights, gradients, random states, threads, hooks left behind."""
    import torch

    for n, loss in enumerate(losses):
        value = loss.item() if isinstance(loss, torch.Tensor) else loss
        print(n, complex(value) if isinstance(value, complex) else float(value).hex())
    for thing in things:
        if isinstance(thing, torch.nn.Module):
            print("weights", digest(*map(raw, thing.state_dict().values())))
            grads = [p.grad for p in thing.parameters() if p.grad is not None]
            print("gradients", len(grads), digest(*map(raw, grads)))
        elif isinstance(thing, torch.optim.Optimizer):
            state = [v for s in thing.state.values() for v in s.values()]
            print("optimizer", digest(*(raw(v) for v in state if isinstance(v, torch.Tensor))))
        elif isinstance(thing, torch.Tensor):
            print("tensor", thing.dtype, tuple(thing.shape), digest(raw(thing)))
        else:
            print(thing)
    print("torch random", digest(torch.get_rng_state().numpy().tobytes()))
    print("python random", digest(repr(random.getstate()).encode()))
    print("numpy random", digest(repr(numpy.random.get_state()).encode()))
    print("threads", threading.active_count(), torch.get_num_threads())
    print("modes", torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    print("default dtype", torch.get_default_dtype(), torch.tensor(0.0).device)
