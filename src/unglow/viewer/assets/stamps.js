// Small pictures of a place in each stage, side by side.

import { coloured } from "./colours.js";
import { el, fill } from "./elements.js";

const MOST_PX = 41, LEAST_ZOOM = 3, GAP = 3;
const SOON_MS = 60;

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
    const made = await Promise.all(layers.map((layer) => this.stamp(layer, place, side - 1 + (side % 2), zoom)));
    if (turn === this.turn) fill(this.element, made);
  }

  async stamp(layer, { x, y }, side, zoom) {
    const canvas = el("canvas", { width: side * zoom, height: side * zoom });
    const figure = el("figure", { "data-layer": layer.name }, canvas, el("figcaption", { title: layer.title }, layer.kind === "intensity" ? layer.title : layer.kind));
    const [left, top] = [x, y].map((value) => Math.round(value) - (side - 1) / 2);
    try {
      const [image, look] = await Promise.all([this.app.image(layer.name), this.app.looks.of(layer, 0)]);
      const values = await image.read(0, left, top, side, side);
      const small = new OffscreenCanvas(side, side);
      small.getContext("2d").putImageData(new ImageData(coloured(values, look.colours, look.limits), side, side), 0, 0);
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(small, 0, 0, side * zoom, side * zoom);
      point(context, (x - left + 0.5) * zoom, (y - top + 0.5) * zoom, 3 * zoom);
    } catch (error) {
      fill(figure, el("p", { class: "problem" }, error.message), figure.lastChild);
    }
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
