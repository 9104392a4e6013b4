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


def settled(tab):
    """Wait until all that is to be seen is there, and drawn."""
    tab.wait("unglow.settled", 120)
    framed(tab)


def place_of(tab, n=0):
    """Return what a pane shows: x and y of its middle, zoom and turn."""
    return json.loads(tab.run(f"JSON.stringify(unglow.panes[{n}].place())"))


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
    red, green, _, opacity = np.moveaxis(_marks_near(tab, x, y, n), 2, 0)
    return bool(((red > 200) & (green < 140) & (opacity > 100)).any())


def is_drawn_near(tab, x, y, colour):
    """Whether something near px (x, y) of the image of the first pane has a colour, [r, g, b]."""
    return has_colour(_marks_near(tab, x, y), colour)


def has_colour(pixels, colour):
    """Whether any of some pixels, (rows, cols, 4) RGBA, has a colour, [r, g, b]."""
    matching = np.abs(pixels[..., :3] - colour).max(axis=-1) < 40
    return bool((matching & (pixels[..., 3] > 100)).any())


def _marks_near(tab, x, y, n=0):
    place = f"unglow.panes[{n}].screenAt({x}, {y}).map((v) => Math.round(v * devicePixelRatio))"
    left, top = tab.run(place)
    return marks(tab, n)[top - 6 : top + 7, left - 6 : left + 7]


def marks(tab, n=0):
    """Return what lies over the image of a pane, (rows, cols, 4) RGBA."""
    return picture_of(tab, f"unglow.panes[{n}].marks").astype(int)


def picture_of(tab, canvas):
    """Return what a canvas of the page shows, (rows, cols, 4) RGBA."""
    text = tab.run(f"{canvas}.toDataURL('image/png')").partition(",")[2]
    image = cv2.imdecode(np.frombuffer(base64.b64decode(text), np.uint8), cv2.IMREAD_UNCHANGED)
    return cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA)
