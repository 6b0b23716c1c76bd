"""Debian's Chromium without a window, driven by its DevTools protocol over two pipes.

    with Chromium() as browser:
        browser.open("http://127.0.0.1:8464/", width=360)
        browser.value("document.title")

A message is a JSON object and a zero byte. Nothing listens on a port; the profile is in a temporary folder.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.services.database import needed
from tests.services.processes import stop

_SECONDS = 60.0


class Chromium:
    """A browser with one page; see the head of this file.

    Attributes:
        errors: what the pages have reported: scripts and styles that their policy refuses, and exceptions.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._number = 0
        self._rest = b""
        self._loaded = False

    def __enter__(self) -> Chromium:
        needed("chromium", "chromium")
        self._profile = tempfile.mkdtemp(prefix="cf-chromium-")
        commands, self._to = _pipe()
        self._from, answers = _pipe()
        options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec chromium {options} --user-data-dir="$1" about:blank 3<&{commands} 4>&{answers}', "bash",
             self._profile],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self._of_page(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        os.close(self._to)
        os.close(self._from)
        stop(self._process)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Opens a page in a window of this size, and waits until it is loaded."""
        self.resize(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._of_page("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self._of_page("Page.navigate", url=url)
        while not self._loaded:
            self._message()

    def resize(self, width: int, height: int = 900) -> None:
        """Gives the window another size."""
        self._of_page(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self._of_page("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Presses a key, such as `Tab` or `Enter`."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._of_page("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def screenshot(self, path: Path, format: str = "png") -> None:
        """Writes a picture of the window as `png` or `webp`."""
        path.write_bytes(base64.b64decode(self._of_page("Page.captureScreenshot", format=format)["data"]))

    def _of_page(self, method: str, **arguments: Any) -> Any:
        return self._call(method, session=self._session, **arguments)

    def _call(self, method: str, session: str | None = None, **arguments: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        os.write(self._to, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._from, 1 << 16) if ready else b""
            if not data:
                raise RuntimeError("chromium does not answer, or has ended")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Log.entryAdded":
                self.errors.append(message["params"]["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
        return message


def _pipe() -> tuple[int, int]:
    """A pipe whose numbers are not those that the browser uses, 3 and 4."""
    ends = os.pipe()
    reading, writing = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return reading, writing
