"""The examples run as plain PyTorch and know nothing of the watch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = ("digits_cnn.py", "cifar10_cnn.py")


def run(file: Path, *arguments: str, cwd: Path, path: Path | None = None):
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(path or "")}
    return subprocess.run(
        [sys.executable, str(file), *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_word_of_reefwatch(root, name):
    assert "reefwatch" not in (root / "examples" / name).read_text().lower()


def test_digits_learns(root, tmp_path):
    told = run(root / "examples/digits_cnn.py", "--epochs", "2", "--device", "cpu", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    *_, last = told.stdout.splitlines()
    accuracy = float(last.rpartition(" ")[2].rstrip("%"))
    assert accuracy > 80
    assert not list(tmp_path.iterdir())


def fake_torchvision(folder: Path, datasets: str) -> Path:
    """A stand-in for torchvision: the tests need no such package."""
    package = folder / "packages" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from . import datasets, transforms\n")
    (package / "transforms.py").write_text(
        "class Compose(list):\n    pass\n"
        "ToTensor = RandomHorizontalFlip = lambda: None\n"
        "Normalize = RandomCrop = lambda *about: None\n"
    )
    (package / "datasets.py").write_text(datasets)
    return package.parent


def one_line(told) -> str:
    assert told.returncode == 2, told
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    return line


def test_cifar_without_torchvision_says_so(root, tmp_path):
    broken = fake_torchvision(tmp_path, "raise ImportError('no torchvision here')\n")
    told = run(root / "examples/cifar10_cnn.py", cwd=tmp_path, path=broken)
    assert one_line(told) == "cifar10_cnn: torchvision is not installed"


def test_cifar_without_data_says_so_and_downloads_nothing(root, tmp_path):
    """The stand-in raises what torchvision's CIFAR10 raises when its files are not there."""
    path = fake_torchvision(
        tmp_path,
        "class CIFAR10:\n"
        "    def __init__(self, root, train, transform, download=False):\n"
        "        assert not download\n"
        "        raise RuntimeError('Dataset not found or corrupted.')\n",
    )
    told = run(root / "examples/cifar10_cnn.py", "--data", "nowhere", cwd=tmp_path, path=path)
    assert one_line(told).startswith("cifar10_cnn: no CIFAR-10 in nowhere")


def test_cifar_trains_on_what_the_loader_gives(root, tmp_path):
    path = fake_torchvision(
        tmp_path,
        "import torch\n"
        "class CIFAR10:\n"
        "    def __init__(self, root, train, transform, download=False):\n"
        "        self.pictures = torch.randn(16, 3, 32, 32)\n"
        "    def __len__(self):\n"
        "        return 16\n"
        "    def __getitem__(self, number):\n"
        "        if number >= 16:\n"
        "            raise IndexError\n"
        "        return self.pictures[number], number % 10\n",
    )
    few = ("--batch", "4", "--epochs", "2", "--steps", "2", "--workers", "0", "--device", "cpu")
    told = run(root / "examples/cifar10_cnn.py", *few, cwd=tmp_path, path=path)
    assert told.returncode == 0, told.stderr
    assert len(told.stdout.splitlines()) == 2
