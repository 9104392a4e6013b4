"""A browser that goes on while a test looks at it: chromium over the pipe of its own tools."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time

# The browser reads from 3 and writes to 4, either of which may be taken.
_START = """\
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

_MODIFIERS = {"alt": 1, "ctrl": 2, "meta": 4, "shift": 8}
_LATE_TILE = "Ignoring tile"
"""OpenSeadragon's warning about a tile of a picture that was changed meanwhile: no fault."""
_KEY_TEXT = {"Enter": "\r"}
_KEY_CODES = {
    "Backspace": 8,
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "Delete": 46,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
}


class BrowserError(Exception):
    """The browser has refused a request, or what it was to evaluate has failed."""


class Tab:
    """One page of a chromium without a window; keeps what it requests and what it complains of.

    Parameters
    ----------
    program, profile
        The browser, and a directory for what it keeps.
    size
        Width and height of the window, px.
    """

    def __init__(self, program, profile, size=(1300, 1800)):
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        width, height = size

        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _START, str(to_browser), str(from_browser), program),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--remote-debugging-pipe", f"--user-data-dir={profile}"),
                f"--window-size={width},{height}",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest = 0, b""
        self.requests, self.complaints = [], []
        self._pressed = 0
        self._session = None
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        reply = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = reply["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{part}.enable")

    def open(self, url):
        """Go to an address."""
        self._ask("Page.navigate", url=url)

    def run(self, code):
        """Return the value of an expression of the page."""
        reply = self._ask(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in reply:
            raise BrowserError(reply["exceptionDetails"])
        return reply["result"].get("value")

    def follow(self, link):
        """Click on an element that leads to another page, which comes after this has ended."""
        self.run(f"void setTimeout(() => {link}.click())")

    def wait(self, code, seconds=300):
        """Return the value of an expression once it is one, and none of the false ones.

        While one page goes and the next comes, there may be nothing to evaluate it on.
        """
        until, why = time.monotonic() + seconds, None
        while time.monotonic() < until:
            try:
                value, why = self.run(code), None
            except BrowserError as error:
                value, why = None, error
            if value:
                return value
            time.sleep(0.2)
        raise AssertionError(f"{code} did not come true within {seconds} s: {why or self.text}")

    @property
    def text(self):
        """What a reader sees."""
        return self.run("document.body.innerText")

    def middle(self, selector):
        """Return where the middle of an element is in the window, (x, y) in CSS px."""
        return self.run(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )

    def move(self, x, y):
        """Move the mouse to a place in the window, its button as it was."""
        # without the button, Chromium takes the pointer away from what has captured it
        button = "left" if self._pressed else "none"
        self._mouse("mouseMoved", x, y, button=button, buttons=self._pressed)

    def press(self, x, y, count=1):
        """Press the left button; the second time in a row ``count`` is 2."""
        self.move(x, y)
        self._pressed = 1
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)

    def release(self, x, y, count=1):
        """Release the left button."""
        self._pressed = 0
        self._mouse("mouseReleased", x, y, button="left", buttons=0, clickCount=count)

    def click(self, x, y, count=1):
        """Click, or click twice if ``count`` is 2."""
        for number in range(1, count + 1):
            self.press(x, y, number)
            self.release(x, y, number)

    def drag(self, start, end, steps=8):
        """Drag from a place (x, y) to another in so many steps."""
        self.press(*start)
        for step in range(1, steps + 1):
            self.move(*(a + (b - a) * step / steps for a, b in zip(start, end, strict=True)))
        self.release(*end)

    def key(self, name, modifiers=""):
        """Press and release a key by its name (``a``, ``Enter``) with `_MODIFIERS` held down."""
        held = sum(bit for word, bit in _MODIFIERS.items() if word in modifiers.split())
        text = _KEY_TEXT.get(name, name if len(name) == 1 else "")
        code = _KEY_CODES.get(name, ord(name.upper()) if len(name) == 1 else 0)
        key_event = {"key": name, "windowsVirtualKeyCode": code, "modifiers": held}
        typed = {"text": text} if text and held in (0, _MODIFIERS["shift"]) else {}
        self._ask("Input.dispatchKeyEvent", type="keyDown", **key_event, **typed)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **key_event)

    def type(self, text):
        """Write into the element that has the focus."""
        self._ask("Input.insertText", text=text)

    def _mouse(self, kind, x, y, **more):
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def picture(self, path):
        """Write what is seen as PNG."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))

    def close(self):
        """End the browser."""
        self._process.terminate()
        self._process.wait(120)
        os.close(self._to)
        os.close(self._from)

    def _ask(self, method, **parameters):
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(answer["error"])
                return answer["result"]
            self._hear(answer.get("method"), answer.get("params"))

    def _next(self):
        while b"\0" not in self._rest:
            assert select.select([self._from], [], [], 300)[0], "the browser does not answer"
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _hear(self, event, params):
        if event == "Network.requestWillBeSent":
            if not params["request"]["url"].startswith("data:"):  # pictures inside the page
                self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            if not str(params["args"][0].get("value")).startswith(_LATE_TILE):
                self.complaints.append(params["args"])
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"])


def leave(tab):
    """Leave the page that a tab shows, and forget what it has asked for and complained of."""
    tab.open("about:blank")
    tab.wait("location.href === 'about:blank'")
    tab.requests.clear()
    tab.complaints.clear()
