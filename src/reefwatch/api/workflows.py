"""`ci init`: writes the workflow files."""

from __future__ import annotations

from pathlib import Path

from reefwatch.core.errors import UsageError


def write(
    kind: str, host: str, out: Path, *, gpu: str, target: str, tests: str, force: bool = False
) -> list[Path]:
    """Write the workflow of `host`, the known failures and the smoke script below `out`.

    Raises UsageError when one is there already and `force` is not given; nothing is written then.
    """
    from reefwatch.show import workflows

    files = {name: out / workflows.FILES[name] for name in (host, "known", "smoke")}
    there = [str(path) for path in files.values() if path.exists()]
    if there and not force:
        raise UsageError(f"{', '.join(there)}: there already; --force writes over it")
    texts = {name: workflows.render(name, kind, gpu, target, tests) for name in files}
    try:
        for name, path in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[name], encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or error}") from None
    return list(files.values())
