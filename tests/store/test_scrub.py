"""Secrets and names go; module paths, places and numbers stay."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefwatch.store.lines import encode
from reefwatch.store.scrub import _MOST_KNOWN, Scrubber

JANE = Scrubber(["/home/jane"], "jane", ["node17", "node17.lab.example.org"])
HEX40 = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/home/janet/train.py /data/janet/x", "/home/<user>/train.py /data/janet/x"),
        ("a --api-key X", "a --api-key <secret>"),
        ("msg=API_KEY=X", "msg=API_KEY=<secret>"),
        ("error: api_key: X", "error: api_key: <secret>"),
        ("x=--token X", "x=--token <secret>"),
        ("/home/jane/train.py:31", "~/train.py:31"),
        ("/home/jane", "~"),
        ("file:///home/jane/x", "file://~/x"),
        ("PYTHONPATH=/home/jane/a:/home/jane/b", "PYTHONPATH=~/a:~/b"),
        ("/home/bob/env/lib", "/home/<user>/env/lib"),
        ("/Users/bob/env", "/Users/<user>/env"),
        ("/scratch/jane/run 3/x.py", "/scratch/<user>/run 3/x.py"),
        ("/tmp/torchinductor_jane/ab", "/tmp/torchinductor_<user>/ab"),
        ("jane@node17:/x", "<user>@<host>:/x"),
        ("no route to node17.lab.example.org", "no route to <host>"),
        ("connect node17:29500", "connect <host>:29500"),
        ("tcp://10.1.2.3:29500", "tcp://<host>:29500"),
        ("10.1.2.3:29500 refused", "<host>:29500 refused"),
        ("MASTER_ADDR=gpu-4 MASTER_PORT=29500", "MASTER_ADDR=<host> MASTER_PORT=29500"),
        ("--rdzv-endpoint=gpu-4:29500", "--rdzv-endpoint=<host>:29500"),
        ("--token X --lr 0.1", "--token <secret> --lr 0.1"),
        ("--api-key=X", "--api-key=<secret>"),
        ("--hf_token 'X'", "--hf_token '<secret>'"),
        ("WANDB_API_KEY=X python train.py", "WANDB_API_KEY=<secret> python train.py"),
        ('{"password": "X"}', '{"password": "<secret>"}'),
        ("aws_secret_access_key = X", "aws_secret_access_key = <secret>"),
        ("login hf_AbCdEfGhIjKlMnOpQrSt12", "login <secret>"),
        ("sk-proj-a1b2c3d4e5f6g7h8i9j0", "<secret>"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "<secret>"),
        ("AKIAIOSFODNN7EXAMPLE", "<secret>"),
        (f"wandb login {HEX40}", "wandb login <secret>"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer <secret>"),
        ("https://jane:pw@git.example.org/x", "https://<secret>@git.example.org/x"),
        ("https://x.org/d?a=1&token=X&b=2", "https://x.org/d?a=1&token=<secret>&b=2"),
        ("s3://b/k?X-Amz-Signature=X", "s3://b/k?X-Amz-Signature=<secret>"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----<secret>-----END RSA PRIVATE KEY-----",
        ),
    ],
)
def test_what_goes(text: str, clean: str) -> None:
    assert JANE.text(text) == clean


STAYS = [
    "encoder.layers.3.self_attn",
    "model.token_embedding",
    "token_embedding.weight: float32",
    "train.py:31",
    "token.py:31, secret.py:7",
    "/usr/lib/python3.11/secrets.py:12",
    "jane",
    "numpy==10.3.2.106",
    "nvidia-cublas 12.1.3.1",
    "--max-tokens 128 --tokenizer bert --pad-token <pad> --sort-key name",
    "TOKENIZERS_PARALLELISM=false",
    "unexpected token: 31",
    f"commit {HEX40}",
    "x@self.weight.T",
    "hf_model_loader",
    "127.0.0.1:29500",
    "MASTER_ADDR=localhost",
    "KeyError: 'layers.3'",
    "lr=0.1, betas=(0.9, 0.999)",
    "aten.mm.default",
    "cuda:0",
    "step 3: 12.5 ms (p95 13.1 ms)",
    "see https://github.com/pytorch/pytorch/issues/123456#issuecomment-1",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_stays(text: str) -> None:
    assert JANE.text(text) == text


@pytest.mark.parametrize("user", ["root", "a", "data", "model", "layers", "py"])
@pytest.mark.parametrize("host", ["gpu", "layer", "localhost", "x1"])
def test_a_user_or_host_named_like_a_word_eats_no_words(user: str, host: str) -> None:
    scrubber = Scrubber([f"/home/{user}"], user, [host])
    for text in STAYS:
        assert scrubber.text(text) == text
    assert scrubber.text("model.data.layers.a.root") == "model.data.layers.a.root"
    assert scrubber.text("gpu 0, layer 3, x1 - x0") == "gpu 0, layer 3, x1 - x0"
    assert scrubber.text(f"/home/{user}/model/x.py:3") == "~/model/x.py:3".replace(
        f"/{user}/", "/<user>/"
    )


def test_by_the_name_of_a_key() -> None:
    said = {
        "HF_TOKEN": "X",
        "MY_TOKEN_2": "X",
        "AWS_SECRET_ACCESS_KEY": "X",
        "apiKey": "X",
        "USER": "jane",
        "HOSTNAME": "gpu-9",
        "MASTER_ADDR": "gpu-9:1",
        "PWD": "/home/jane/x",
        "TOKENIZERS_PARALLELISM": "false",
        "tokens_per_second": 12.5,
        "key": "encoder.0",
        "module": "secrets.jane",
        "/home/jane/x.py": 3,
        "user": "train.py:3",
    }
    assert JANE.value(said) == {
        **dict.fromkeys(("HF_TOKEN", "MY_TOKEN_2", "AWS_SECRET_ACCESS_KEY", "apiKey"), "<secret>"),
        "USER": "<user>",
        "HOSTNAME": "<host>",
        "MASTER_ADDR": "<host>:1",
        "PWD": "~/x",
        "TOKENIZERS_PARALLELISM": "false",
        "tokens_per_second": 12.5,
        "key": "encoder.0",
        "module": "secrets.jane",
        "~/x.py": 3,
        "user": "train.py:3",
    }


def test_an_option_and_its_value_in_a_list() -> None:
    argv = [
        "/home/jane/t.py",
        "--token",
        "X",
        "--flag",
        "--api-key",
        "Y",
        "--lr",
        "0.1",
        "--key",
        "Z",
    ]
    assert JANE.value(argv) == [
        "~/t.py", "--token", "<secret>", "--flag", "--api-key", "<secret>", "--lr", "0.1",
        "--key", "<secret>",
    ]  # fmt: skip


ascii_words = st.text("abcjane/_.-:= @\"'\\\n0123é训", max_size=30)


@settings(max_examples=400)
@given(
    st.lists(
        st.sampled_from([*STAYS, "/home/jane/", "--token ", "hf_a1b2c3d4e5f6g7", "node17"])
        | ascii_words,
        max_size=5,
    )
)
def test_scrubbing_twice_changes_nothing_more(parts: list[str]) -> None:
    once = JANE.text(" ".join(parts))
    assert JANE.text(once) == once


@settings(max_examples=300)
@given(ascii_words, ascii_words)
def test_no_home_and_no_secret_survives_among_other_words(before: str, after: str) -> None:
    assert "/home/jane/" not in JANE.text(f"{before} /home/jane/x {after}")
    assert "hf_a1b2c3d4e5f6g7" not in JANE.text(f"{before} hf_a1b2c3d4e5f6g7 {after}")
    assert "zq9w8" not in JANE.text(f"{before} --api-key zq9w8 {after}")


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | ascii_words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ascii_words, inner, max_size=4),
)


def walk(value: Any) -> list[Any]:
    """The leaves that are no text, in order."""
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in walk(part)]
    if isinstance(value, list):
        return [leaf for part in value for leaf in walk(part)]
    return [] if isinstance(value, str) else [value]


@settings(max_examples=300)
@given(values)
def test_the_json_stays_json_and_numbers_stay(value: Any) -> None:
    scrubbed = json.loads(JANE.json(encode(value)))
    if not isinstance(value, dict):
        assert repr(walk(scrubbed)) == repr(walk(value)) or "jane" in repr(value)


@settings(max_examples=300)
@given(st.from_regex(r"[a-z_]{1,8}(\.[a-z0-9_]{1,8}){0,4}", fullmatch=True), st.integers(1, 99999))
def test_module_paths_and_places_survive_every_user_name(path: str, line: int) -> None:
    for word in path.split("."):
        scrubber = Scrubber([f"/home/{word}"], word, [word])
        if not any(c.isdigit() for c in word):
            assert scrubber.text(f"{path}, {path}.py") == f"{path}, {path}.py"
        assert scrubber.text(path) == path or path == word
        assert JANE.text(f"{path}.py:{line}") == f"{path}.py:{line}"


def test_a_path_can_be_found_again() -> None:
    for path in ("/home/jane/a/x.py", "/scratch/jane/x.py", "/opt/x.py"):
        assert JANE.restore(JANE.text(path)) == path
    assert Scrubber().restore("~/x") == "~/x"


def test_this_user_and_host() -> None:
    import os

    here = Scrubber.here()
    home = os.path.expanduser("~")
    assert here.text(f"{home}/x.py:3") == "~/x.py:3"
    assert here.restore("~/x.py") == f"{home}/x.py"


def test_a_full_cache_starts_anew() -> None:
    scrubber = Scrubber()
    for n in range(2 * _MOST_KNOWN):
        assert scrubber.value(f"x{n}") == f"x{n}"
    assert len(scrubber._known) <= _MOST_KNOWN


@settings(max_examples=300)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["token", "module", "x", "--key", "--token", "user", "file"]),
            st.sampled_from(["--token", "token", "jane", "/data/jane/x", "x", "a b", "node17"])
            | st.lists(st.sampled_from(["--token", "x", "jane", "/data/jane"]), max_size=3),
            max_size=4,
        ),
        max_size=6,
    )
)
def test_what_was_scrubbed_before_makes_no_difference(rows: list[Any]) -> None:
    warm, cold = (Scrubber(["/home/jane"], "jane", ["node17"]) for _ in range(2))
    for row in [*rows, *rows]:
        cold._known.clear()
        assert warm.json(encode(row)) == cold.json(encode(row))
