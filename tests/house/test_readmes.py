"""Both READMEs say the same, and nothing that the program does not have."""

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from reefwatch.shell.cli import VERBS

NAMES = ("README.md", "README.zh-CN.md")
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"<!-- (\w+) -->\n(.*?)<!-- /\1 -->", re.DOTALL)


@pytest.fixture(scope="module")
def texts(root: Path) -> tuple[str, str]:
    english, chinese = (root / name for name in NAMES)
    return english.read_text(), chinese.read_text()


def commands(text: str) -> list[list[str]]:
    """Every command of the console blocks that are not output, as words."""
    blocks = CODE.findall(SHOWN.sub("", text))
    lines = [line for kind, block in blocks if kind == "console" for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.strip()]


def test_same_code_blocks(texts):
    english, chinese = map(CODE.findall, texts)
    assert english == chinese
    assert len(english) >= 8


def test_same_sections(texts):
    english, chinese = (re.findall(r"^#+ ", text, re.MULTILINE) for text in texts)
    assert english == chinese


def test_same_output(texts):
    english, chinese = (dict(SHOWN.findall(text)) for text in texts)
    assert english == chinese
    assert english.keys() == {"demo", "planted"}
    assert all("held" in block for block in english.values())


def test_same_tables_and_lists(texts):
    for mark in (r"^\| ", r"^- "):
        english, chinese = (len(re.findall(mark, text, re.MULTILINE)) for text in texts)
        assert english == chinese, mark


def test_same_code_words(texts):
    english, chinese = (set(re.findall(r"`([^`\n]+)`", CODE.sub("", text))) for text in texts)
    assert english == chinese


def test_same_links(texts):
    english, chinese = (set(re.findall(r"\]\(([^)]+)\)", text)) for text in texts)
    assert english - {NAMES[1]} == chinese - {NAMES[0]}


def test_links_lead_somewhere(root, texts):
    targets = set(re.findall(r"\]\(([^)]+)\)", texts[0]))
    assert targets
    for target in targets:
        assert (root / target.partition("#")[0]).exists(), target


def test_no_placeholder(texts):
    for text in texts:
        assert not re.search(r"\b(SILENCES|RESULTS|TODO)\b", text)


def options_of(verb: str) -> argparse.ArgumentParser:
    module = next(each.module for each in VERBS if each.name == verb)
    assert module is not None, f"{verb} is only planned"
    parser: argparse.ArgumentParser = importlib.import_module(module).parser()
    return parser


def check_reefwatch(words: list[str]) -> None:
    """The verb exists, and each option before the program is one that it has."""
    verb, *rest = words
    known = options_of(verb)._option_string_actions
    for word in rest:
        if not word.startswith("-"):
            break
        assert word.partition("=")[0] in known, f"{verb} has no {word}"


def test_every_command_exists(root, texts):
    targets = re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.MULTILINE)
    seen = set()
    for words in commands(texts[0]):
        seen.add(words[0])
        match words:
            case ["make", target]:
                assert target in targets
            case ["reefwatch", *rest] | ["torchrun", _, "-m", "reefwatch", *rest]:
                check_reefwatch(rest)
            case ["pip", "install", "."]:
                pass
            case _:
                pytest.fail(f"no one knows how to check {words}")
    assert {"make", "reefwatch", "torchrun"} <= seen


def test_every_option_in_the_text_exists(texts):
    known = {
        option
        for verb in VERBS
        if verb.module is not None
        for option in options_of(verb.name)._option_string_actions
    }
    told = set(re.findall(r"`(--[a-z-]+)", CODE.sub("", texts[0]))) - {"--help"}
    assert told
    assert told <= known
