// The controls above the images.

import { colourOf, MAP_NAMES, share } from "./colours.js";
import { button, el, fill, select } from "./elements.js";
import { MODES } from "./modes.js";
import { saveCrop, saveLink, savePicture } from "./picture.js";
import { number } from "./status.js";

const BLURS = [0, 0.5, 1, 1.5, 2, 3, 5, 8];
const MARKS = [["candidates", "candidates"], ["blocks", "residual blocks"], ["arrows", "displacement"], ["regions", "regions"], ["spoilt", "spoilt places"]];

export class Toolbar {
  constructor(app) {
    this.app = app;
    this.pairs = el("span", { class: "group" });
    this.modes = el("span", { class: "group", role: "group", "aria-label": "how images are shown" });
    this.layers = el("span", { class: "group" });
    this.look = el("span", { class: "group look" });
    this.marks = el("span", { class: "group", role: "group", "aria-label": "overlays" });
    this.picture = button("Save picture", "Save the view as PNG, with scale bar, colour bar and caption (s)", () => savePicture(app));
    this.crop = button("Save crop", "Save the px of image A that are seen as OME-TIFF", () => saveCrop(app));
    this.keep = el("span", { class: "group" }, this.picture, this.crop, button("Copy link", "Copy the address of this very view", () => saveLink(app)));
    this.element = el("header", { class: "toolbar" }, this.pairs, this.modes, this.layers, this.look, this.marks, this.keep);
  }

  fill() {
    const { app } = this;
    const options = app.pairs.map((pair) => [pair.id, pair.title + (pair.status === "ok" ? "" : " – " + pair.status)]);
    const state = { ok: "good", suspect: "suspect", failed: "bad", skipped: "bad" }[app.pair.status] || "";
    fill(this.pairs, select("Pair", options, app.pair.id, (id) => app.open(id).catch((error) => app.say(error.message))), el("span", { class: "badge " + state, title: app.pair.reasons.join(" ") }, app.pair.status));
    this.update();
  }

  update() {
    const { app } = this;
    if (!app.pair) return;
    const { address } = app;
    const mode = address.get("mode");
    fill(this.modes, MODES.map(([key, title, pressed]) => button(title, title + " (" + pressed + ")", () => address.set({ mode: key }), { "aria-pressed": String(mode === key) })),
      mode === "blink" ? el("label", { title: "times a second" }, el("input", { type: "range", min: 1, max: 5, step: 0.5, value: address.get("hz"), "aria-label": "blinks a second", oninput: (event) => address.set({ hz: Number(event.target.value) }) }), address.get("hz") + " Hz") : null,
      mode === "swipe" ? el("input", { type: "range", min: 0, max: 1, step: 0.005, value: address.get("at"), "aria-label": "where the images meet", oninput: (event) => address.set({ at: Number(event.target.value) }) }) : null);
    const options = app.pair.layers.map(({ name, title, computed }) => [name, title + (computed ? " *" : "")]);
    fill(this.layers, el("label", {}, "A ", select("First image", options, address.get("a"), (a) => address.set({ a }))),
      mode === "single" ? null : el("label", {}, "B ", select("Second image", options, address.get("b"), (b) => address.set({ b }))),
      mode === "single" ? null : button("⇄", "Exchange A and B (x)", () => address.set({ a: address.get("b"), b: address.get("a") })));
    const presets = app.pair.presets || [], at = presets.findIndex((one) => ["mode", "a", "b"].every((key) => one[key] === address.get(key)));
    if (presets.length) this.layers.prepend(select("Preset", [["", "show …"], ...presets.map(({ title }, n) => [String(n), title])], at < 0 ? "" : String(at), (n) => n && app.preset(presets[n])));
    const marks = address.get("marks").split(",").filter(Boolean);
    fill(this.marks, MARKS.filter(([key]) => !app.pair.is_slide || key === "spoilt").map(([key, title]) => button(title, "Show or hide " + title, () => this.mark(key), { "aria-pressed": String(marks.includes(key)) })));
    this.picture.disabled = !app.shown;
    this.crop.disabled = !app.shown || !app.pair.live;
    this.contrast();
  }

  mark(key) {
    const { address } = this.app;
    const marks = address.get("marks").split(",").filter(Boolean);
    address.set({ marks: (marks.includes(key) ? marks.filter((other) => other !== key) : [...marks, key]).join(",") });
  }

  // Contrast: a row for each kind of layer, or for a layer with its own contrast.
  contrast() {
    const { app } = this;
    // a field that is being edited stays as it is
    if (!app.shown) return fill(this.look);
    if (this.look.contains(document.activeElement) && ["number", "range"].includes(document.activeElement.type)) return this.bars();
    const rows = new Map(app.shown.map((shown) => [app.looks.keyOf(shown.layer), shown]));
    fill(this.look, [...rows.values()].map((shown) => this.row(shown)), select("Gaussian blur, standard deviation in px (0 for none)", blurs(app), String(app.address.get("blur")), (blur) => app.address.set({ blur: Number(blur) })));
    this.bars();
  }

  row({ layer, look }) {
    const { looks } = this.app;
    const settings = looks.settings(layer);
    const change = (changes) => looks.change(layer, changes);
    const limit = (n) => el("input", { type: "number", step: "any", value: +look.limits[n].toPrecision(5), class: "limit", "aria-label": (n ? "upper" : "lower") + " limit of " + layer.kind, title: (n ? "Upper" : "Lower") + " limit", onchange: (event) => change({ limits: limits(look.limits, n, Number(event.target.value)) }) });
    const percent = (key, title) => el("input", { type: "number", min: 0, max: 100, step: 0.1, value: settings[key], class: "percent", "aria-label": title, title, onchange: (event) => change({ [key]: Number(event.target.value), limits: null }) });
    return el("span", { class: "row", "data-kind": looks.keyOf(layer) }, el("span", { class: "kind", title: layer.unit || "" }, settings.own ? layer.title : layer.kind), percent("low", "Lower percentile"), percent("high", "Upper percentile"),
      limit(0), el("canvas", { class: "bar", width: 90, height: 12, title: number(look.limits[0]) + " to " + number(look.limits[1]) }), limit(1),
      select("Stretch", [["linear", "linear"], ["asinh", "asinh"]], settings.stretch, (stretch) => change({ stretch })),
      select("Colour map", [...MAP_NAMES, ...(layer.colour ? [layer.colour] : [])].map((name) => [name, name === layer.colour ? "own colour" : name]), settings.map, (map) => change({ map })),
      button("◐", "Invert", () => change({ invert: !settings.invert }), { "aria-pressed": String(Boolean(settings.invert)) }),
      button("own", "A contrast of its own for " + layer.title, () => looks.separate(layer, !settings.own), { "aria-pressed": String(Boolean(settings.own)) }),
      button("↺", "Contrast as it was", () => looks.reset(layer)));
  }

  bars() {
    for (const { layer, look } of this.app.shown || []) {
      const row = this.look.querySelector('[data-kind="' + CSS.escape(this.app.looks.keyOf(layer)) + '"] canvas');
      if (row) drawBar(row.getContext("2d"), look, 0, 0, row.width, row.height);
    }
  }
}

function blurs(app) {
  const now = app.address.get("blur");
  return [...new Set([...BLURS, now])].sort((a, b) => a - b).map((blur) => [String(blur), blur ? "blur " + blur + " px" : "no blur"]);
}

function limits(before, n, value) {
  const next = [...before];
  next[n] = value;
  return next;
}

export function drawBar(context, look, x, y, width, height) {
  const { limits: [low, high] } = look;
  for (let n = 0; n < width; n++) {
    const part = share(low + ((high - low) * n) / (width - 1), look.limits, look.stretch, look.symmetric);
    context.fillStyle = "rgb(" + colourOf(look.map, look.invert ? 1 - part : part).join(",") + ")";
    context.fillRect(x + n, y, 1, height);
  }
}
