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
        self._session = None
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        told = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = told["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{part}.enable")

    def open(self, url):
        """Go to an address."""
        self._ask("Page.navigate", url=url)

    def run(self, code):
        """Return the value of an expression of the page."""
        told = self._ask("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise BrowserError(told["exceptionDetails"])
        return told["result"].get("value")

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
        told = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            told["sessionId"] = self._session
        os.write(self._to, json.dumps(told).encode() + b"\0")
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

    def _hear(self, event, told):
        if event == "Network.requestWillBeSent":
            if not told["request"]["url"].startswith("data:"):  # pictures inside the page
                self.requests.append(told["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"])
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.complaints.append(told["args"])
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"])
