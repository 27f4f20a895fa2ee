"""Headless Chromium over its debugging pipe (fds 3 and 4): no driver and no port is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

BINARY = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One tab that loads one file and tells what happened meanwhile."""

    def __init__(self, profile: Path, deadline: float = 120) -> None:
        assert BINARY
        self.events: list[dict[str, Any]] = []
        self._deadline, self._number, self._buffer, self._session = deadline, 0, b"", ""
        there, self._write = os.pipe()
        self._read, back = os.pipe()
        script = f'exec "$0" "$@" 3<&{there} 4>&{back}'
        command = [
            "bash",
            "-c",
            script,
            BINARY,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        with (profile / "stderr.txt").open("wb") as log:
            self._process = subprocess.Popen(
                command, pass_fds=(there, back), stdout=subprocess.DEVNULL, stderr=log
            )
        os.close(there)
        os.close(back)
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command; its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        begin = time.monotonic()
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], 1)
            if ready:
                piece = os.read(self._read, 1 << 20)
                assert piece, "the browser has gone"
                self._buffer += piece
            assert time.monotonic() - begin < self._deadline, "the browser does not answer"
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, file: Path, width: int = 1200, height: int = 900, scheme: str = "light") -> None:
        """Load a file and wait for it. `scheme` is light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=media)
        self.events.clear()
        self.send("Page.navigate", url=file.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """Console messages, log entries and exceptions since the page was opened."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        self.evaluate("1")
        return [json.dumps(e["params"])[:500] for e in self.events if e.get("method") in kinds]

    def requests(self) -> list[str]:
        """Addresses that the page asked for, itself and data: left out."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [
            e["params"]["request"]["url"] for e in sent if e["params"].get("type") != "Document"
        ]
        return [url for url in urls if not url.startswith("data:")]

    def screenshot(self, path: Path, full: bool = True) -> None:
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(shot["data"]))

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
