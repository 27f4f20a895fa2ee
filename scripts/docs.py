"""Write the parts of the docs that are made from the code.

python scripts/docs.py           docs/checks/, one page per check
python scripts/docs.py --demo    also the outputs shown in both READMEs, by running the demo
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh-CN.md")
DEMO = "examples/digits_cnn.py"
PLANTED = (
    ("        optimizer.zero_grad()\n", ""),
    (
        "        return self.head(self.body(self.stem(images)).flatten(1))\n",
        "        features = self.body(self.stem(images)).flatten(1)\n"
        "        with torch.autocast(features.device.type, enabled=False):\n"
        "            return self.head(features.float())\n",
    ),
)
"""Two faults that no test of a training script would see: (line, what becomes of it)."""
_PART = re.compile(r"^(Why|Fix|Source|Good|Bad|Limits?):\s*", re.MULTILINE)


def check_pages() -> dict[str, str]:
    """File name below docs/checks -> text, from the checks themselves."""
    from reefwatch.judge.engine import load

    checks = load()
    pages = {f"{check.code}.md": page(check) for check in checks}
    pages["README.md"] = index(checks)
    return pages


def page(check: object) -> str:
    """The help page of one check as Markdown."""
    text: str = check.page  # type: ignore[attr-defined]
    title, _, rest = text.partition("\n")
    body = _PART.sub(lambda part: f"\n**{part[1]}.** ", rest.strip())
    needs = ", ".join(f"`{name}`" for name in (*check.needs, *check.when))  # type: ignore[attr-defined]
    return (
        f"# {check.code}: {title.rstrip('.')}\n\n"  # type: ignore[attr-defined]
        f"Contract {check.contract}, severity {check.severity.name.lower()}. "  # type: ignore[attr-defined]
        f"Rests on {needs}.\n\n{body.strip()}\n"
    )


def index(checks: Iterable[object]) -> str:
    lines = [
        "# All checks",
        "",
        "Made from the checks by `make docs`; `reefwatch explain CODE` prints the same page.",
        "",
        "| code | severity | the claim that it judges |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| [{check.code}]({check.code}.md) | {check.severity.name.lower()} | {check.title} |"  # type: ignore[attr-defined]
        for check in checks
    ]
    return "\n".join(lines) + "\n"


def write_checks(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pages = check_pages()
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text)


def plant(source: str) -> str:
    """The example with two faults in it. Raises ValueError when it has changed."""
    for line, instead in PLANTED:
        if source.count(line) != 1:
            raise ValueError(f"{DEMO} has no single {line.strip()!r}")
        source = source.replace(line, instead)
    return source


def watched(script: Path, folder: Path) -> str:
    """A session on a terminal's width: what `reefwatch run` prints, and its exit code."""
    words = ["run", "--claim", "bf16-mixed", str(script.relative_to(folder))]
    told = subprocess.run(
        [sys.executable, "-m", "reefwatch", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "96", "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    if told.returncode not in (0, 3):
        raise RuntimeError(f"the demo ended with {told.returncode}:\n{told.stdout}")
    shown = told.stdout.replace(str(folder) + "/", "").rstrip()
    return f"$ reefwatch {' '.join(words)}\n{shown}\n$ echo $?\n{told.returncode}\n"


def demo_outputs() -> dict[str, str]:
    """Name of a block in the READMEs -> its text, by running the example as it is and broken."""
    source = (ROOT / DEMO).read_text()
    blocks = {}
    for name, text in (("demo", source), ("planted", plant(source))):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made).resolve()
            script = folder / "examples" / Path(DEMO).name
            script.parent.mkdir()
            script.write_text(text)
            blocks[name] = watched(script, folder)
    return blocks


def put(text: str, name: str, block: str) -> str:
    """`text` with the console block between the marks of `name` replaced."""
    marks = re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- /{name} -->)", re.DOTALL)
    if not marks.search(text):
        raise ValueError(f"no marks for {name}")
    return marks.sub(lambda found: f"{found[1]}```console\n{block}```\n{found[3]}", text)


def main(argv: list[str]) -> int:
    write_checks(ROOT / "docs" / "checks")
    if "--demo" in argv:
        blocks = demo_outputs()
        for readme in READMES:
            text = (ROOT / readme).read_text()
            for name, block in blocks.items():
                text = put(text, name, block)
            (ROOT / readme).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
