"""The verb: what it prints, how it ends, what it writes."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reefwatch.api import machine
from reefwatch.core.errors import UsageError
from reefwatch.core.fact import Evidence
from reefwatch.data import tables
from reefwatch.gather.machine import inventory
from reefwatch.gather.machine.recording import RecordingHost
from reefwatch.gather.machine.replay import CapturedHost
from reefwatch.shell import cli
from reefwatch.store import capture
from reefwatch.store.scrub import Scrubber
from tests.machine import synthetic
from tests.machine.machines import NODES, SITE, desktop, node, write

SCHEMA = Path(__file__).parents[2] / "src/reefwatch/show/schema/report-1.schema.json"
TREES = Path(__file__).parents[1] / "data" / "sysfs"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["doctor", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_sound_machine_ends_in_0_and_a_broken_one_in_3(here: Path, capsys: Any) -> None:
    write(here / "sound", desktop())
    write(here / "broken", desktop(environ={"HIP_VISIBLE_DEVICES": "-1"}))
    code, out, _ = run(capsys, "--root", "sound")
    assert code == 0 and out.splitlines()[-1].endswith("unproven")
    code, out, _ = run(capsys, "--root", "broken")
    assert code == 3
    assert "MACH002" in out and "fix    unset HIP_VISIBLE_DEVICES" in out
    code, out, _ = run(capsys, "--root", str(TREES / "mi300-cpx"), "--require-proof")
    assert code == 4


def test_the_json_is_of_the_one_schema_and_holds_the_inventory(here: Path, capsys: Any) -> None:
    code, out, _ = run(capsys, "--root", str(TREES / "rx7900xtx-kfd-only"), "--json")
    told = json.loads(out)
    jsonschema.validate(told, json.loads(SCHEMA.read_text()))
    assert code == 0 and told["command"] == "doctor" and told["schema"] == 1
    facts = told["records"][0]["facts"]
    (gpu,) = facts["machine.gpus"]["value"]
    assert gpu["name"]["candidates"][0] == "AMD Radeon RX 7900 XTX"
    assert gpu["revision"]["unknown"] and facts["machine.kernel"]["unknown"]
    assert facts["machine.uses"]["value"]["gfx1100"][0]["works"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--root", "nowhere"], "there is no nowhere"),
        (["--root", ""], "--root: give a name"),
        (["--data", "nowhere.toml"], "cannot read nowhere.toml"),
        (["--data", "bad.toml"], "bad.toml is no TOML"),
        (["--data", "strange.toml"], "there is no table 'cards'"),
        (["--data", "flat.toml"], "gpus is no table"),
        (["--data", "slip.toml"], "near: gpu"),
        (["--data", "field.toml"], "gpus.gpu, row 1: there is no 'archs' in the shipped table"),
        (["--data", "short.toml"], "gpus.gpu, row 1 is new and lacks"),
        (["--data", "kind.toml"], "vram_gib is text, and the shipped one a number"),
        (["--data", "one.toml"], "write [[gpus.gpu]]"),
        (["--data", "flat.toml", "--port", "."], "--data goes with"),
        (["--root", "bad.toml"], "no captured machine"),
        (["--port", "nowhere"], "there is no nowhere"),
        (["--uses", "Voodoo 2"], "no card of the table"),
        (["--root", ".", "--deep"], "--deep runs on this machine"),
        (["--root", ".", "--port", "."], "give one of them"),
        (["--capture", "bad.toml"], "exists already"),
        (["--limit", "soon"], "not a time"),
    ],
)
def test_wrong_use_is_told_in_one_line(
    words: list[str], said: str, here: Path, capsys: Any
) -> None:
    (here / "bad.toml").write_bytes(b"[[[ \xff")
    (here / "strange.toml").write_text("[cards]\na = 1\n")
    (here / "flat.toml").write_text("gpus = 3\n")
    (here / "slip.toml").write_text('[[gpus.gpus]]\nname = "X"\n')
    card = '[[gpus.gpu]]\nname = "AMD Radeon RX 7900 XTX"\n'
    (here / "field.toml").write_text(card + 'archs = "gfx1100"\n')
    (here / "kind.toml").write_text(card + 'vram_gib = "24"\n')
    (here / "short.toml").write_text('[[gpus.gpu]]\nname = "X"\n')
    (here / "one.toml").write_text('[gpus.gpu]\nname = "X"\n')
    code, out, err = run(capsys, *words)
    assert code == 2 and not out
    assert said in err and err.count("\n") == 1 and "fault of reefwatch" not in err


def test_silences_are_heard(here: Path, capsys: Any) -> None:
    write(here / "m", desktop(environ={"HIP_VISIBLE_DEVICES": "-1"}))
    (here / "reefwatch.toml").write_text(
        '[[silence]]\ncode = "MACH002"\nreason = "the card is lent out"\n'
    )
    code, out, _ = run(capsys, "--root", "m")
    assert code == 0 and "the card is lent out" in " ".join(out.split())


def captured(files: Any, folder: Path, to: str = "copy") -> tuple[Any, Any]:
    """(facts of a machine, facts of its capture)."""
    host = CapturedHost(write(folder / "m", files))
    loaded = tables.load()
    recording = RecordingHost(host, loaded)
    first = inventory.take(host, loaded)
    inventory.take(recording, loaded)
    scrubber = Scrubber(["/home/jane"], "jane", ("ws-jane-01",))
    capture.write(folder / to, recording.entries("0"), scrubber)
    if to == "copy":
        return first, inventory.take(CapturedHost(folder / to), loaded)
    with capture.opened(folder / to, CapturedHost) as again:
        return first, inventory.take(again, loaded)


@pytest.mark.parametrize("to", ["copy", "copy.tar.gz", "copy.tar"])
def test_a_capture_gives_the_same_inventory(to: str, tmp_path: Path) -> None:
    first, again = captured(desktop(environ={"MIOPEN_FIND_MODE": "2"}), tmp_path, to)
    # the serial number of the card is a number in the capture, and nothing else may differ
    first["machine.gpus"].value[0]["unique_id"] = "0000000000000001"
    assert {k: v for k, v in again.items() if v != first[k]} == {}


def test_a_capture_tells_no_names(tmp_path: Path) -> None:
    secret = "hf_aB3dE5fG7hI9jK1lM3nO5pQ7"
    files = desktop(
        environ={
            "LD_LIBRARY_PATH": "/home/jane/lib:/opt/rocm/lib", "WANDB_API_KEY": secret,
            "ROCR_VISIBLE_DEVICES": "GPU-0123456789abcdef", "HOME": "/home/jane",
        },
        proc__cmdline="root=UUID=8d3a-77 hostname=ws-jane-01 iommu=pt\n",
        process={"folders": {"miopen cache": {"path": "/home/jane/.cache/miopen"}}},
        **{f"{NODES}/1/properties": node(unique_id=0x0123456789ABCDEF, hive_id=99887766),
           f"{SITE}/secret_company_model-1.0.dist-info/METADATA": "Name: x\n",
           "etc/hostname": "ws-jane-01\n"},
    )  # fmt: skip
    captured(files, tmp_path)
    told = "\n".join(
        f"{path.relative_to(tmp_path / 'copy')} {path.read_text(errors='replace')}"
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    )
    for word in ("jane", secret, "8d3a-77", "secret_company", "81985529216486895", "99887766",
                 "0123456789abcdef"):  # fmt: skip
        assert word not in told.lower()
    assert "iommu=pt" in told and "unique_id 1" in told
    assert "GPU-0000000000000001" in told  # the variable still names the card


def test_rows_of_ones_own_are_laid_over(here: Path, capsys: Any) -> None:
    (here / "own.toml").write_text(
        '[[gpus.gpu]]\nname = "AMD Radeon RX 7900 XTX"\nvram_gib = 25\n'
        '[[gpus.gpu]]\nname = "AMD Radeon X"\narch = "gfx1100"\npci = []\nvram_gib = 1\ncu = 1\n'
        "apu = false\nofficial_core_sdk = false\n"
        '[gpus.arch.gfx1300]\nfamily = "RDNA 6"\n'
    )
    code, out, _ = run(capsys, "--uses", "Radeon X", "--data", "own.toml")
    assert code == 0 and "AMD Radeon X" in out
    (here / "use.toml").write_text(
        '[[machine.suitability]]\ngfx = ["gfx1100"]\nuse = "inference"\nworks = "ours"\n'
        'expect = ""\navoid = ""\nsource = "a run of ours"\n'
    )
    code, out, _ = run(capsys, "--uses", "gfx1100", "--data", "use.toml")
    assert code == 0 and "works   ours" in out and "LoRA" in out  # the other uses are still ours


def test_a_capture_keeps_no_folder_of_a_project(tmp_path: Path) -> None:
    where = "/data/projectzeta"
    files = desktop(
        environ={
            "TRITON_CACHE_DIR": f"{where}/triton", "MIOPEN_USER_DB_PATH": f"{where}/db",
            "LD_LIBRARY_PATH": f"{where}/lib:/opt/rocm-6.2.0/lib:{where}/lib/more",
        },
        process={
            "folders": {"miopen database": {"path": f"{where}/db", "disk": "nfs4"}},
            "python": {"version": "3.12.3", "executable": f"{where}/venv/bin/python",
                       "sites": ["/" + SITE]},
        },
        **{f"{where[1:]}/lib/libamdhip64.so.6": ""},
    )  # fmt: skip
    first, again = captured(files, tmp_path)
    told = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert not [
        path for path in told if "projectzeta" in f"{path} {path.read_text(errors='replace')}"
    ]
    named = again["machine.variables"].value
    assert named["LD_LIBRARY_PATH"]["value"].split(":")[1] == "/opt/rocm-6.2.0/lib"
    assert [copy["where"] for copy in again["machine.rocm"].value] == [
        copy["where"] for copy in first["machine.rocm"].value
    ]
    assert again["machine.folders"].value["miopen database"]["disk"] == "nfs4"


def test_a_capture_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        capture.write(tmp_path / "there", {}, Scrubber())
    assert (tmp_path / "there").read_text() == "mine"


def test_a_hostile_archive_writes_nothing_outside(tmp_path: Path) -> None:
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        for name, kind, link in (
            ("../escaped", tarfile.REGTYPE, ""), ("/abs", tarfile.REGTYPE, ""),
            ("out", tarfile.SYMTYPE, str(tmp_path)), ("out/by_link", tarfile.REGTYPE, ""),
            ("dev", tarfile.CHRTYPE, ""), ("hard", tarfile.LNKTYPE, "/etc/passwd"),
            ("sys/class/x", tarfile.REGTYPE, ""),
        ):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            info.size = 4 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"evil") if info.size else None)
    machine.doctor(root=archive)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.tar"]


def test_old_tables_are_said_to_be_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import date

    shipped = tables.load()
    asof = date.fromisoformat(shipped.asof)
    assert shipped.age(asof) == ""
    assert shipped.age(date.fromordinal(asof.toordinal() + tables.OLD_DAYS)) == ""
    said = shipped.age(date.fromordinal(asof.toordinal() + tables.OLD_DAYS + 1))
    assert f"{tables.OLD_DAYS + 1} days old" in said and shipped.asof in said


def test_an_nvidia_machine_gets_an_answer(tmp_path: Path) -> None:
    files = {
        "capture.json": '{"schema": 1}',
        "environ.json": "{}",
        "process.json": json.dumps(
            {"python": {"version": "3.12.3", "executable": "python", "sites": ["/s"]}}
        ),
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82.01\n",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA A100\n",
        "s/torch-2.13.0.dist-info/METADATA": "",
        "s/torch/version.py": "cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n",
    }
    report = machine.doctor(root=write(tmp_path / "m", files))
    facts = report.records[0].facts
    kind = facts["machine.kind"]
    assert isinstance(kind, Evidence) and kind.value == "nvidia"
    told = {o.code: [f.message for f in o.findings] for o in report.outcomes if o.findings}
    assert told == {"MACH057": ["driver 470.82.01 with torch 2.13.0 for CUDA 12.8"]}


def test_every_card_of_the_table_has_an_answer_for_every_use() -> None:
    loaded = tables.load()
    for row in loaded.gpus["gpu"]:
        told = machine.uses(str(row["name"]))
        for rows in told["uses"].values():
            assert [one["use"] for one in rows] == [
                "inference", "fine-tuning", "training", "kernels", "bit-for-bit",
            ]  # fmt: skip
            for one in rows:
                assert one["works"] and one["expect"] and one["avoid"] and one["source"] != "none"


def test_uses_are_told_by_name_and_by_target(here: Path, capsys: Any) -> None:
    code, out, _ = run(capsys, "--uses", "rx 7900 xtx")
    assert code == 0 and "bit-for-bit" in out and "source" in out
    code, out, _ = run(capsys, "--uses", "gfx1201", "--json")
    told = json.loads(out)
    assert told["schema"] == 1 and len(told["cards"]) > 3 and list(told["uses"]) == ["gfx1201"]


def test_doctor_loads_neither_torch_nor_rich(here: Path) -> None:
    from tests.surface.test_light import HEAVY, modules

    code = "from reefwatch.shell import cli; cli.main(['doctor', '--json'])"
    os.environ.setdefault("HOME", "/root")
    assert not {name.partition(".")[0] for name in modules(code)} & HEAVY


@pytest.mark.parametrize("name", sorted(synthetic.MACHINES))
def test_a_capture_of_a_tree_of_links_gives_the_same_cards(name: str, tmp_path: Path) -> None:
    made = synthetic.MACHINES[name]()
    if "capture.json" not in made.files:
        made.capture()
    loaded = tables.load()
    host = CapturedHost(made.write(tmp_path / "m"))
    recording = RecordingHost(host, loaded)
    first = inventory.take(host, loaded)
    inventory.take(recording, loaded)
    capture.write(tmp_path / "copy", recording.entries("0"), Scrubber())
    again = inventory.take(CapturedHost(tmp_path / "copy"), loaded)
    for fact in ("gpus", "cards", "shown", "other_gpus", "kind", "hidden_nodes"):
        before, after = first[f"machine.{fact}"], again[f"machine.{fact}"]
        plain = [json.loads(json.dumps(getattr(one, "value", str(one)))) for one in (before, after)]
        for rows in plain if fact == "gpus" and isinstance(plain[0], list) else ():
            for row in rows:
                row.pop("unique_id")  # a serial number is a number in the capture
        assert plain[0] == plain[1], fact
