// Small pictures of a place in each stage, side by side.

import { coloured, limitsOf, sortedSample, table } from "./colours.js";
import { el, fill } from "./elements.js";

const MOST_PX = 41, LEAST_ZOOM = 3, GAP = 3;
const SOON_MS = 60;
// Percentiles that grey stamps are drawn between.
const GREY = { low: 0.5, high: 99.5 };

export class Stamps {
  constructor(app) {
    this.app = app;
    this.element = el("div", { class: "stamps" });
    new ResizeObserver(() => this.soon()).observe(this.element);
  }

  get layers() {
    const { layers } = this.app.pair;
    const difference = layers.find(({ kind, default: isDefault }) => kind === "difference" && isDefault) || layers.find(({ kind }) => kind === "difference");
    const named = (name) => layers.find((layer) => layer.name === name);
    return [named("post"), named("aligned_pre"), difference, layers.find(({ kind }) => kind === "snr")].filter(Boolean);
  }

  // Show a place of post, {x, y}; null for none.
  show(place) {
    this.place = place;
    this.soon();
  }

  // A key held down passes many places.
  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), SOON_MS);
  }

  async draw() {
    const { place } = this;
    const turn = (this.turn = {});
    const layers = place ? this.layers : [];
    const space = Math.floor((this.element.clientWidth - GAP * (layers.length - 1)) / layers.length);
    if (!layers.length || space <= 0) {
      fill(this.element);
      return;
    }
    const zoom = Math.max(LEAST_ZOOM, Math.ceil(space / MOST_PX));
    const side = Math.min(MOST_PX, Math.floor(space / zoom));
    const odd = side - 1 + (side % 2);
    const read = await Promise.all(layers.map((layer) => this.read(layer, place, odd)));
    const grey = limitsOf(sortedSample(Float32Array.from(read.flatMap(({ values }, n) => (values && layers[n].kind === "intensity" ? [...values] : [])))), GREY);
    if (turn === this.turn) fill(this.element, layers.map((layer, n) => this.stamp(layer, read[n], grey, place, odd, zoom)));
  }

  // Values around a place, and the look of their layer; or an error.
  async read(layer, { x, y }, side) {
    const [left, top] = [x, y].map((value) => Math.round(value) - (side - 1) / 2);
    try {
      const [image, look] = await Promise.all([this.app.image(layer.name), this.app.looks.of(layer, 0)]);
      return { look, values: await image.read(0, left, top, side, side) };
    } catch (error) {
      return { error };
    }
  }

  // Dark places are seen too: grey images share limits of these places, unless somebody has set others.
  stamp(layer, { look, values, error }, grey, { x, y }, side, zoom) {
    const canvas = el("canvas", { width: side * zoom, height: side * zoom });
    const figure = el("figure", { "data-layer": layer.name }, canvas, el("figcaption", { title: layer.title }, { intensity: layer.title, snr: "S/N" }[layer.kind] || layer.kind));
    const [left, top] = [x, y].map((value) => Math.round(value) - (side - 1) / 2);
    if (error) {
      fill(figure, el("p", { class: "problem" }, error.message), figure.lastChild);
      return figure;
    }
    const isOwn = layer.kind === "intensity" && !this.app.looks.settings(layer).limits;
    const { limits, colours } = isOwn ? { limits: grey, colours: table({ ...look, limits: grey }) } : look;
    const small = new OffscreenCanvas(side, side);
    small.getContext("2d").putImageData(new ImageData(coloured(values, colours, limits), side, side), 0, 0);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, side * zoom, side * zoom);
    point(context, (x - left + 0.5) * zoom, (y - top + 0.5) * zoom, 3 * zoom);
    return figure;
  }
}

// Two strokes that leave the place itself free.
function point(context, x, y, from) {
  context.strokeStyle = "#ffffff";
  context.globalCompositeOperation = "difference"; // seen on any colour
  context.lineWidth = 1;
  context.beginPath();
  for (const [dx, dy] of [[-1, 0], [0, -1]]) {
    context.moveTo(x + dx * from, y + dy * from);
    context.lineTo(x + 2.6 * dx * from, y + 2.6 * dy * from);
  }
  context.stroke();
}
