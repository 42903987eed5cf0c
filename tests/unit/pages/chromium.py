"""Chromium without a window, asked over a pipe: one browser for all pages of a test run.

Answers are those of https://chromedevtools.github.io/devtools-protocol/.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-partial-raster",  # else the same page is not the same picture twice
    "--remote-debugging-pipe",
)
# What every test reads of a page: the library of looks that a script may use.
LIBRARY = Path(__file__).with_name("looks.js").read_text(encoding="utf-8")


class Browser:
    """A browser with one tab."""

    def __init__(self, profile: Path, *flags: str) -> None:
        """Start it with further flags; its profile is below this directory."""
        assert PROGRAM
        ours, theirs = os.pipe(), os.pipe()  # what it reads, what it writes
        at_3_and_4 = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", at_3_and_4, PROGRAM, *FLAGS, *flags, f"--user-data-dir={profile}"],
            pass_fds=(ours[0], theirs[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = os.fdopen(ours[1], "wb", 0), os.fdopen(theirs[0], "rb")
        self._number, self._session, self._rest = 0, "", b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method: str, **parameters: Any) -> Any:
        """Return the result of a command."""
        self._number += 1
        said = {"id": self._number, "method": method, "params": parameters}
        self._to.write(json.dumps({**said, "sessionId": self._session} if self._session else said).encode() + b"\0")
        answer = self._next(lambda one: one.get("id") == self._number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> None:
        """Show a page in a window of this width, and wait until it is loaded."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="", features=[scheme])
        address = f"{page.as_uri()}?{self._number}"  # no other page that was shown has it
        self.ask("Page.navigate", url=address)
        while not self.look(f"location.href === {json.dumps(address)} && document.readyState === 'complete'"):
            time.sleep(0.01)

    def look(self, script: str) -> Any:
        """Return what an expression says of the page; it may use what looks.js has."""
        expression = f"(() => {{ {LIBRARY}; return {script}; }})()"
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def press(self, key: str, *, modifiers: int = 0) -> None:
        """Press a key: Tab, Enter, a space, or s; with Control (2) or Shift (8)."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "s": 83}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **typed
            )

    def pages(self) -> int:
        """Return on how many sheets of paper the page is printed."""
        pdf = self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
        return len(re.findall(rb"/Type ?/Page\b", base64.b64decode(pdf)))

    def picture(self, *, whole: bool = False, clip: dict[str, float] | None = None) -> bytes:
        """Return what is seen as PNG; the whole page, or a part of it."""
        more = {"clip": clip} if clip else {}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole or bool(clip), **more)
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End it."""
        self.ask("Browser.close")
        self._process.wait()
        self._to.close()
        self._from.close()

    def _next(self, wanted: Any) -> Any:
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._from.fileno(), 1 << 20)
                assert more, "Chromium has ended"
                self._rest += more
            text, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(text)
            if wanted(answer):
                return answer
