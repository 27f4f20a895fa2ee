"""Where torch comes from, as a function of what the machine has."""

from pathlib import Path

import pytest

SPEC = "torch==2.13.0"
WHEELS = "https://download.pytorch.org/whl"
PYPI = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1, 2.13.0, 2.12.1\n"
FOLDER = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0+cpu, 2.13.0, 2.1.0\n  LATEST: 2.15.0"
ROCM = "torch (2.13.0+rocm7.2)\nAvailable versions: 2.13.0+rocm7.2, 2.12.1+rocm7.2\n"


@pytest.fixture(scope="module")
def torch_source(script):
    return script("torch_source")


def read(torch_source, root: Path):
    return torch_source.read_machine(root, path=str(root / "usr/bin"))


def test_a_machine_without_a_card_is_asked_for_the_cpu_build_first(torch_source, tmp_path):
    machine = read(torch_source, tmp_path)
    assert machine == torch_source.Machine(amd=False, nvidia=False)
    found = torch_source.sources(machine, SPEC)
    assert [source.index for source in found] == [None, f"{WHEELS}/cpu", None]
    assert [source.tag for source in found] == ["cpu", "", ""]


@pytest.mark.parametrize(
    ("file", "text", "amd", "nvidia"),
    [
        ("dev/kfd", "", True, False),
        ("sys/class/drm/card1/device/vendor", "0x1002\n", True, False),
        ("sys/class/drm/card0/device/vendor", "0x8086\n", False, False),
        ("proc/driver/nvidia/version", "", False, True),
    ],
)
def test_cards_are_known_by_their_files(torch_source, tmp_path, file, text, amd, nvidia):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert read(torch_source, tmp_path) == torch_source.Machine(amd=amd, nvidia=nvidia)


def test_nvidia_smi_on_the_path_is_an_nvidia_card(torch_source, tmp_path):
    tool = tmp_path / "usr/bin/nvidia-smi"
    tool.parent.mkdir(parents=True)
    tool.write_text("")
    tool.chmod(0o755)
    assert read(torch_source, tmp_path).nvidia


@pytest.mark.parametrize(
    ("spec", "rocm"),
    [
        ("torch==2.13.0", "rocm7.2"),
        ("torch==2.14.1", "rocm7.14"),
        ("torch>=2.11", "rocm7.2"),
        ("torch", "rocm7.14"),
        ("torch==2.99.0", "rocm7.14"),
    ],
)
def test_amd_takes_the_rocm_index_of_the_release(torch_source, spec, rocm):
    found = torch_source.sources(torch_source.Machine(amd=True), spec)
    assert [source.index for source in found] == [
        None,
        f"{WHEELS}/{rocm}",
        None,
        f"{WHEELS}/cpu",
        None,
    ]
    assert [source.tag for source in found] == ["rocm", "", "cpu", "", ""]


@pytest.mark.parametrize("amd", [False, True])
def test_nvidia_takes_what_pip_is_set_up_for(torch_source, amd):
    found = torch_source.sources(torch_source.Machine(amd=amd, nvidia=True), SPEC)
    assert [source.index for source in found] == [None]


def test_a_named_index_comes_before_all(torch_source):
    machine = torch_source.Machine(amd=True, nvidia=True)
    found = torch_source.sources(machine, SPEC, "https://mirror/whl")
    assert [source.index for source in found] == ["https://mirror/whl", None]


@pytest.mark.parametrize(
    ("answer", "spec", "tag", "wanted"),
    [
        (FOLDER, SPEC, "cpu", "torch==2.13.0+cpu"),
        (FOLDER, SPEC, "rocm", None),
        (PYPI, SPEC, "cpu", None),
        (PYPI, SPEC, "", SPEC),
        (PYPI, "torch==2.1", "", None),
        (ROCM, SPEC, "rocm", "torch==2.13.0+rocm7.2"),
        (ROCM, "torch>=2.11", "", "torch>=2.11"),
        ("ERROR: No matching distribution found for torch", SPEC, "", None),
        ("", "torch", "", None),
    ],
)
def test_a_version_is_there_only_in_the_right_build(torch_source, answer, spec, tag, wanted):
    assert torch_source.pick(answer, spec, tag) == wanted


def test_commands_never_mix_indexes(torch_source):
    for machine in [torch_source.Machine(), torch_source.Machine(amd=True)]:
        for source in torch_source.sources(machine, SPEC):
            words = source.install("py", SPEC)
            assert "--extra-index-url" not in words
            assert ("--index-url" in words) == (source.index is not None)


def fake_python(folder: Path, *, torch: bool, pip: str = "exit 1") -> str:
    """A stand-in for a Python with or without torch, whose pip does as told."""
    tool = folder / "python"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exit {0 if torch else 1}\necho "$@" >>{folder}/asked\n{pip}\n'
    )
    tool.chmod(0o755)
    return str(tool)


def test_an_index_out_of_reach_is_passed_over_in_one_line(torch_source, tmp_path, capfd):
    python = fake_python(tmp_path, torch=False, pip="echo 'ERROR: no route' >&2; exit 1")
    found = torch_source.sources(torch_source.Machine(), SPEC)
    source, wanted, remarks = torch_source.choose(found, python, SPEC)
    assert source is found[-1]
    assert wanted == SPEC
    assert remarks == [f"{WHEELS}/cpu has no {SPEC} for this machine, or is out of reach"]
    assert capfd.readouterr() == ("", "")
    assert "--retries 0 --timeout 5" in (tmp_path / "asked").read_text()


def test_a_failed_installation_says_what_to_set(torch_source, tmp_path, capfd):
    python = fake_python(tmp_path, torch=False)
    assert torch_source.main(["--python", python, "--spec", SPEC]) == 1
    assert "TORCH_SPEC and TORCH_INDEX" in capfd.readouterr().err.splitlines()[-1]


def test_a_torch_that_is_there_is_left_alone(torch_source, tmp_path):
    python = fake_python(tmp_path, torch=True)
    assert torch_source.main(["--python", python, "--spec", SPEC]) == 0
    assert not (tmp_path / "asked").exists()
