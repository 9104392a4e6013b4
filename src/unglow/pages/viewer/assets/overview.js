// A small map of the whole image, with a frame around what is seen.

import { coloured, table } from "./colours.js";
import { el } from "./elements.js";
import { strokeHaloed } from "./pointer.js";

const LONGEST = 150, MOST_PX = 1 << 22;

export class Overview {
  constructor(app) {
    Object.assign(this, { app, drawn: "", small: null });
    this.canvas = el("canvas", { class: "overview", title: "Click or drag to move", hidden: true });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.go(event));
  }

  get pane() {
    return this.app.panes[0];
  }

  // Images that are computed where somebody looks have no small one: post is shown then.
  async fill() {
    const { app } = this, [{ layer }] = app.shown;
    const shown = layer.computed ? app.layer("post") || layer : layer;
    const [image, look] = await Promise.all([app.image(shown.name), app.looks.of(shown, 0)]);
    const level = image.levels.length - 1, [rows, cols] = image.levels[level].shape;
    const values = rows * cols > MOST_PX ? new Float32Array(rows * cols).fill(NaN) : await image.read(level, 0, 0, cols, rows);
    const colours = app.address.get("mode") === "overlay" ? table({ ...look, map: "grey" }) : look.colours;
    this.small = new OffscreenCanvas(cols, rows);
    this.small.getContext("2d").putImageData(new ImageData(coloured(values, colours, look.limits), cols, rows), 0, 0);
    const scale = LONGEST / Math.max(cols, rows);
    [this.canvas.width, this.canvas.height] = [Math.max(8, Math.round(cols * scale)), Math.max(8, Math.round(rows * scale))];
    this.draw();
  }

  draw() {
    const { app, canvas, pane, small } = this;
    canvas.hidden = !(small && pane && pane.ready && !pane.isWhole && app.address.marks.includes("map"));
    if (canvas.hidden) return;
    const { x, y, width, height } = pane.bounds(), scale = canvas.width / pane.width;
    const context = canvas.getContext("2d");
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    context.beginPath();
    context.rect(x * scale, y * scale, Math.max(width * scale, 3), Math.max(height * scale, 3));
    strokeHaloed(context, "#ffe08a", 1.5);
  }

  go({ offsetX, offsetY }) {
    const scale = this.canvas.width / this.pane.width;
    this.pane.go({ x: offsetX / scale - 0.5, y: offsetY / scale - 0.5 });
  }
}
