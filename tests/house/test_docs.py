"""What is made from the code is fresh, and what the docs name exists."""

import re
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def docs(script):
    return script("docs")


def test_pages_of_checks_are_fresh(docs, root):
    made = docs.check_pages()
    folder = root / "docs" / "checks"
    assert {file.name for file in folder.glob("*.md")} == made.keys(), "run `make docs`"
    for name, text in made.items():
        assert (folder / name).read_text() == text, f"{name}: run `make docs`"


def test_planted_faults_still_fit_the_example(docs, root):
    source = (root / docs.DEMO).read_text()
    broken = docs.plant(source)
    compile(broken, docs.DEMO, "exec")
    assert "zero_grad" not in broken
    with pytest.raises(ValueError, match="zero_grad"):
        docs.plant(source.replace("optimizer.zero_grad()", "optimizer.zero()"))


def test_a_block_is_put_between_its_marks(docs):
    text = "a\n<!-- demo -->\nold\n<!-- /demo -->\nb\n"
    once = docs.put(text, "demo", "$ make demo\n")
    assert once == "a\n<!-- demo -->\n```console\n$ make demo\n```\n<!-- /demo -->\nb\n"
    assert docs.put(once, "demo", "$ make demo\n") == once
    with pytest.raises(ValueError, match="planted"):
        docs.put(text, "planted", "")


def test_functions_named_in_how_it_works_exist(root):
    """`room/file.py: name` on that page is a name in that file."""
    text = (root / "docs" / "how-it-works.md").read_text()
    named = re.findall(r"`([\w/]+\.py): ([\w.]+)`", text)
    assert len(named) >= 15
    for file, name in named:
        source = (root / "src" / "reefwatch" / file).read_text()
        for part in name.split("."):
            assert re.search(rf"(def|class) {part}\b|^{part}\b", source, re.MULTILINE), (file, name)


def test_variables_of_the_makefile_are_told(root):
    told = (root / "docs" / "install.md").read_text()
    for name in re.findall(r"^(\w+) +\?=", (root / "Makefile").read_text(), re.MULTILINE):
        if name != "DEMO":
            assert f"`{name}`" in told, name


def pages(root: Path) -> list[Path]:
    own = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    return [*own, *(root / folder / "README.md" for folder in ("tests", "examples", "benchmarks"))]


def test_links_of_all_pages_lead_somewhere(root):
    seen = 0
    for file in pages(root):
        for target in re.findall(r"\]\(([^)]+)\)", file.read_text()):
            if not target.startswith(("http", "#", "mailto")):
                seen += 1
                assert (file.parent / target.partition("#")[0]).exists(), (file.name, target)
    assert seen
