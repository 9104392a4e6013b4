// Values and size of the px under the cursor.

import { el, fill } from "./elements.js";

const BAR_PX = 140;
const ROUND = [1, 2, 5];

export class Status {
  constructor(app) {
    this.app = app;
    this.where = el("span", { class: "where" });
    this.values = el("span", { class: "values" });
    this.zoom = el("span", { class: "zoom" });
    this.bar = el("span", { class: "scale" }, el("i"), el("span"));
    this.element = el("footer", { class: "status" }, this.where, this.values, this.zoom, this.bar);
  }

  attend(pane) {
    pane.element.addEventListener("pointermove", (event) => this.look(pane, event));
    pane.element.addEventListener("pointerleave", () => fill(this.values));
    pane.viewer.addHandler("update-viewport", () => this.scale());
  }

  look(pane, event) {
    const box = pane.element.getBoundingClientRect();
    if (!pane.ready) return;
    this.cursor = { pane, at: [event.clientX - box.left, event.clientY - box.top] };
    this.show();
  }

  show() {
    const { pane, at } = this.cursor;
    const [x, y] = pane.pixelAt(...at);
    const size = this.app.pair.pixel_size_um;
    const inUm = size ? "  (" + (x * size[0]).toFixed(1) + ", " + (y * size[1]).toFixed(1) + " µm)" : "";
    fill(this.where, "x " + x.toFixed(1) + "  y " + y.toFixed(1) + " px" + inUm);
    fill(this.values, this.app.shown.map((layer, n) => this.value(layer, pane, this.app.sides ? this.app.panes[n] : pane, x, y)));
  }

  // The px that is shown: of the level that the zoom needs, if it is there already.
  value({ layer, image }, pane, other, x, y) {
    if (!other.ready) return null;
    let place = { x, y };
    if (other !== pane) {
      place = this.app.fromPost(layer, this.app.toPost(this.app.layerAt(pane), place));
    }
    const finest = Math.min(Math.max(0, Math.floor(Math.log2(1 / other.place().zoom) + 0.5)), image.levels.length - 1);
    for (let level = finest; level < image.levels.length; level++) {
      const value = image.now(level, Math.floor((place.x + 0.5) / 2 ** level), Math.floor((place.y + 0.5) / 2 ** level));
      if (value === null) continue;
      const mean = level ? " (mean of " + 2 ** level + " × " + 2 ** level + ")" : "";
      return el("span", { class: "value" }, layer.title + ": ", el("b", {}, number(value)), mean);
    }
    return null;
  }

  scale() {
    const [pane] = this.app.panes;
    const place = pane && pane.place();
    if (!place) return;
    const { length, text } = barOf(place.zoom, this.app.pair.pixel_size_um);
    this.bar.firstChild.style.width = length + "px";
    fill(this.bar.lastChild, text);
    fill(this.zoom, place.zoom >= 1 ? +place.zoom.toFixed(2) + " : 1" : "1 : " + +(1 / place.zoom).toFixed(1));
  }
}

export function number(value) {
  if (Number.isNaN(value)) return "no data";
  return Number.isInteger(value) ? String(value) : Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(3) : String(+value.toPrecision(5));
}

export function percent(share) {
  return typeof share === "number" ? number(+(100 * share).toPrecision(2)) + " %" : "";
}

// " (low to high)", or nothing where there is no interval.
export function interval(ends, digits) {
  return ends && ends.every((end) => typeof end === "number") ? " (" + ends.map((end) => +end.toPrecision(digits)).join(" to ") + ")" : "";
}

// An area of px, and what that is where px have a size.
export function areaText(px, size, digits) {
  const um2 = size && px * size[0] * size[1];
  const shown = um2 >= 1e5 ? number(+(um2 / 1e6).toPrecision(digits)) + " mm²" : size && number(+um2.toPrecision(digits)) + " µm²";
  return number(Math.round(px)) + " px" + (size ? ", " + shown : "");
}

// A round length of at most BAR_PX screen px, in µm where px have a size.
export function barOf(zoom, size) {
  const perPx = size ? size[0] : 1;
  const longest = (BAR_PX / zoom) * perPx;
  const power = 10 ** Math.floor(Math.log10(longest));
  const value = power * Math.max(...ROUND.filter((factor) => factor * power <= longest));
  const unit = !size ? "px" : value >= 1000 ? "mm" : value < 1 ? "nm" : "µm";
  const shown = unit === "mm" ? value / 1000 : unit === "nm" ? value * 1000 : value;
  return { length: (value / perPx) * zoom, text: +shown.toPrecision(3) + " " + unit };
}
