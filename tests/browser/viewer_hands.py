"""What hands do in the viewer: where to point, and what to press."""

from __future__ import annotations

import base64
import json

import cv2
import numpy as np

FRAMES = """new Promise((done) => {
  const after = (n) => n ? requestAnimationFrame(() => after(n - 1)) : done();
  after(4);
})"""


def framed(tab):
    """Let the page draw what it has: some frames."""
    tab.run(FRAMES)


def spot(tab, x, y, n=0):
    """Return where px (x, y) of the image of a pane is in the window, CSS px."""
    return tab.run(
        f"(() => {{ const pane = unglow.panes[{n}], box = pane.element.getBoundingClientRect();"
        f" const [left, top] = pane.screenAt({x}, {y}); return [box.x + left, box.y + top]; }})()"
    )


def press(tab, text, n=0):
    """Click the n-th button of a text with the mouse."""
    buttons = "[...document.querySelectorAll('button')]"
    found = f"{buttons}.filter((b) => b.textContent === {json.dumps(text)})[{n}]"
    tab.wait(f"{found} && !{found}.disabled", 120)
    tab.run(f"{found}.scrollIntoView({{ block: 'nearest' }})")
    box = f"{found}.getBoundingClientRect()"
    tab.click(*tab.run(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]"))


def toggle_overlay(tab, name):
    """Show or hide an overlay by its box in the list of overlays."""
    press(tab, "Overlays ▾")
    tab.click(*tab.middle(f".choices input[name={name}]"))
    tab.key("Escape")


def hatched(tab, x, y, n=0):
    """Whether something near px (x, y) of the image of a pane is red: a part that is excluded."""
    place = f"unglow.panes[{n}].screenAt({x}, {y}).map((v) => Math.round(v * devicePixelRatio))"
    left, top = tab.run(place)
    red, green, _, opacity = np.moveaxis(
        marks(tab, n)[top - 6 : top + 7, left - 6 : left + 7], 2, 0
    )
    return bool(((red > 200) & (green < 140) & (opacity > 100)).any())


def marks(tab, n=0):
    """Return what lies over the image of a pane, (rows, cols, 4) RGBA."""
    text = tab.run(f"unglow.panes[{n}].marks.toDataURL('image/png')").partition(",")[2]
    image = cv2.imdecode(np.frombuffer(base64.b64decode(text), np.uint8), cv2.IMREAD_UNCHANGED)
    return cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA).astype(int)
