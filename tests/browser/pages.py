"""Pages as a browser without a window had them: Debian's chromium."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import dataclass

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None
)


@dataclass(frozen=True)
class Opened:
    """A page as the browser had it after a while, and what the browser had to say."""

    dom: str
    log: str

    @property
    def root(self) -> dict[str, str]:
        """Attributes of the root: ``data-ready`` (ms) once it is drawn, or ``data-failed``."""
        return dict(re.findall(r'(data-\w+)="([^"]*)"', re.search("<html[^>]*>", self.dom)[0]))

    @property
    def text(self) -> str:
        """What is between the marks of elements, without scripts and styles."""
        body = re.sub(r"(?s)<(script|style).*?</\1>", "", self.dom)
        return html.unescape(re.sub("<[^>]*>", "\n", body))

    def complaints(self) -> list[str]:
        """Return what a page causes in the console: errors, and what its policy forbids."""
        return [line for line in self.log.splitlines() if ":CONSOLE" in line]


def acted(report, script):
    """Write a copy of a report, without its policy, that does something once it is drawn."""
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", report.read_text())
    waits = "while (!document.documentElement.dataset.ready) await new Promise(setTimeout);"
    place = report.with_name("acted.html")
    code = f"<script>(async () => {{ {waits} const {{ view }} = unglow; {script} }})();</script>"
    place.write_text(text.replace("</body>", code + "</body>"))
    return place
