"""C++ and CUDA sources: what means something else on a wave of 64, and what is NVIDIA's alone.

Comments and strings are taken out before anything is looked for; a branch of the preprocessor that
asks for HIP or ROCm is guarded on both sides.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from reefwatch.gather.machine.port.places import ARCH, WARP_NAME, Place, once

_TOKENS = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<include>#[ \t]*include\b[^\n]*)"
    r"|(?P<string>R\"(?P<end>\w*)\(.*?\)(?P=end)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])')",
    re.DOTALL,
)
_NOT_LINES = re.compile(r"[^\n]")
_BRANCH = re.compile(
    r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|else|endif)\b((?:\\\n|[^\n])*)", re.MULTILINE
)
_HIP = re.compile(r"HIP|ROCM|AMD|__gfx", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:IS_|USE_|FOR_)?(?:ROCM|HIP)\w*\b|__HIP|hip[A-Z]\w+")
_THREAD = (
    r"\b(?:threadIdx\.[xyz]|(?:\w+_)?(?:lane|lane_?id|laneid|tid|tid_?x|tidx|thread_?(?:id|idx|rank)\w*"
    r"|linear_?tid\w*))(?:\(\))?\s*\)?\s*"
)
_THIRTY_TWO = (
    r"(?:%\s*32u?\b(?!\s*[*.])|&\s*(?:(?:31|0x1[fF])u?\b|\(\s*32\s*-\s*1\s*\))"
    r"|/\s*32u?\b(?!\.)|>>\s*5\b)"
)
_ALL = (
    r"(?:0x[fF]{4}'?[fF]{4}(?![0-9a-fA-F])[uUlL]*|(?:\(\s*(?:unsigned(?:\s+int)?|uint32_t)\s*\)\s*)?-1\b"
    r"|~0[uU]?\b|\bUINT(?:32)?_MAX\b|\b4294967295[uU]?\b)"
)
_VOTE = r"__(?:shfl\w*|ballot\w*|any|all|activemask|match\w*|reduce\w*)(?:_sync)?\s*\("
_OF_WARPS = re.compile(
    r"__(?:shfl|ballot|any|all|activemask|match|reduce|syncwarp)\w*\s*\(|[wW]arp|WARP|\b[lL]ane|LANE"
)
_BARE = re.compile(_THREAD + _THIRTY_TWO)
"""In a file that speaks of warps: elsewhere `threadIdx.x & 31` is the column of a tile."""
_WARP = tuple(
    re.compile(pattern)
    for pattern in (
        # `lane = x & 31`, `warp_id = x >> 5`, whatever x is
        r"\b\w*(?:[lL]ane|[wW]arp)_?(?:[iI]dx?|[iI]ndex|[nN]um)?\w*\s*=[^;=\n]*?" + _THIRTY_TWO,
        rf"__(?:shfl|ballot|any|all|match|reduce)\w*_sync\s*\(\s*{_ALL}|__syncwarp\s*\(\s*{_ALL}",
        rf"\b\w*(?:FULL|WARP|ALL|SHFL|[fF]ull|[wW]arp|[sS]hfl)\w*M(?:ASK|ask)\w*\s*=?\s*\(?\s*{_ALL}",
        r"__(?:popc|ffs|clz|brev)\s*\(\s*(?:\(\s*\w+\s*\)\s*)?" + _VOTE,
        r"\b(?:unsigned(?:\s+int)?|u?int(?:32_t)?)\s+\w+\s*=\s*__(?:ballot|activemask|match)\w*\s*\(",
        r"\bwarpSize\s*[=!]=\s*32\b",
        r"\bWarp(?:Reduce|Scan|Exchange|MergeSort)\s*<[^;>]*,\s*32\b",
        # halving from 16: a reduction over 32 lanes
        r"=\s*(?:16|32\s*/\s*2|32\s*>>\s*1)\s*;\s*\w+\s*(?:>\s*0|>=\s*1|!=\s*0)?\s*;\s*\w+\s*(?:/=\s*2|>>=\s*1)",
    )
)
_FULL = re.compile(rf"#\s*define\s+(\w+)\s+\(?\s*{_ALL}|\b(\w+)\s*(?:=|\{{|\()\s*{_ALL}")
_FIRST = re.compile(
    r"__(?:shfl|ballot|any|all|match|reduce)\w*_sync\s*\(\s*(?:\w+::)*(\w+)\s*,|__syncwarp\s*\(\s*(\w+)"
)
"""The name that is given for the mask of a warp."""
_MASK = re.compile(rf"\b(?:\w*[mM]ask|full\w*)\s*=\s*{_ALL}")
"""In a file with kernels: elsewhere a mask may be of anything."""
_KERNEL = re.compile(r"\b__(?:global|device)__\b")
_NAMED = re.compile(
    r"#\s*define\s+(?P<macro>\w+)\s+\(?\s*32[uU]?\b"
    r"|\b(?P<name>\w+)\s*(?:=|\{|\()\s*32[uU]?\b(?!\s*[*+])"
    r"|\btemplate\s*<[^>]*\b(?P<given>\w+)\s*=\s*32\b"
)
_KINDS: tuple[tuple[str, tuple[re.Pattern[str], ...]], ...] = (
    ("warp", _WARP),
    ("tf32", (
        re.compile(r"\ballowTF32\w*|\bCUBLAS_TF32\w*|\bCUBLAS_COMPUTE_32F_FAST_TF32\b"),
    )),
    ("smi", (re.compile(r"\bnvml[A-Z]\w+|#\s*include\s*[<\"]nvml\.h"),)),
    ("capability", (
        re.compile(r"\b__CUDA_ARCH(?:_\w+)?__\b|\b\w*[pP]rops?\w*(?:\.|->)major\b"), ARCH,
    )),
    ("ptx", (
        re.compile(
            r"#\s*include\s*[<\"](?:cutlass/|cute/|mma\.h|cooperative_groups/"
            r"|cuda/(?:std/|barrier|pipeline|atomic|ptx))"
        ),
        re.compile(
            r"\bnvcuda::|\bwgmma\w*|\bcp_async\w*|\bldmatrix\w*|\bmma_sync\b|\b__nv_cvt_\w+"
            r"|\b__nvvm_\w+|\bcusparseLt\w*|\bcutensor[A-Z]\w*|\bnvshmem\w*"
        ),
    )),
)  # fmt: skip
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__)?\s*\(")
_PTX = re.compile(
    r"\.(?:[usbf](?:8|16|32|64)|pred|sync|shared|global|async|aligned|approx|rn|ftz)\b"
    r"|\b(?:bar|griddepcontrol|membar|fence)\.|%%?laneid|%%?clock|\b(?:trap|brkpt|exit);"
)
_LOADED = re.compile(
    r"\bdlopen\s*\(\s*\"([^\"\n]*lib(?:cuda|nvrtc|cublas|cudnn|cusparse|nvidia)[^\"\n]*)\""
)
_HOME = re.compile(r"\bgetenv\s*\(\s*\"(CUDA_(?:HOME|PATH|ROOT))\"")
_SMI = re.compile(r"\bnvidia-smi\b")


def places(text: str) -> Iterator[Place]:
    """The places of one source, in the order of its lines."""
    yield from once(_places(text))


def _places(text: str) -> Iterator[Place]:
    kept, code = _blanked(text, strings=False), _blanked(text, strings=True)
    starts = [0, *(found.end() for found in re.finditer("\n", code))]
    guards = _guards(code)
    for kind, what, at in _found(code, kept):
        number = bisect_right(starts, at)
        line = code[starts[number - 1] : starts[number] if number < len(starts) else None]
        guarded = _inside(guards, at) or bool(_ASKS.search(line))
        yield Place(kind, number, " ".join(what.split()), guarded)


def _found(code: str, kept: str) -> Iterator[tuple[str, str, int]]:
    """(kind, what, where) of all that the patterns match."""
    for kind, patterns in _KINDS:
        for pattern in patterns:
            for found in pattern.finditer(code):
                yield kind, found[0], found.start()
    for found in _NAMED.finditer(code):
        if WARP_NAME.fullmatch(found["macro"] or found["name"] or found["given"]):
            yield "warp", found[0], found.start()
    for found in _BARE.finditer(code) if _OF_WARPS.search(code) else ():
        yield "warp", found[0], found.start()
    masks = {found[1] or found[2] for found in _FIRST.finditer(code)}
    for found in _FULL.finditer(code) if masks else ():
        if (found[1] or found[2]) in masks:
            yield "warp", found[0], found.start()
    for found in _LOADED.finditer(kept):
        yield "import", found[1], found.start()
    for found in _HOME.finditer(kept):
        yield "extension", found[1], found.start()
    for found in _MASK.finditer(code) if _KERNEL.search(code) else ():
        yield "warp", found[0], found.start()
    for found in _SMI.finditer(kept):
        yield "smi", found[0], found.start()
    for found in _ASM.finditer(code):
        if _PTX.search(kept[found.start() : found.start() + 600].partition(";\n")[0]):
            yield "ptx", "inline PTX", found.start()


def _blanked(text: str, strings: bool) -> str:
    """The text of the same length and lines without comments, and without strings where asked."""

    def blank(found: re.Match[str]) -> str:
        if found["comment"] is None and (not strings or found["include"]):
            return found[0]
        return _NOT_LINES.sub(" ", found[0])

    return _TOKENS.sub(blank, text)


def _guards(code: str) -> list[tuple[int, int]]:
    """Where branches of the preprocessor ask for HIP: (from the first, to its end)."""
    stack: list[tuple[int, bool]] = []
    told = []
    for found in _BRANCH.finditer(code):
        word, asked = found[1], bool(_HIP.search(found[2]))
        if word.startswith("if"):
            name = re.escape(found[2].strip())
            after = code[found.end() : found.end() + 300]
            if word == "ifndef" and re.match(rf"\s*#\s*define\s+{name}\s*$", after, re.MULTILINE):
                asked = False  # a guard against a second inclusion
            stack.append((found.start(), asked))
        elif stack and word == "endif":
            start, asked = stack.pop()
            if asked:
                told.append((start, found.end()))
        elif stack:
            stack[-1] = (stack[-1][0], stack[-1][1] or asked)
    return told


def _inside(spans: list[tuple[int, int]], at: int) -> bool:
    return any(start <= at < end for start, end in spans)
