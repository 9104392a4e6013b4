// The controls above the images, in two rows: what is looked at and how; below, the images and their look.

import { drawBar } from "./colours.js";
import { add, badge, button, el, fill, keepFocus, select } from "./elements.js";
import { act } from "./keys.js";
import { modesOf } from "./modes.js";
import { saveCrop, saveLink, savePicture } from "./picture.js";
import { number } from "./status.js";

const MOST_BARS = 2;
const BLURS = [0, 0.5, 1, 1.5, 2, 3, 5, 8];
const MARKS = [["candidates", "candidates"], ["blocks", "residual blocks"], ["arrows", "displacement"], ["regions", "regions"], ["spoilt", "spoilt places"], ["map", "overview map"]];
const OF_SLIDES = ["blocks", "arrows", "spoilt", "map"];

export class Toolbar {
  constructor(app) {
    this.app = app;
    this.pairs = group("Pair");
    this.modes = group("View", { role: "group", "aria-label": "how images are shown" });
    this.layers = group("Image");
    this.look = group("");
    this.look.classList.add("look");
    this.blur = el("span", { class: "group" });
    this.marks = el("div", { class: "choices" });
    this.overlays = menu("Overlays", "What is drawn over the images", this.marks);
    this.picture = button("Save picture", "Save the view as PNG, with scale bar, colour bar and caption (s)", () => savePicture(app));
    this.crop = button("Save crop", "Save the visible px of image A as OME-TIFF", () => saveCrop(app));
    this.saving = menu("Save", "Save a picture, a part of an image, or a link", el("div", { class: "choices" }, this.picture, this.crop, button("Copy link", "Copy the address of this view", () => saveLink(app))));
    this.zooms = group("Zoom", { role: "group", "aria-label": "zoom" });
    const zoom = (text, title, key) => button(text, title + " (" + key + ")", () => act(app, { key }));
    add(this.zooms, zoom("−", "Zoom out", "-"), zoom("+", "Zoom in", "+"), zoom("whole", "Show the whole image", "0"), zoom("1 : 1", "One px of the image per px of the screen", "f"));
    this.report = el("a", { class: "back", href: "../", title: "All pairs, with their figures and numbers", hidden: true }, "← Report");
    const keys = button("?", "Show all keys (?)", () => app.keys.toggle(), { "aria-label": "Keys" });
    this.element = el("header", { class: "toolbar" }, el("h1", { class: "unseen" }, "unglow view"),
      el("div", { class: "tools-row" }, this.report, this.pairs, this.modes, el("span", { class: "space" }), this.saving, keys),
      el("div", { class: "tools-row" }, this.layers, this.look, this.blur, this.overlays, el("span", { class: "space" }), this.zooms));
  }

  fill() {
    const { app } = this;
    const options = app.pairs.map((pair) => [pair.id, pair.title + (pair.status === "ok" ? "" : " – " + pair.status)]);
    put(this.pairs, select("Pair", options, app.pair.id, (id) => app.choose(id)), app.pair.status ? badge(app.pair.status, null, app.pair.reasons.join(" ")) : null,
      app.pair.outdated ? badge("outdated", null, app.pair.outdated) : null);
    this.report.hidden = !app.pair.live;
    fill(this.marks, MARKS.filter(([key]) => !app.pair.is_slide || OF_SLIDES.includes(key)).map(([key, title]) => el("label", {}, el("input", { type: "checkbox", name: key, onchange: ({ target }) => app.address.mark(key, target.checked) }), title)));
    this.update();
  }

  update() {
    if (this.app.pair) keepFocus(() => this.draw());
  }

  draw() {
    const { app } = this, { address } = app;
    const mode = address.get("mode");
    const modes = modesOf(app.pair);
    put(this.modes, modes.map(([key, title, pressed]) => button(title, title + " (" + pressed + ")", () => address.set({ mode: key }), { class: "wide", "aria-pressed": String(mode === key) })),
      narrow(select("How images are shown", modes.map(([key, title]) => [key, title]), mode, (key) => address.set({ mode: key }))),
      mode === "blink" ? el("label", { title: "times a second" }, el("input", { type: "range", min: 1, max: 5, step: 0.5, value: address.get("hz"), "aria-label": "blinks a second", oninput: (event) => address.set({ hz: Number(event.target.value) }) }), address.get("hz") + " Hz") : null,
      mode === "swipe" ? el("input", { type: "range", min: 0, max: 1, step: 0.005, value: address.get("at"), "aria-label": "where the images meet", oninput: (event) => address.set({ at: Number(event.target.value) }) }) : null);
    const options = app.pair.layers.map(({ name, title, computed }) => [name, title + (computed ? " *" : "")]);
    const isOne = mode === "single", isComposite = mode === "composite";
    this.layers.hidden = this.blur.hidden = !options.length;
    put(this.layers, this.presets(),
      isComposite ? button("Channels", "Choose channels and their colours", () => address.set({ panel: "channels" })) : el("label", { title: "First image" }, isOne ? null : "A ", select("First image", options, address.get("a"), (a) => address.set({ a }))),
      isOne || isComposite ? null : button("⇄", "Exchange A and B (x)", () => address.set({ a: address.get("b"), b: address.get("a") })),
      isOne || isComposite ? null : el("label", { title: "Second image" }, "B ", select("Second image", options, address.get("b"), (b) => address.set({ b }))));
    for (const box of this.marks.querySelectorAll("input")) box.checked = address.marks.includes(box.name);
    fill(this.blur, select("Gaussian blur, standard deviation in px", blurs(app), String(address.get("blur")), (blur) => address.set({ blur: Number(blur) })));
    this.picture.disabled = !app.shown;
    this.crop.disabled = !app.shown || !app.pair.live;
    this.showContrast();
  }

  // Images of a slide that belong together, or null.
  presets() {
    const { app } = this, presets = app.pair.presets || [];
    const at = presets.findIndex((one) => Object.keys(one).every((key) => ["title", "colours"].includes(key) || one[key] === app.address.get(key)));
    return presets.length ? select("Preset", [["", "show …"], ...presets.map(({ title }, n) => [String(n), title])], at < 0 ? "" : String(at), (n) => n && app.preset(presets[n])) : null;
  }

  // The colours and limits of what is seen, on the button that opens the histograms.
  showContrast() {
    const { app } = this;
    app.contrast.update();
    if (!app.shown) return fill(this.look);
    const rows = new Map(app.shown.map((shown) => [app.looks.keyOf(shown.layer) + shown.look.map, shown.look]));
    const bars = rows.size > MOST_BARS ? [] : [...rows.values()].map((look) => {
      const bar = el("canvas", { class: "bar", width: 70, height: 12 });
      drawBar(bar.getContext("2d"), look, 0, 0, bar.width, bar.height);
      return [el("span", { class: "limits" }, number(+look.limits[0].toPrecision(3))), bar, el("span", { class: "limits" }, number(+look.limits[1].toPrecision(3)))];
    });
    fill(this.look, button(["Contrast", bars], "Histogram and limits of what is shown (h)", () => app.contrast.toggle(), { class: "opener", "aria-expanded": String(app.contrast.isOpen) }));
  }
}

function group(label, attributes) {
  return el("span", { class: "group", ...attributes }, label ? el("span", { class: "label" }, label) : null);
}

// Fill a group behind its label.
function put(made, ...children) {
  const [label] = made.children;
  fill(made, label, children);
}

function narrow(made) {
  made.classList.add("narrow");
  return made;
}

// A button that opens a list below it.
function menu(text, title, content) {
  const list = el("div", { class: "menu", popover: "auto" }, content);
  const opener = button(text + " ▾", title);
  opener.popoverTargetElement = list;
  list.addEventListener("beforetoggle", () => {
    const box = opener.getBoundingClientRect();
    Object.assign(list.style, { top: box.bottom + 2 + "px", left: Math.min(box.left, innerWidth - 190) + "px" });
  });
  return el("span", { class: "group" }, opener, list);
}

function blurs(app) {
  const now = app.address.get("blur");
  return [...new Set([...BLURS, now])].sort((a, b) => a - b).map((blur) => [String(blur), blur ? "blur " + blur + " px" : "no blur"]);
}
