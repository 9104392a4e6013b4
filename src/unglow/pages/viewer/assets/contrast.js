// Contrast: a histogram of what is seen for each kind of image, with handles for its limits.

import { limitsOf, MAP_NAMES } from "./colours.js";
import { button, el, fill, select } from "./elements.js";

const WIDTH = 288, HEIGHT = 72, BINS = 96;
// Percentiles of what is seen: the ends of the histogram, and the limits of automatic contrast.
const ENDS = [0.02, 99.98], AUTO = { low: 0.5, high: 99.8 };
const MARGIN = 0.08, KEY_STEP = 0.01;
const SOON_MS = 200;

export class Contrast {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.element = el("section", { class: "contrast", "aria-label": "Contrast", hidden: true });
  }

  get isOpen() {
    return !this.element.hidden;
  }

  toggle() {
    this.element.hidden = this.isOpen;
    this.app.toolbar.update();
  }

  // A histogram for each contrast: of a kind, or of one image.
  update() {
    const { app } = this;
    if (!this.isOpen) return;
    const shown = app.shown || [], keys = [...new Set(shown.map(({ layer }) => app.looks.keyOf(layer)))];
    if (keys.join() !== [...this.rows.keys()].join()) {
      this.rows = new Map(keys.map((key) => [key, new Row(app)]));
      fill(this.element, [...this.rows.values()].map(({ element }) => element));
    }
    for (const [key, row] of this.rows) row.show(shown.filter(({ layer }) => app.looks.keyOf(layer) === key));
    this.countSoon();
  }

  // The view has moved, or shows something else.
  countSoon() {
    if (!this.isOpen) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.count(), SOON_MS);
  }

  async count() {
    const rows = [...this.rows.values()];
    await Promise.all(rows.map((row) => row.count()));
  }
}

class Row {
  constructor(app) {
    Object.assign(this, { app, shown: [], samples: [], range: null, isDragged: false });
    this.title = el("h2");
    this.canvas = el("canvas", { width: WIDTH, height: HEIGHT });
    this.handles = [0, 1].map((n) => el("span", { class: "handle", role: "slider", tabindex: 0, "aria-label": (n ? "Upper" : "Lower") + " limit", onkeydown: (event) => this.pressed(n, event) }, el("i")));
    this.histogram = el("div", { class: "histogram", title: "Drag the handles" }, this.canvas, this.handles);
    this.histogram.addEventListener("pointerdown", (event) => this.grab(event));
    this.limits = [0, 1].map((n) => el("input", { type: "number", step: "any", class: "limit", "aria-label": (n ? "Upper" : "Lower") + " limit", onchange: ({ target }) => this.type(n, target) }));
    this.choices = el("div", { class: "row" });
    this.element = el("div", { class: "contrast-row" }, this.title, this.histogram,
      el("div", { class: "row" }, el("label", {}, "from ", this.limits[0]), el("label", {}, "to ", this.limits[1]),
        button("Auto", "Limits from what is seen now", () => this.fit()), button("Reset", "Limits and colours as at the start", () => this.app.looks.reset(this.layer))), this.choices);
  }

  get layer() {
    return this.shown[0].layer;
  }

  get look() {
    return this.shown[0].look;
  }

  change(changes) {
    this.app.looks.change(this.layer, changes);
  }

  show(shown) {
    this.shown = shown;
    const { layer, look } = this, settings = this.app.looks.settings(layer);
    const words = shown.length > 1 ? [" (bars)", " (line)"] : [""];
    fill(this.title, shown.map((one, n) => one.layer.title + words[n]).join(", "), layer.unit ? el("span", { class: "soft" }, " [" + layer.unit + "]") : null);
    this.limits.forEach((field, n) => field !== document.activeElement && (field.value = +look.limits[n].toPrecision(5)));
    fill(this.choices,
      el("label", {}, "Scale ", select("Scale", [["linear", "linear"], ["asinh", "faint parts (asinh)"]], settings.stretch, (stretch) => this.change({ stretch }))),
      el("label", {}, "Colours ", select("Colours", [...MAP_NAMES, ...new Set([layer.colour, settings.map].filter((name) => name && name.startsWith("#")))].map((name) => [name, name === layer.colour ? "own colour" : name]), settings.map, (map) => this.change({ map }))),
      checkbox("invert", Boolean(settings.invert), (invert) => this.change({ invert })),
      this.sharing());
    this.draw();
  }

  // Whether all images of a kind have one contrast, so that their brightness can be compared.
  sharing() {
    const { app, layer } = this;
    const kin = app.pair.layers.filter(({ kind }) => kind === layer.kind);
    if (kin.length < 2 || layer.kind === "channel") return null;
    const names = layer.kind === "difference" ? "all differences" : kin.map(({ title }) => title).join(", ");
    return checkbox("same for " + names, !app.looks.hasOwn(layer), (isShared) => app.looks.separate(this.shown.map((one) => one.layer), !isShared));
  }

  async count() {
    const { app } = this;
    const samples = await Promise.all(this.shown.map((one) => app.paneOf(one).sampleOf(one.image).catch(() => null)));
    this.samples = samples.filter((sample) => sample && sample.length);
    this.isCounted = true;
    this.draw();
  }

  // What the histogram spans: nearly all values that are seen, and both limits.
  span() {
    const { look: { limits, symmetric }, samples } = this;
    const ends = samples.flatMap((sample) => limitsOf(sample, { low: ENDS[0], high: ENDS[1] }));
    const [low, high] = [Math.min(...limits, ...ends), Math.max(...limits, ...ends)];
    if (symmetric) return [-1, 1].map((sign) => sign * (1 + MARGIN) * Math.max(-low, high));
    return [low - MARGIN * (high - low), high + MARGIN * (high - low)];
  }

  draw() {
    if (!this.isDragged || !this.range) this.range = this.span();
    const { canvas, range: [from, to], look } = this;
    const context = canvas.getContext("2d"), ink = getComputedStyle(canvas);
    context.clearRect(0, 0, WIDTH, HEIGHT);
    this.samples.forEach((sample, n) => {
      const counts = new Float64Array(BINS);
      for (const value of sample) if (value >= from && value < to) counts[Math.floor(((value - from) / (to - from)) * BINS)]++;
      const most = Math.log1p(Math.max(...counts));
      context.fillStyle = context.strokeStyle = n ? ink.getPropertyValue("--io") : ink.getPropertyValue("--overhead");
      context.beginPath();
      counts.forEach((count, bin) => {
        const height = most ? (Math.log1p(count) / most) * (HEIGHT - 4) : 0;
        if (n) context.lineTo((bin + 0.5) * (WIDTH / BINS), HEIGHT - height);
        else context.fillRect(bin * (WIDTH / BINS), HEIGHT - height, WIDTH / BINS - 0.5, height);
      });
      if (n) context.stroke();
    });
    this.handles.forEach((handle, n) => {
      handle.style.left = 100 * ((look.limits[n] - from) / (to - from)) + "%";
      handle.setAttribute("aria-valuenow", +look.limits[n].toPrecision(5));
      handle.setAttribute("aria-valuemin", +from.toPrecision(5));
      handle.setAttribute("aria-valuemax", +to.toPrecision(5));
    });
  }

  // Zero stays in the middle of colours that say on which side of it a value is.
  move(n, value) {
    const limits = [...this.look.limits], { symmetric } = this.app.looks.settings(this.layer);
    const [from, to] = this.range, least = (to - from) / 1000;
    if (symmetric) {
      const most = Math.max(Math.abs(value), least);
      return this.change({ limits: [-most, most] });
    }
    limits[n] = n ? Math.max(value, limits[0] + least) : Math.min(value, limits[1] - least);
    this.change({ limits });
  }

  grab(event) {
    const box = this.histogram.getBoundingClientRect(), [from, to] = this.range;
    const valueAt = ({ clientX }) => from + Math.min(Math.max((clientX - box.x) / box.width, 0), 1) * (to - from);
    const at = valueAt(event), n = Math.abs(at - this.look.limits[1]) < Math.abs(at - this.look.limits[0]) ? 1 : 0;
    const drag = (moved) => this.move(n, valueAt(moved));
    this.isDragged = true;
    this.histogram.setPointerCapture(event.pointerId);
    this.histogram.addEventListener("pointermove", drag);
    this.histogram.addEventListener("lostpointercapture", () => {
      this.isDragged = false;
      this.histogram.removeEventListener("pointermove", drag);
      this.draw();
    }, { once: true });
    this.handles[n].focus();
    event.preventDefault();
    drag(event);
  }

  pressed(n, event) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!by) return;
    const [from, to] = this.range;
    this.move(n, this.look.limits[n] + by * KEY_STEP * (to - from));
    event.preventDefault();
    event.stopPropagation(); // the view stays where it is
  }

  type(n, field) {
    const limits = [...this.look.limits];
    limits[n] = Number(field.value);
    field.blur();
    if (field.value !== "" && limits[0] < limits[1]) this.change({ limits });
    else field.value = +this.look.limits[n].toPrecision(5);
  }

  async fit() {
    await this.count();
    const all = this.samples.flatMap((sample) => [...sample]);
    const { symmetric } = this.app.looks.settings(this.layer);
    if (all.length) this.change({ limits: limitsOf(Float32Array.from(all).sort(), { ...AUTO, symmetric }) });
  }
}

function checkbox(text, checked, change) {
  return el("label", {}, el("input", { type: "checkbox", checked, onchange: ({ target }) => change(target.checked) }), text);
}
