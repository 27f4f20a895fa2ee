"""`reefwatch plan`: what it takes from the machine, writes and installs."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from reefwatch.api import plan as api
from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.gather.machine.replay import CapturedHost
from reefwatch.plan.sets import Plan, Wishes
from reefwatch.shell import cli

SYSFS = Path(__file__).parents[1] / "data" / "sysfs"
PYTHON = ".".join(map(str, sys.version_info[:2]))


def test_defaults_come_from_the_machine(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\n')
    (tmp_path / "sys").symlink_to(SYSFS / "rx9070xt" / "sys")
    wishes = api.wishes(host=CapturedHost(SYSFS / "rx7900xtx-kfd-only"))
    found = api.plan(wishes)
    assert isinstance(found, Plan) and found.wishes.gfx == "gfx1100"
    assert (wishes.vendor, wishes.python) == ("amd", PYTHON)
    (tmp_path / "sys").unlink()
    wishes = api.wishes(host=CapturedHost(tmp_path))
    assert (wishes.vendor, wishes.gpu, wishes.os) == ("cpu", "cpu", "ubuntu-24.04")
    nvidia = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
    nvidia.mkdir(parents=True)
    assert api.wishes(host=CapturedHost(tmp_path)).vendor == "nvidia"


def test_the_source_may_come_from_a_variable(tmp_path):
    (tmp_path / "environ.json").write_text('{"REEFWATCH_TORCH_SOURCE": "pip"}')
    assert api.wishes("cpu", host=CapturedHost(tmp_path)).source == "pip"


@pytest.mark.parametrize(
    "option",
    ["gpu", "os", "python", "torch", "rocm", "with", "without", "torch-source", "out", "apply"],
)
@pytest.mark.parametrize("empty", ["", " ", ","])
def test_an_empty_wish_is_no_wish(option, empty, capsys):
    assert cli.main(["plan", "--gpu", "cpu", f"--{option}", empty]) == 2
    said = capsys.readouterr()
    assert f"--{option}" in said.err and said.out == ""


@pytest.mark.parametrize(
    "words",
    [
        *(["--without", "torch"], ["--without", "blah"], ["--without", "torchvision,triton"]),
        *(
            ["--torch-source", "not a url"],
            ["--torch-source", "https://a b"],
            ["--torch-source", "x"],
        ),
        *(["--torch-source", "https://a/'; rm -rf /"], ["--torch-source", "ftp://a"]),
        *(["--torch-source", "https://a/`id`"], ["--torch-source", "https://a\nb"]),
        *(["--torch", "$(id)"], ["--rocm", "x"]),
    ],
)
def test_what_cannot_be_meant_is_refused(words, capsys):
    assert cli.main(["plan", "--gpu", "cpu", *words]) == 2
    said = capsys.readouterr()
    assert words[0] in said.err and said.out == "" and "fault of reefwatch" not in said.err


def test_a_source_in_the_variable_is_looked_at_too(tmp_path):
    (tmp_path / "environ.json").write_text('{"REEFWATCH_TORCH_SOURCE": "not a url"}')
    with pytest.raises(UsageError, match="REEFWATCH_TORCH_SOURCE"):
        api.wishes("cpu", host=CapturedHost(tmp_path))


OWN = """
[[gpus.gpu]]
name = "Radeon of Ours"
arch = "gfx1100"
pci = [{ device = "0x9999", revision = "" }]

[[libs.lib]]
name = "bitsandbytes"
pins = [{ version = "9.9.9", torch = ">=2.4", python = ">=3.10" }]
"""


def test_own_rows_are_laid_over_the_tables(tmp_path, capsys):
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    words = ["plan", "--gpu", "Radeon of Ours", "--os", "ubuntu-24.04", "--python", "3.12"]
    assert cli.main(words) == 3
    assert "in no table" in capsys.readouterr().out
    assert cli.main([*words, "--data", str(own)]) == 0
    assert f"rows of {own}" in capsys.readouterr().out
    words[2] = "cpu"
    assert cli.main([*words[:2], "RTX 4090", "--with", "bitsandbytes", "--data", str(own)]) == 0
    assert "9.9.9" in capsys.readouterr().out
    for wrong in ("[[gpus.gpu]]\nname = 3\n", "[nothing]\n", "= ="):
        own.write_text(wrong)
        assert cli.main([*words, "--data", str(own)]) == 2
        assert "fault of reefwatch" not in capsys.readouterr().err
    assert cli.main([*words, "--data", str(tmp_path / "gone.toml")]) == 2


def test_verb(capsys, tmp_path):
    words = ["plan", "--gpu", "RX 7900 XTX", "--os", "ubuntu-24.04", "--python", "3.12"]
    assert cli.main([*words, "--format", "requirements"]) == 0
    assert "torch==2.14.1+rocm7.14" in capsys.readouterr().out.splitlines()
    assert cli.main([*words, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["command"]) == (1, "plan")
    assert told["facts"]["plan"]["pins"][0]["requirement"] == "torch==2.14.1+rocm7.14"
    assert cli.main([*words, "--with", "vllm", "--format", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["facts"]["conflict"]["changed"] == "without vllm"
    assert cli.main([*words, "--out", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "Dockerfile", "install.sh", "pyproject.toml", "requirements-torch.txt", "requirements.txt",
    }  # fmt: skip
    assert cli.main([*words, "--out", str(tmp_path / "new/Dockerfile/x")]) == 2


def test_an_override_loads_the_code_of_its_target():
    found = api.plan(Wishes(gpu="gfx1031"))
    assert isinstance(found, Plan) and api._loads_for(found) == "gfx1030"
    found = api.plan(Wishes(gpu="gfx1100"))
    assert isinstance(found, Plan) and api._loads_for(found) == "gfx1100"


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel without anything in it, in a folder that pip takes as an index."""
    where = folder / name
    where.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    rows = {
        f"{name}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*rows, f"{info}/RECORD"])
    with zipfile.ZipFile(where / f"{name}-{version}-py3-none-any.whl", "w") as made:
        for path, text in rows.items():
            made.writestr(path, text)
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in where.glob("*.whl"))
    (where / "index.html").write_text(links)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index of empty wheels; pip knows no other."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    folder = tmp_path / "index"
    for version in ("2.13.0+cpu", "2.13.0", "2.14.0"):
        wheel(folder, "torch", version)
    monkeypatch.setenv("PIP_INDEX_URL", folder.as_uri())
    wheel(folder, "accelerate", "1.15.0")
    return folder


def cpu(index: Path, *libraries: str) -> Plan:
    found = api.plan(
        Wishes("cpu", "cpu", python=PYTHON, torch="2.13.0", libraries=libraries,
               without=("torchvision",), source=index.as_uri())
    )  # fmt: skip
    assert isinstance(found, Plan)
    return found


@pytest.mark.serial
def test_apply_installs_what_was_planned(index, tmp_path):
    said: list[str] = []
    there = api.apply(cpu(index, "accelerate"), tmp_path / "venv", said.append)
    assert there == {"torch": "2.13.0+cpu", "accelerate": "1.15.0"}
    assert (tmp_path / "venv/constraints.txt").read_text() == "torch==2.13.0+cpu\n"
    # the wheel is empty, so doctor of that environment sees a torch and no more of it
    assert api.look_over(cpu(index), tmp_path / "venv", said.append) in (0, 3)
    assert f"doctor of {tmp_path}/venv" in said[-1] and "torch 2.13.0+cpu" in said[-1]
    # an environment that has another build of the same number is put right
    api.apply(cpu(index), tmp_path / "venv")
    assert api.installed(tmp_path / "venv/bin/python")["torch"] == "2.13.0+cpu"


@pytest.mark.serial
def test_apply_refuses_what_it_cannot_do(index, tmp_path):
    (index / "torch" / "torch-2.13.0+cpu-py3-none-any.whl").unlink()
    (index / "torch" / "index.html").write_text("")
    with pytest.raises(ReefwatchError, match=r"failed: .*torch==2\.13\.0\+cpu"):
        api.apply(cpu(index), tmp_path / "venv")
    other = api.plan(Wishes("cpu", "cpu", python="3.9", torch="2.8.0", without=("torchvision",)))
    assert isinstance(other, Plan)
    with pytest.raises(UsageError, match=r"has Python .*, the plan is for 3\.9"):
        api.apply(other, tmp_path / "venv")


@pytest.mark.parametrize("wish", [{"torch": ">=2.5"}, {"torch": "latest"}, {"rocm": "7.2foo"}])
def test_what_is_no_version_is_refused(wish):
    with pytest.raises(UsageError, match="is no version such as"):
        api.wishes("RX 7900 XTX", "ubuntu-24.04", "3.12", **wish)
