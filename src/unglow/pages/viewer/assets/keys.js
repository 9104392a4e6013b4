// Keys: everything can be done without a mouse.

import { button, el, fill } from "./elements.js";
import { modesOf } from "./modes.js";
import { savePicture } from "./picture.js";

// What keys do, for people; panels have theirs.
const KEYS = [
  ["← → ↑ ↓", "move by a quarter, with Shift by a full view"], ["+ −", "zoom in, zoom out"], ["0", "whole image"], ["f", "one px of the image per px of the screen"],
  ["Space", "pause blinking, then switch"], ["x", "exchange A and B"], ["h", "histogram and contrast"], ["s", "save a picture"], ["?", "these keys"],
];

const STEP = 0.25, ZOOM = 1.5;

export function keyed(app, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, input:not([type=checkbox])") || !app.pair) return;
  if (event.key === "?") app.keys.toggle();
  else if (app.keys.isOpen || !act(app, event)) return;
  event.preventDefault();
}

// Do what a key says, or a button in its place; `event` has at least its `key`. Whether there was something to do.
export function act(app, event) {
  if (app.panels.key(event)) return true;
  return Boolean(app.shown && app.panes.length) && (moved(app.panes[0], event) || pressed(app, event));
}

export function moved(pane, { key, shiftKey }) {
  const place = pane.place();
  if (!place) return false; // its image is on its way
  const [width, height] = [pane.element.clientWidth / place.zoom, pane.element.clientHeight / place.zoom];
  const step = shiftKey ? 1 : STEP;
  const by = { ArrowLeft: [-width, 0], ArrowRight: [width, 0], ArrowUp: [0, -height], ArrowDown: [0, height] }[key];
  if (by) pane.go({ x: place.x + by[0] * step, y: place.y + by[1] * step });
  else if (key === "+" || key === "=") pane.go({ ...place, zoom: place.zoom * ZOOM });
  else if (key === "-") pane.go({ ...place, zoom: place.zoom / ZOOM });
  else if (key === "0") pane.whole();
  else if (key === "f") pane.go({ ...place, x: Math.round(place.x), y: Math.round(place.y), zoom: 1 });
  else return false;
  return true;
}

function pressed(app, { key, target }) {
  const { address } = app;
  const chosen = modesOf(app.pair).find(([, , own]) => own === key);
  if (chosen) address.set({ mode: chosen[0] });
  else if (key === " " && address.get("mode") === "blink" && target.matches("button, input") === false) app.blinking.hold();
  else if (key === "h") app.contrast.toggle();
  else if (key === "x") address.set({ a: address.get("b"), b: address.get("a") });
  else if (key === "s") savePicture(app);
  else return false;
  return true;
}

// All keys, with what they do.
export class KeysDialog {
  constructor(app) {
    this.app = app;
    this.known = el("dl", { class: "keys" });
    this.element = el("dialog", { class: "keys-dialog", "aria-label": "Keys" }, el("h2", {}, "Keys"), this.known, el("div", { class: "row" }, button("Close", "Close (Escape)", () => this.element.close())));
    this.element.addEventListener("click", ({ target }) => target === this.element && this.element.close()); // on the backdrop
  }

  get isOpen() {
    return this.element.open;
  }

  toggle() {
    if (this.isOpen) return this.element.close();
    const modes = modesOf(this.app.pair);
    fill(this.known, [[modes.map(([, , key]) => key).join(" "), modes.map(([, title]) => title).join(", ")], ...KEYS, ...this.app.panels.keys].map(([pressed, what]) => [el("dt", {}, pressed), el("dd", {}, what)]));
    this.element.showModal();
  }
}
