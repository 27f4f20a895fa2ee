"""Programs with torch under watch: tracebacks, loaders and their workers, launchers."""

from __future__ import annotations

import re
import textwrap

import pytest

pytest.importorskip("torch")

PROGRAMS = {
    "raises in backward": """
        import torch
        class Bad(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * 2
            @staticmethod
            def backward(ctx, g): raise ValueError("in backward")
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        Bad.apply(model(torch.ones(1, 2))).sum().backward()
        """,
    "raises in an optimizer's step": """
        import torch
        class Bad(torch.optim.SGD):
            def step(self, closure=None):
                with torch.enable_grad(): raise ValueError("in step")
        model = torch.nn.Linear(2, 2)
        optimizer = Bad(model.parameters(), 0.1)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        """,
    "shapes do not fit": """
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(4, 1))
        try: model(torch.ones(1, 2))
        except RuntimeError as error: raise KeyError("wrapped") from error
        """,
    "torch is not there": """
        import sys
        sys.modules["torch"] = None
        try: import torch
        except ImportError as error: print(error)
        import torch.nn
        """,
    "a module that fails while it imports torch": """
        open("late.py", "w").write("import torch\\nraise OSError('after torch')\\n")
        import late
        """,
}
LOADER = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    class Squares(Dataset):
        def __len__(self): return 6
        def __getitem__(self, n):
            if n == {bad}: raise IndexError("no such square")
            return torch.tensor(float(n * n))
    if __name__ == "__main__":
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-4)
        for batch in DataLoader(Squares(), 2, shuffle=True, num_workers={workers},
                                multiprocessing_context="{method}"):
            loss = model(batch[:, None]).sum()
            loss.backward(); optimizer.step(); optimizer.zero_grad()
            print(batch.tolist(), loss.item())
    """
RANKS = """
    import os
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        loss = model(torch.ones(8, 4)).square().mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()
    os.write(1, b"rank %d of %d\\n" % (rank, dist.get_world_size()))
    dist.destroy_process_group()
    """


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_looks_the_same(bench, name):
    bench.write("prog.py", PROGRAMS[name])
    bench.twins("prog.py")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader(bench, method):
    bench.write("prog.py", LOADER.format(method=method, bad=-1, workers=2))
    bench.twins("prog.py")


def test_a_worker_that_fails(bench):
    bench.write("prog.py", LOADER.format(method="fork", bad=3, workers=1))
    bench.twins("prog.py")


def under_torchrun(bench, *options):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = bench.plain(*launcher, "-m", "reefwatch", "run", *options, "--out=out", "prog.py")
    assert sorted(done.stdout.splitlines()) == [b"rank 0 of 2", b"rank 1 of 2"]
    assert done.stderr.count(b" held, ") == 1
    return done


def test_under_torchrun(bench):
    bench.write("prog.py", RANKS)
    done = under_torchrun(bench)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (bench.folder / "out").glob("rank*.jsonl")} == {
        "rank0.jsonl",
        "rank1.jsonl",
    }
    from reefwatch import report

    judged = report(bench.folder / "out")
    assert [record.complete for record in judged.records] == [True, True]
    assert {record.world for record in judged.records} == {2}


def test_a_verdict_of_the_first_rank_does_not_kill_the_others(bench):
    late = """
        import atexit, time
        def last():
            time.sleep(1.5)
            open("ended%d" % rank, "w").close()
        if rank: atexit.register(last)
        """
    bench.write("prog.py", textwrap.dedent(RANKS) + textwrap.dedent(late))
    done = under_torchrun(bench, "--claim=bf16")
    assert re.search(rb"local_rank: 0\)\s+exitcode  : 3 ", done.stderr), done.stderr
    assert (bench.folder / "ended1").exists()
