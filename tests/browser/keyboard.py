"""Going through a page with the Tab key: what comes, in which order, and whether it is seen."""

from __future__ import annotations

_FOCUSED = """(() => {
  const now = document.activeElement;
  if (now === document.body) { window.walked = null; return null; }
  const before = window.walked;
  window.walked = now;
  now.toggleAttribute("data-walked", true);
  const box = now.getBoundingClientRect(), { outlineStyle } = getComputedStyle(now);
  const y = box.y + Math.min(box.height / 2, 8);
  const shown = document.elementFromPoint(box.x + Math.min(box.width / 2, 20), y);
  const name = now.ariaLabel || now.labels?.[0]?.innerText || now.innerText || now.title;
  return {
    name: name.trim(), ring: outlineStyle !== "none", seen: now.contains(shown),
    ahead: !before || before === now || Boolean(before.compareDocumentPosition(now) & 4)
      || now === document.querySelector("a[href]"), // the first of all comes after the last
  };
})()"""
_LEFT = """[...document.querySelectorAll(
  'a[href], button, input:not([type=radio]), select, summary, [tabindex="0"]'
)].filter((e) => !e.disabled && !e.hasAttribute("data-walked") && e.checkVisibility()
  && e.getBoundingClientRect().width).map((e) => e.outerHTML.slice(0, 200))"""


def reach(tab, name):
    """Press Tab until an element whose name begins so has the focus; all on the way are seen."""
    tab.run("void (window.walked = document.activeElement)")
    for _ in range(300):
        tab.key("Tab")
        focused = _check(tab)
        if focused is not None and focused["name"].startswith(name):
            return
    raise AssertionError(f"{name} cannot be reached with the keyboard")


def walk(tab):
    """Press Tab to the end of a page and through all of it; returns what was not reached."""
    tab.run("void (window.walked = document.activeElement)")
    for part in ("rest", "whole"):
        reached = "document.querySelectorAll('[data-walked]')"
        tab.run(f"{reached}.forEach((e) => delete e.dataset.walked)")
        for _ in range(500):
            tab.key("Tab")
            if _check(tab) is None:
                break
        else:
            raise AssertionError(f"the Tab key does not come to the end of the {part}")
    return tab.run(_LEFT)


def said(tab):
    """Return all that a page says: its text, folded parts included, and what lies behind it."""
    tab.run("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    return tab.text + tab.run(
        "[...document.querySelectorAll('[title], [aria-label]')].map((e) => '\\n' + e.title"
        " + '\\n' + e.ariaLabel).join('')"
    )


def _check(tab):
    focused = tab.run(_FOCUSED)
    assert focused is None or (focused["ring"] and focused["seen"] and focused["ahead"]), focused
    return focused


def focus(tab):
    """Return the text of the element that has the focus."""
    return tab.run("document.activeElement.ariaLabel || document.activeElement.innerText")
