"""What figures have drawn: their texts with boxes, and their bytes."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import numpy as np
from matplotlib.axis import XTick, YTick
from PIL import Image

from unglow.figures.style import save_png


def texts(figure):
    """All text that is really drawn, with its box in px."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    hidden = {text for tick in figure.findobj(is_outside) for text in (tick.label1, tick.label2)}
    return [
        (text.get_text(), text.get_window_extent(renderer))
        for text in figure.findobj(mpl.text.Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]


def is_outside(artist):
    """Whether this is a tick beyond the ends of its axis, which is not drawn."""
    if not isinstance(artist, XTick | YTick):
        return False
    limits = artist.axes.get_xlim() if isinstance(artist, XTick) else artist.axes.get_ylim()
    return not min(limits) <= artist.get_loc() <= max(limits)


def said(figure):
    """The same as one text."""
    return "\n".join(text for text, _ in texts(figure))


def check_texts(figure, across, along):
    """See that texts are on the paper, and apart when grown by so many px across and along."""
    drawn, paper = texts(figure), figure.bbox
    assert drawn
    for text, box in drawn:
        assert (box.x0 >= 0, box.y0 >= 0, box.x1 <= paper.x1, box.y1 <= paper.y1) == (True,) * 4, (
            text
        )
    boxes = [(text, box.padded(across, along)) for text, box in drawn]
    for (text, box), (other, there) in itertools.combinations(boxes, 2):
        assert not box.overlaps(there), (text, other)


def check_png(figure, place):
    """See that a figure is readable, and has the same bytes twice and nothing next to them."""
    for copy in "ab":
        save_png(figure, place / f"{copy}.png")
    assert (place / "a.png").read_bytes() == (place / "b.png").read_bytes()
    with Image.open(place / "a.png") as image:
        assert 900 <= image.width <= 2000
        assert "Software" not in image.info
        assert np.asarray(image.convert("L")).std() > 5
    assert sorted(p.name for p in place.iterdir()) == ["a.png", "b.png"]
