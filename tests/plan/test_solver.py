"""Every wish gets a consistent set or a named conflict."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefwatch import data
from reefwatch.plan import cards, nvidia, systems
from reefwatch.plan.candidates import builds, number
from reefwatch.plan.nearest import Offer, Releases, distance
from reefwatch.plan.sets import ORDER, Conflict, Plan, Wishes
from reefwatch.plan.solver import Tables, solve
from reefwatch.show import plan as show
from tests.plan.consistency import GPUS, TORCH, faults

NAMES = ("gpus", "rocm", "torch", "libs")
TABLES = Tables(*(data.table(f"compat/{name}.toml") for name in NAMES))
ARCHS = sorted({row["arch"] for row in GPUS["gpu"]} | {"gfx1250"})
BUILDS = [build for build in builds(TORCH) if number(build.torch) >= (2, 4)]
LIBRARIES = ["lightning", *(row["name"] for row in TABLES.libs["lib"])]


def planned(**wishes: Any) -> Plan:
    said = solve(Wishes(**wishes), TABLES)
    assert isinstance(said, Plan), said
    return said


def refused(**wishes: Any) -> Conflict:
    said = solve(Wishes(**wishes), TABLES)
    assert isinstance(said, Conflict), said
    return said


@pytest.mark.parametrize("row", GPUS["gpu"], ids=lambda row: row["name"])
def test_each_card_is_known_by_its_name(row):
    known = cards.resolve(Wishes(gpu=row["name"]), GPUS)
    assert isinstance(known, Wishes)
    assert (known.vendor, known.gfx) == ("amd", row["arch"])
    if not row["pci"]:
        return
    device = row["pci"][0]["device"]
    by_id = cards.resolve(Wishes(gpu=f"1002:{device[2:]}"), GPUS)
    archs = {one["arch"] for one in GPUS["gpu"] for pci in one["pci"] if pci["device"] == device}
    assert isinstance(by_id, Wishes) or len(archs) > 1


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("os", ["ubuntu-24.04", "arch"])
def test_each_build_on_each_target(arch, os):
    plans = 0
    for build in BUILDS:
        wish = Wishes(gpu=arch, os=os, torch=build.torch, rocm=build.rocm, channel=build.channel)
        said = solve(wish, TABLES)
        if isinstance(said, Plan):
            plans += 1
            assert not list(faults(said, ("text",))), (wish, list(faults(said)))
        else:
            assert said.name and said.words, wish
            assert said.nearest is not None, wish
    assert plans or arch in ("gfx803", "gfx1010", "gfx1011", "gfx1012", "gfx1250", "gfx90c")


WISH = st.builds(
    Wishes,
    gpu=st.sampled_from([*ARCHS, "RX 7900 XTX", "cpu", "RTX 4090", "780M", "MI300X"]),
    os=st.sampled_from(["", "arch", *systems.KNOWN]),
    python=st.sampled_from(["", "3.9", "3.10", "3.12", "3.14"]),
    torch=st.sampled_from(["", "2", "2.4", "2.6.0", "2.10", "2.13", "2.14.1", "2.15"]),
    rocm=st.sampled_from(["", "6.1", "7.2", "7.14", "10", "10.1.0"]),
    channel=st.sampled_from(["", "upstream", "amd"]),
    libraries=st.lists(st.sampled_from(LIBRARIES), max_size=3, unique=True).map(tuple),
)


@given(WISH)
@settings(max_examples=100)
def test_any_wish(wish):
    said = solve(wish, TABLES)
    plan = said.nearest if isinstance(said, Conflict) else said
    if isinstance(said, Conflict):
        assert said.name and said.words and "!" not in said.words
        assert (plan is None) == (not said.changed)
    else:
        asked = number(wish.torch)
        torch = next(pin for pin in said.pins if pin.name == "torch")
        assert number(torch.version)[: len(asked)] == asked
        rocm = number(wish.rocm)
        assert number(torch.version.partition("+rocm")[2])[: len(rocm)] == rocm
        assert {row.what for row in said.rows} >= set(wish.libraries) - {"triton"}
    if plan is not None and plan.wishes.vendor == "amd":
        assert not list(faults(plan)), list(faults(plan))
    json.dumps(plan.plain() if plan else None)


def test_the_newest_for_a_7900_xtx():
    plan = planned(gpu="RX 7900 XTX", os="ubuntu-24.04", python="3.12")
    assert [str(pin) for pin in plan.pins] == [
        "torch==2.14.1+rocm7.14",
        "torchvision==0.29.1+rocm7.14",
    ]
    assert plan.index == "https://download.pytorch.org/whl/rocm7.14"
    assert plan.confidence == "sourced" and not plan.weak
    assert plan.unset == ("HSA_OVERRIDE_GFX_VERSION",) and not plan.environment
    amd = planned(gpu="gfx1100", os="ubuntu-24.04", python="3.12", channel="amd")
    assert [str(pin) for pin in amd.pins] == [
        "torch[device-gfx1100]==2.14.0+rocm10.1.0",
        "torchvision[device-gfx1100]==0.29.0a0+rocm10.1.0",
        "torchaudio==2.11.0.3+rocm10.1.0",
    ]


def test_the_name_of_triton_changed_at_2_10():
    for torch, package in (("2.9.1", "pytorch-triton-rocm"), ("2.10.0", "triton-rocm")):
        plan = planned(gpu="gfx1100", torch=torch)
        assert plan.family[0] == package
        row = plan.row("triton")
        assert row is not None and row.value.startswith(package + " ")


def test_what_rests_on_inference_says_so():
    plan = planned(gpu="gfx1100", os="ubuntu-24.04", torch="2.13", rocm="7.1")
    assert {row.what for row in plan.weak} >= {"torch", "torchvision", "triton"}
    assert "try these parts before relying on them" in show.render("text", plan.plain())
    assert ORDER.index(plan.confidence) >= ORDER.index("inferred")


CONFLICTS = """
gpu=RX 5700 XT                      card     no kernels for gfx1010       on the CPU
gpu=gfx1100 torch=2.13 python=3.9   python   Python 3.9         with Python 3.10 in place of 3.9
gpu=gfx1100 torch=2.15              torch    no ROCm build      with torch 2.14.1 in place of 2.15
gpu=gfx1100 torch=3                 torch    in no table        with torch 2.14.1 in place of 3
gpu=gfx1100 rocm=8   rocm   no build for ROCm 8   with ROCm 7.14 in place of 8
gpu=gfx1100 torch=2.13 rocm=6.4  rocm  no build for ROCm 6.4  with ROCm 7.1 in place of 6.4
gpu=gfx1100 torch=2.14 channel=amd rocm=7.14  rocm  no build  from the upstream channel
gpu=gfx1201 torch=2.4               card   no kernels for gfx1201  with torch 2.7.1 in place of 2.4
gpu=gfx1100 with=xformers           library  xformers does not work       without xformers
gpu=gfx1100 with=vllm               library  brings a torch of its own    without vllm
gpu=gfx1100 with=flash              library  in no table                  without flash
gpu=gfx1100 rocm=10.1 with=bnb  library  for ROCm 10.1.0  with ROCm 10.0.0 in place of 10.1
gpu=cpu with=bitsandbytes           library  for a GPU                    without bitsandbytes
gpu=gfx1100 os=windows-11           system   only Linux                   on ubuntu-24.04
gpu=gfx1100 os=ubunto-22.04         system   near: ubuntu-22.04           on ubuntu-22.04
gpu=gfx1100 os=ubuntu-18.04         system   from Ubuntu 20.04            on ubuntu-20.04
gpu=gfx1100 os=ubuntu-99.04         system   there is no Ubuntu 99.04     on ubuntu-26.04
gpu=gfx1100 os=ubuntu-24.05         system   there is no Ubuntu 24.05     on ubuntu-24.04
gpu=gfx1100 python=2.7              python   is no Python       with Python 3.12 in place of 2.7
gpu=gfx1100 os=rhel-7               system   RHEL 7 is older              on rhel-8
gpu=Arc A770                        card     is an Intel card             on the CPU
gpu=banana                          card     in no table                  on the CPU
gpu=RTX 4090 torch=2.12 with=vllm  library  no vllm that  with torch 2.13.0 in place of 2.12
gpu=RTX 4090 torch=2.12 python=3.9  python   Python 3.9         with Python 3.10 in place of 3.9
"""
"""Wishes, the name of the conflict, what its words hold, what the nearest set gives up."""


@pytest.mark.parametrize("line", CONFLICTS.strip().splitlines())
def test_conflicts_have_names_and_neighbours(line):
    asked, name, words, changed = re.split(r"\s{2,}", line)
    wish: dict[str, Any] = dict(re.findall(r"(\w+)=(.*?)(?= \w+=|$)", asked))
    if "with" in wish:
        wish["libraries"] = (wish.pop("with"),)
    said = refused(**wish)
    assert said.name == name and words in said.words
    assert said.changed == changed
    assert said.nearest is not None
    assert f"nearest, {changed}:" in show.refusal({**vars(said), "nearest": said.nearest.plain()})


@pytest.mark.parametrize(
    ("wish", "offer", "far"),
    [
        (Wishes(torch="2.13"), Offer("2.13.0", "7.2", "amd", "", "", ()), (False, 0, 0)),
        (Wishes(torch="2.15"), Offer("2.12.0", "7.2", "amd", "", "", ()), (False, 1, 3)),
        (Wishes(torch="2.14.0"), Offer("2.14.1", "7.2", "amd", "", "", ()), (False, 1, 0)),
        (Wishes(torch="2.13.0+rocm7.1"), Offer("2.13.0", "7.2", "", "", "", ()), (False, 1, 0)),
        (Wishes(rocm="7.2"), Offer("2.13.0", "7.14", "amd", "", "", ()), (False, 1, 2)),
        (Wishes(rocm="8"), Offer("2.13.0", "10.0.0", "amd", "", "", ()), (False, 1, 1)),
        (Wishes(rocm="9.9", channel="amd"), Offer("2.13.0", "7.14", "", "", "", ()), (False, 2, 1)),
        (Wishes(python="3.9"), Offer("2.13.0", "7.2", "", "3.11", "", ()), (False, 1, 2)),
        (Wishes(libraries=("a", "b")), Offer("2.13.0", "7.2", "", "", "", ("b",)), (False, 1, 5)),
        (Wishes(os="ubuntu-18.04"), Offer("2.13.0", "7.2", "", "", "ubuntu-20.04", ()),
         (False, 1, 0)),
        (Wishes(rocm="7.2"), Offer("2.13.0", "", "", "", "", (), on_cpu=True), (True, 0, 0)),
    ],
)  # fmt: skip
def test_distance(wish, offer, far):
    assert distance(wish, offer, Releases.of(TORCH)).key() == far


@pytest.mark.parametrize(
    "wish",
    [
        Wishes(gpu="gfx1100", torch="2.13", python="3.9"),
        Wishes(gpu="gfx1201", torch="2.4", libraries=("bitsandbytes",)),
        Wishes(gpu="gfx1100", rocm="10.1", libraries=("bitsandbytes", "xformers")),
        Wishes(gpu="gfx1151", torch="2.6", rocm="7.0", python="3.9"),
        Wishes(gpu="gfx1030", rocm="8", channel="amd", python="3.9"),
    ],
    ids=lambda wish: f"{wish.gpu} {wish.torch} {wish.rocm} {wish.python}",
)
def test_no_set_is_nearer_than_the_nearest(wish):
    """Every build, Python and choice of libraries that the solver takes, against the one named."""
    known = Releases.of(TORCH)
    near = refused(**vars(wish)).nearest
    assert near is not None
    torch = next(pin for pin in near.pins if pin.name == "torch")
    number_, _, rocm = torch.version.partition("+rocm")

    def far(torch: str, rocm: str, channel: str, python: str, left: Any) -> Any:
        return distance(wish, Offer(torch, rocm, channel, python, "", tuple(left)), known).key()

    left = set(wish.libraries) - set(near.wishes.libraries)
    channel = "upstream" if "download.pytorch.org" in near.index else "amd"
    named = far(number_, rocm, channel, near.wishes.python, left)
    tried = 0
    for build in builds(TORCH):
        for python in {wish.python, *build.python}:
            for kept in itertools.chain.from_iterable(
                itertools.combinations(wish.libraries, count)
                for count in range(len(wish.libraries) + 1)
            ):
                away = set(wish.libraries) - set(kept)
                other = far(build.torch, build.rocm, build.channel, python, away)
                if other >= named:
                    continue
                tried += 1
                exact = Wishes(gpu=wish.gpu, python=python, torch=build.torch + build.tag,
                               channel=build.channel, libraries=kept)  # fmt: skip
                assert isinstance(solve(exact, TABLES), Conflict), exact
    assert tried


def test_a_build_that_was_reported_to_fail_is_told_and_comes_last():
    wish = {"gpu": "MI250", "torch": "2.12", "channel": "amd", "rocm": "7.14"}
    plan = planned(**wish, python="3.13")
    assert any("ROCm/pytorch issue 3518" in remark for remark in plan.remarks)
    assert not any("3518" in remark for remark in planned(**wish, python="3.12").remarks)
    free = planned(gpu="MI250", torch="2.12", python="3.13")
    assert not any("3518" in remark for remark in free.remarks)


def test_bitsandbytes_by_what_its_wheels_carry():
    for gpu, rocm in (("gfx908", "7.2"), ("gfx1030", "6.4"), ("gfx1153", "7.0")):
        plan = planned(gpu=gpu, rocm=rocm, libraries=("bitsandbytes",))
        row = plan.row("bitsandbytes")
        assert row is not None and row.value == "0.50.2"
    said = refused(gpu="gfx90a", rocm="6.1", libraries=("bitsandbytes",))
    assert "those for 6.4, 7.0" in said.words


def test_the_nearest_system_is_one_that_is_listed():
    near = refused(gpu="gfx1100", os="ubuntu-18.04").nearest
    row = near.row("system") if near else None
    assert row is not None and (row.value, row.confidence) == ("ubuntu-20.04", "sourced")


@pytest.mark.parametrize(
    "name", ["RTX4090", "RTX 4090", "geforce gtx1080ti", "H200", "NVIDIA A100"]
)
def test_nvidia_by_name(name):
    assert planned(gpu=name, python="3.12").wishes.vendor == "nvidia"


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"),
        *("Tesla T4", "Tesla V100-SXM2-16GB", "Quadro RTX 8000", "NVIDIA L40S", "NVIDIA A10G"),
        *("NVIDIA RTX 6000 Ada Generation", "NVIDIA GH200 480GB", "NVIDIA TITAN RTX", "4090"),
        *("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA H100 NVL", "RTX 3080 Ti"),
        *("NVIDIA RTX A6000", "NVIDIA GeForce GTX 1660 SUPER", "B200", "NVIDIA GB10", "h200"),
    ],
)
def test_nvidia_as_its_driver_names_it(name):
    plan = planned(gpu=name, python="3.12")
    assert plan.wishes.vendor == "nvidia" and plan.row("capability") is not None


@pytest.mark.parametrize(
    "name",
    [
        *("RTX 9090", "RTX 4O90", "GTX 480", "RTX 4091", "RTX 40900", "H1000", "A1000000", "GTX"),
        *("H100 MI300X", "RX 7900 XTX RTX 4090", "RTX 4090 and RTX 3090", "H100 H200", "T44"),
        *("NVIDIA RX 7900 XTX", "GeForce 256", "NVIDIA Voodoo", "RTX 7900 XTX", "4O90", "90904090"),
    ],
)
def test_what_is_no_card_gets_no_plan(name):
    said = refused(gpu=name, python="3.12")
    assert said.name == "card" and (said.nearest is None or said.nearest.wishes.vendor == "cpu")


@pytest.mark.parametrize("name", ["RX 79", "RX 790", "7900 XT X", "MI3", "W78", "X 7900", "90"])
def test_a_part_of_a_word_is_no_card(name):
    assert refused(gpu=name).name == "card"


@pytest.mark.parametrize("name", ["RX 7900", "7900 XTX", "rx7900xtx", "MI300", "w7900", "mi210"])
def test_some_words_of_a_name_are_a_card(name):
    assert planned(gpu=name).wishes.gfx


def test_a_slip_in_the_name_of_a_card_is_told():
    assert "RTX 4090" in refused(gpu="RTX 4O90").words
    assert "two vendors" in refused(gpu="H100 MI300X").words


def test_what_the_newest_cuda_has_left_behind_is_said_and_not_refused():
    row = planned(gpu="GTX 1080 Ti", python="3.12").row("capability")
    assert row is not None and row.value == "6.1" and "cu126" in row.why
    assert row.confidence not in ("sourced", "partly")
    row = planned(gpu="RTX 4090", python="3.12").row("capability")
    assert row is not None and row.value == "8.9" and "cu126" not in row.why


def test_each_model_leads_to_its_own_row_alone():
    for row in GPUS["nvidia"]:
        for model in row["models"]:
            assert nvidia.find(model, GPUS["nvidia"]) is row, model


@pytest.mark.parametrize(
    ("os", "near"),
    [
        *(("ubuntu-24.4", "24.04"), ("ubuntu-24.04.99", "24.04"), ("rhel-9.77", "rhel-9")),
        *(("ubuntu-24.04.1.1", "24.04"), ("ubuntu-23.04.1", ""), ("ubuntu-24.10.2", "24.04")),
        *(("rhel-09", ""), ("rhel-9.6.1", "rhel-9"), ("debian-12.99", "debian-12")),
        *(
            ("sles-15.9", "sles-15"),
            ("ubuntu-24..04", ""),
            ("ubuntu-24.04.", ""),
            ("rocky-9.11", ""),
        ),
        *(("ubuntu-22.4", "22.04"), ("ubuntu-24.040", "24.04"), ("oracle-9.12", "oracle-9")),
    ],
)
def test_a_system_that_there_cannot_be_is_refused(os, near):
    said = refused(gpu="gfx1100", os=os)
    assert said.name == "system" and near in said.words


@pytest.mark.parametrize(
    "os",
    [
        *("ubuntu-24.04.1", "ubuntu-24.04.5", "ubuntu-22.04", "ubuntu-24.10", "ubuntu-26.04.1"),
        *(
            "rhel-9.7",
            "rhel-8.10",
            "rhel-10",
            "debian-12.11",
            "debian-13",
            "sles-15.7",
            "rocky-9.6",
        ),
        *("Ubuntu 24.04", "rhel9.4", "arch", "fedora-42", "ubuntu-25.04", "nixos-25.05"),
    ],
)
def test_a_system_that_there_can_be_is_planned_for(os):
    planned(gpu="gfx1100", os=os)


def test_the_index_of_an_nvidia_plan_is_named():
    plan = planned(gpu="RTX 4090", python="3.12")
    assert plan.index == "https://pypi.org/simple"
    for kind in ("shell", "requirements", "dockerfile", "pyproject"):
        assert "https://pypi.org/simple" in show.render(kind, plan.plain()), kind


@pytest.mark.parametrize(
    ("os", "python", "image", "word"),
    [
        ("ubuntu-24.04", "3.12", "ubuntu:24.04", ""),
        ("ubuntu-22.04", "3.10", "ubuntu:22.04", ""),
        ("debian-12", "3.12", "python:3.12-slim-bookworm", ""),
        ("debian-13", "3.13", "python:3.13-slim-trixie", ""),
        ("ubuntu-22.04", "3.12", "python:3.12-slim-bookworm", "in place of ubuntu-22.04"),
        ("rhel-9", "3.12", "python:3.12-slim-bookworm", "in place of rhel-9"),
        ("", "3.12", "python:3.12-slim-bookworm", ""),
    ],
)
def test_another_system_in_a_dockerfile_is_said(os, python, image, word):
    text = show.render("dockerfile", planned(gpu="gfx1100", os=os, python=python).plain())
    assert f"FROM {image}\n" in text
    assert ("in place of" in text) == bool(word) and word in text


def test_the_library_decides_on_the_torch():
    plan = planned(gpu="RTX 4090", python="3.12", libraries=("vllm",))
    assert [str(pin) for pin in plan.pins if pin.name in ("torch", "vllm")] == [
        "torch==2.14.0",
        "vllm==0.33.0",
    ]
    plan = planned(gpu="gfx1100", channel="amd", libraries=("bitsandbytes",))
    assert next(pin for pin in plan.pins if pin.name == "torch").version == "2.13.0+rocm10.0.0"


def test_an_override_is_the_last_resort_and_said():
    plan = planned(gpu="RX 6700 XT", os="ubuntu-24.04", python="3.12")
    assert plan.environment == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    assert "kernels" in [row.what for row in plan.weak]


def test_another_source_of_torch():
    assert planned(gpu="cpu", source="pip").index == ""
    assert planned(gpu="cpu", source="https://mirror/simple").index == "https://mirror/simple"
    assert [
        str(pin) for pin in planned(gpu="cpu", torch="2.13.0", without=("torchvision",)).pins
    ] == ["torch==2.13.0+cpu"]


def test_shell_and_dockerfile_parse(tmp_path):
    for wish in (
        {"gpu": "gfx1100", "python": "3.12", "os": "ubuntu-24.04", "libraries": ("flash-attn",)},
        {"gpu": "gfx1031", "torch": "2.13", "libraries": ("lightning",)},
        {"gpu": "cpu", "python": "3.11"},
    ):
        plain = planned(**wish).plain()
        script = tmp_path / "install.sh"
        script.write_text(show.render("shell", plain))
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        lines = dockerfile(show.render("dockerfile", plain))
        assert lines[0][0] == "FROM"
        assert {word for word, _ in lines} <= {"FROM", "RUN", "ENV", "WORKDIR", "CMD"}
        runs = [rest for word, rest in lines if word == "RUN"]
        for run in runs:
            done = subprocess.run(["bash", "-n", "-c", run], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def dockerfile(text: str) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile: comments out, continued lines joined."""
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(kept).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in joined.splitlines()]  # type: ignore[misc]


def test_tables_of_ones_own():
    torch: Mapping[str, Any] = {**TORCH, "torch": TORCH["torch"][-1:], "amd_wheel": []}
    said = solve(Wishes(gpu="gfx1100"), Tables(TABLES.gpus, TABLES.rocm, torch, TABLES.libs))
    assert isinstance(said, Conflict) and said.name == "card"
    assert TABLES.asof == "2026-11-30"


@pytest.mark.parametrize("text", ["Ubuntu 24.04", "ubuntu-24.04", "ubuntu24.04", "UBUNTU_24.04"])
def test_systems_as_people_write_them(text):
    system = systems.read(text)
    assert system is not None and (system.name, system.version) == ("Ubuntu", "24.04")
    (release,) = [row for row in TABLES.rocm["release"] if row["version"] == "7.2.0"]
    assert systems.listed(system, release["os"]) == "Ubuntu 24.04.3"


def test_a_list_for_instinct_is_none_for_radeon():
    for gpu, sure in (("gfx1100", "unverified"), ("gfx942", "sourced")):
        plan = planned(gpu=gpu, os="debian-12", channel="amd", torch="2.14")
        row = plan.row("system")
        assert row is not None and row.confidence == sure
