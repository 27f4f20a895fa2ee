"""`reefwatch trace`: traces made here, event by event, read and judged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from reefwatch.api import trace
from reefwatch.core.errors import ReefwatchError, UsageError
from reefwatch.core.fact import Evidence, Unknown
from reefwatch.core.finding import Verdict
from reefwatch.gather.precision import traced
from reefwatch.gather.precision.kineto import WINDOW, Events, UnreadableTrace
from reefwatch.shell import cli

BF16 = "c10::BFloat16"
NVJET = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
SGEMM = "ampere_sgemm_128x64_nn"
NAIVE = "naive_conv_ab_nonpacked_fwd_nchw_ushort_double_ushort"


class Made:
    """A trace that is written event by event, as the profiler does."""

    def __init__(self, device: str = "NVIDIA H200", ids: bool = True) -> None:
        self.events: list[dict[str, Any]] = []
        self.device = device
        self.ids = ids
        self._clock = 1000.0
        self._id = 0

    def frame(self, name: str, start: float, dur: float, tid: int = 1) -> None:
        self._event("python_function", name, start, dur, tid, {})

    def note(self, name: str, start: float, dur: float, tid: int = 1) -> None:
        self._event("user_annotation", name, start, dur, tid, {})

    def _event(self, cat: str, name: str, ts: float, dur: float, tid: int, args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur}
            | {"args": args}
        )

    def op(
        self,
        name: str,
        kernels: dict[str, float],
        types: tuple[str, ...] = (),
        dims: Any = (),
        tid: int = 1,
        **more: Any,
    ) -> float:
        """An op that launches these kernels (microseconds of each); when it was called."""
        self._clock += 10
        self._id += 1
        args: dict[str, Any] = {"External id": self._id, **more}
        if types:
            args |= {"Input type": list(types), "Input Dims": list(dims)}
        self._event("cpu_op", name, self._clock, 5, tid, args)
        for kernel, dur in kernels.items():
            call = 9000 + len(self.events)
            own = self._id if self.ids else call
            self._event(
                "cuda_runtime", "LaunchKernel", self._clock + 1, 1, tid, {"correlation": call}
            )
            self._event(
                "kernel",
                kernel,
                self._clock + 500,
                dur,
                77,
                {"External id": own, "correlation": call},
            )
        return self._clock

    def text(self) -> str:
        head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": self.device}]}
        return json.dumps({**head, "traceEvents": self.events, "traceName": "x"})

    def save(self, folder: Path, name: str = "t.json") -> Path:
        path = folder / name
        raw = self.text().encode()
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path


def findings(report: Any) -> dict[str, list[Any]]:
    return {o.code: list(o.findings) for o in report.outcomes if o.findings}


def mixed() -> Made:
    made = Made()
    made.op("aten::mm", {NVJET: 900.0}, (BF16, BF16), ([64, 64], [64, 64]))
    return made


def test_a_clean_trace_holds(tmp_path):
    report = trace.audit(mixed().save(tmp_path))
    assert findings(report) == {}
    verdicts = {o.code: o.verdict for o in report.outcomes}
    assert verdicts["PREC040"] is Verdict.HELD
    assert set(verdicts.values()) == {Verdict.HELD}
    assert all(code.startswith("PREC04") for code in verdicts)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_an_island_in_fp32_is_named_with_module_and_line(tmp_path, name):
    made = mixed()
    when = made.op("aten::mm", {SGEMM: 100.0}, ("float", "float"), ([64, 64], [64, 64]))
    made.frame("train.py(3): <module>", 900, 2000)
    made.frame("nn.Module: Net_0", when - 4, 9)
    made.frame("nn.Module: Island_0", when - 3, 8)
    made.frame("model.py(41): forward", when - 2, 7)
    made.frame("torch/nn/modules/linear.py(130): forward", when - 1, 6)
    report = trace.audit(made.save(tmp_path, name))
    (finding,) = findings(report)["PREC040"]
    assert finding.message == "aten::mm ran in fp32, in forward"
    place = finding.place
    assert (place.module, place.file, place.line) == ("Net_0.Island_0", "model.py", 41)
    assert "10.0% of the device time" in finding.cost
    assert report.outcomes[0].severity.name == "ERROR"


def test_without_dtypes_of_operands_the_finding_is_weaker(tmp_path):
    made = mixed()
    made.op("aten::mm", {SGEMM: 100.0})
    report = trace.audit(made.save(tmp_path))
    (finding,) = findings(report)["PREC040"]
    assert "name of the kernel" in finding.why
    assert next(o for o in report.outcomes if o.code == "PREC040").severity.name == "WARNING"


def test_backward_leads_to_the_line_of_its_forward(tmp_path):
    made = mixed()
    when = made.op(
        "aten::mm", {NVJET: 1.0}, (BF16, BF16), **{"Sequence number": 5, "Fwd thread id": 0}
    )
    made.frame("model.py(12): forward", when - 2, 9)
    later = made.op("aten::mm", {SGEMM: 50.0}, ("float", "float"), tid=2)
    made._event(
        "cpu_op",
        "autograd::engine::evaluate_function: MmBackward0",
        later - 1,
        9,
        2,
        {"Sequence number": 5, "Fwd thread id": 1},
    )
    (finding,) = findings(trace.audit(made.save(tmp_path)))["PREC040"]
    assert finding.message == "aten::mm ran in fp32, in backward"
    assert (finding.place.file, finding.place.line) == ("model.py", 12)


def test_a_call_stack_of_older_exports_gives_the_line(tmp_path):
    made = mixed()
    stack = "torch/nn/functional.py(1): linear;net.py(7): forward;main.py(9): <module>"
    made.op("aten::mm", {SGEMM: 50.0}, ("float", "float"), **{"Call stack": stack})
    (finding,) = findings(trace.audit(made.save(tmp_path)))["PREC040"]
    assert (finding.place.file, finding.place.line) == ("net.py", 7)


def test_ids_that_repeat_the_correlation_are_followed_through_the_call(tmp_path):
    made = Made(ids=False)
    made.op("aten::cudnn_convolution", {"sm80_xmma_fprop_tf32f32_tf32f32_f32_x_tensor16x8x8": 9.0})
    record = traced.read(made.save(tmp_path))
    assert [event.data["op"] for event in record.events] == ["aten::cudnn_convolution"]


def test_tf32_in_an_fp32_run_is_a_finding_of_its_own(tmp_path):
    made = Made()
    kernel = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tensor16x8x8_cudnn"
    made.op("aten::cudnn_convolution", {kernel: 10.0}, ("float", "float"))
    path = made.save(tmp_path)
    (finding,) = findings(trace.audit(path, claim="fp32"))["PREC042"]
    assert finding.message == "fp32 operands were rounded to TF32 in aten::cudnn_convolution"
    assert finding.claimed == "fp32, by --claim"
    assert "cudnn.allow_tf32" in finding.fix
    assert "PREC042" in findings(trace.audit(path))
    assert findings(trace.audit(path, claim="tf32")) == {}


def test_a_naive_kernel_is_named_and_a_probe_in_the_first_step_is_a_note(tmp_path):
    made = Made("AMD Radeon RX 7900 XTX")
    made.note("ProfilerStep#3", 1000, 15)
    made.note("ProfilerStep#4", 1015, 100)
    made.op("aten::miopen_convolution", {NAIVE: 500.0}, (BF16, BF16))
    good = "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8"
    made.op("aten::miopen_convolution", {good: 50.0}, (BF16, BF16))
    report = trace.audit(made.save(tmp_path))
    (probe,) = findings(report)["PREC041"]
    assert "first profiled step alone" in probe.message
    assert next(o for o in report.outcomes if o.code == "PREC041").verdict is Verdict.HELD
    made.op("aten::miopen_convolution", {NAIVE: 500.0}, (BF16, BF16))
    report = trace.audit(made.save(tmp_path))
    (finding,) = findings(report)["PREC041"]
    assert finding.message == "aten::miopen_convolution ran on a naive kernel of miopen"
    assert next(o for o in report.outcomes if o.code == "PREC041").verdict is Verdict.BROKEN


def test_attention_on_the_math_path(tmp_path):
    made = mixed()
    when = made.op("aten::bmm", {NVJET: 100.0}, (BF16, BF16))
    made._event("cpu_op", "aten::scaled_dot_product_attention", when - 2, 9, 1, {"External id": 91})
    name = "aten::_scaled_dot_product_attention_math"
    made._event("cpu_op", name, when - 1, 8, 1, {"External id": 90})
    (finding,) = findings(trace.audit(made.save(tmp_path)))["PREC043"]
    assert finding.message == "attention took the math path, in forward"


def test_layouts_column_buffers_casts_and_vector_kernels(tmp_path):
    made = Made("AMD Instinct MI300X")
    conv = "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8"
    kernels = {conv: 100.0, "batched_transpose_32x32_half": 40.0, "Im2d2Col_v2": 60.0}
    made.op("aten::miopen_convolution", kernels, (BF16, BF16))
    cast = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda"
        "(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
    )
    made.op("aten::copy_", {cast: 80.0}, (BF16, "float"))
    vector = "Cijk_Ailk_Bljk_BBS_BH_MT32x32x8_SN_1LDSB0_APM1_ISA942_KLA"
    made.op("aten::mm", {vector: 70.0}, (BF16, BF16))
    told = findings(trace.audit(made.save(tmp_path)))
    assert set(told) == {"PREC044", "PREC045", "PREC046", "PREC047"}
    assert told["PREC045"][0].message.startswith("20% of the time of convolutions")
    assert "22.9% of the device time" in told["PREC046"][0].message


def test_names_that_tell_nothing_leave_it_unproven(tmp_path):
    made = Made()
    made.op("aten::mm", {"cutlass::device_kernel<cutlass::gemm::kernel::X>": 100.0})
    outcomes = {o.code: o for o in trace.audit(made.save(tmp_path), claim="bf16").outcomes}
    assert outcomes["PREC040"].verdict is Verdict.UNPROVEN
    assert "names do not tell" in outcomes["PREC040"].reason


def test_a_trace_of_the_cpu_alone_says_so(tmp_path):
    made = Made()
    made.op("aten::mm", {}, ("float", "float"))
    report = trace.audit(made.save(tmp_path))
    assert {o.verdict for o in report.outcomes} == {Verdict.UNPROVEN}
    assert any("only CPU events" in remark for remark in report.remarks)


def test_shares_and_facts(tmp_path):
    made = mixed()
    made.op("aten::copy_", {"Memcpy HtoD (Pageable -> Device)": 100.0})
    record = traced.read(made.save(tmp_path))
    shares = record.fact("trace.shares")
    assert isinstance(shares, Evidence)
    assert shares.value["library"] == pytest.approx({"cublas": 0.0009, "other": 0.0001})
    assert record.fact("trace.device").value["kind"] == "nvidia"
    assert isinstance(record.fact("trace.attention"), Evidence)
    assert isinstance(record.fact("run.steps"), Unknown)


def test_machine_code_overrules_a_name(tmp_path):
    made = Made("NVIDIA A100")
    made.op("triton_kernel", {"dot_kernel": 10.0}, ("float", "float"))
    folder = Path(__file__).parents[1] / "data" / "triton" / "sm_80-dot-f32"
    path = made.save(tmp_path)
    told = findings(trace.audit(path, triton_cache=folder))
    assert told["PREC042"][0].message == "fp32 operands were rounded to TF32 in triton_kernel"
    assert findings(trace.audit(path)) == {}


# -- traces of one H200 (scripts/capture_kernel_names.py) -------------------------------------

CAPTURED = Path(__file__).parents[1] / "data" / "traces"


def test_an_island_on_a_card_is_located():
    report = trace.audit(CAPTURED / "h200-island.json.gz")
    told = findings(report)
    assert set(told) == {"PREC040", "PREC046"}
    assert {f.message for f in told["PREC040"]} == {
        "aten::mm ran in fp32, in backward",
        "aten::addmm ran in fp32, in forward",
    }
    assert {f.place.module for f in told["PREC040"]} == {"Sequential_0.Island_0.Linear_1"}
    assert {f.place.file for f in told["PREC040"]} == {"kernel_cases.py"}


def test_the_same_program_without_the_island_has_no_fp32_product():
    assert set(findings(trace.audit(CAPTURED / "h200-clean.json.gz"))) == {"PREC046"}


def test_the_math_path_on_a_card():
    told = findings(trace.audit(CAPTURED / "h200-math.json.gz"))
    assert {f.place.module for f in told["PREC043"]} == {"Net_0.MultiheadAttention_0"}
    assert "PREC040" in told  # that path computes in fp32


def test_tf32_on_a_card():
    told = findings(trace.audit(CAPTURED / "h200-tf32.json.gz", claim="fp32"))
    assert {f.place.op for f in told["PREC042"]} >= {"aten::cudnn_convolution", "aten::mm"}


def test_a_mixed_step_on_a_card_shows_transposes_around_convolutions():
    told = findings(trace.audit(CAPTURED / "h200-mixed.json.gz"))
    assert set(told) == {"PREC045", "PREC046", "PREC047"}


# -- files that are none ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "the file is empty"),
        (b"hello", "not JSON, so no profiler trace"),
        (b"\x00\x01\x02\x03" * 500, "not JSON, so no profiler trace"),
        (b'{"a": [1, 2]}', "without traceEvents"),
        (b'{"traceEvents": [1, xyz]}', "no events where traceEvents should be"),
        (b'{"traceEvents": [{"a": 1}, xyz]}', "what follows event 1 is no event"),
        (mixed().text()[:-300].encode(), "ends in the middle, after"),
        (b'{"traceEvents": [', "ends in the middle, after 0 events"),
        (gzip.compress(mixed().text().encode())[:-40], "damaged or cut short"),
        (b"\x1f\x8b" + b"x" * 50, "damaged or cut short"),
        (b"PK\x03\x04rest", "unpack it first"),
    ],
)
def test_one_clear_line_for_a_file_that_is_no_trace(tmp_path, capsys, raw, words):
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(UnreadableTrace, match=words):
        list(Events(path))
    assert cli.main(["trace", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words in said.err


def test_a_bare_list_and_broken_strings_are_read(tmp_path):
    path = tmp_path / "old.json"
    event = '{"ph": "X", "cat": "kernel", "name": "C:\\Users\\x\ty", "ts": 1, "dur": 2, "args": {}}'
    path.write_text(f"[{event},\n{event}]")
    assert [e["name"] for e in Events(path)] == ["C:\\Users\\x\ty"] * 2


def test_a_trace_longer_than_the_window(tmp_path):
    made = Made()
    for _ in range(4000):
        made.op("aten::mm", {NVJET: 1.0}, (BF16, BF16), ([64, 64], [64, 64]))
    text = made.text()
    assert len(text) > 2 * WINDOW
    record = traced.read(made.save(tmp_path))
    assert [event.data["calls"] for event in record.events] == [4000]


def test_an_event_of_odd_shape_is_left_out(tmp_path):
    made = mixed()
    made.events += [
        {"ph": "X", "cat": 3, "name": None, "dur": 1},
        {"ph": "X", "cat": "kernel", "dur": "x"},
        {"ph": "X", "cat": "cpu_op", "name": "a", "dur": 1, "args": []},
        {"ph": "X", "cat": "cpu_op", "dur": None, "ts": None, "args": {"Input type": 3}},
        ["no", "event"],  # type: ignore[list-item]
    ]
    record = traced.read(made.save(tmp_path))
    assert record.events[0].data["name"] == NVJET


# -- the verb ---------------------------------------------------------------------------------


def test_names_as_json_in_file_order(tmp_path, capsys):
    path = tmp_path / "names"
    path.write_text(f"{NVJET}\n\nodd one\r\n{NVJET}\n")
    assert cli.main(["trace", "--names", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["command"]) == (1, "trace")
    assert [one["name"] for one in told["names"]] == [NVJET, "odd one", NVJET]
    fields = {"name", "library", "compute_dtype", "accumulate_dtype", "matrix_core", "naive"}
    assert all(set(one) == fields for one in told["names"])


def test_names_as_text(tmp_path, capsys):
    path = tmp_path / "names"
    path.write_text(NVJET)
    assert cli.main(["trace", "--names", str(path)]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["library", "dtype", "accumulated", "matrix", "naive", "name"]
    assert line.split() == ["cublas", "bf16", "fp32", "yes", "no", NVJET]


def test_exit_codes_and_files(tmp_path, capsys):
    made = mixed()
    clean = made.save(tmp_path, "clean.json")
    assert cli.main(["trace", str(clean)]) == 0
    made.op("aten::mm", {SGEMM: 100.0}, ("float", "float"))
    bad = made.save(tmp_path, "bad.json")
    html = tmp_path / "r.html"
    assert cli.main(["trace", str(bad), "--html", str(html)]) == 3
    assert "PREC040" in html.read_text()
    out = capsys.readouterr().out
    assert "products by dtype: bf16 90%, fp32 10%" in out
    assert out.splitlines()[-1] == "4 held, 1 broken, 0 unproven"
    cpu = Made()
    cpu.op("aten::mm", {}, ("float", "float"))
    path = cpu.save(tmp_path, "cpu.json")
    assert cli.main(["trace", str(path), "--require-proof", "--json"]) == 4
    json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "give one trace file, or --names"),
        (["a.json", "--names", "b"], "give one trace file, or --names"),
        (["no.json"], "cannot open 'no.json': No such file"),
        (["--names", "no"], "cannot open 'no': No such file"),
    ],
)
def test_wrong_use(argv, words, capsys):
    assert cli.main(["trace", *argv]) == 2
    assert words in capsys.readouterr().err


def test_a_binary_file_of_names(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"a\0b")
    with pytest.raises(UsageError, match="one kernel name a line"):
        trace.names_in(str(path))
    assert issubclass(UnreadableTrace, ReefwatchError)
