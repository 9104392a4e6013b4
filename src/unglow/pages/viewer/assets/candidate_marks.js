// Candidates over an image: rings where they fit, dots where there are many.

import { pixelOf } from "./colours.js";
import { strokeHaloed } from "./pointer.js";

const CELL = 256;
const MOST_RINGS = 2500;
const LEAST_RADIUS = 6, RADIUS_PX = 4; // screen px, px of post
const REACH = 10;
const COLOURS = ["#ffe08a", "#57d27a", "#ff6b6b", "#cf9bff"]; // as DECISIONS
const CHOSEN = "#4de3ff";
const UNITS = COLOURS.map(pixelOf);

export class CandidateMarks {
  constructor(list) {
    this.list = list;
    this.shown = new Uint8Array(list.length);
    this.index();
    this.dots = document.createElement("canvas");
  }

  // Rows by squares of post, one after the other.
  index() {
    const { x, y } = this.list.values, count = this.list.length;
    const most = (values) => values.reduce((a, b) => Math.max(a, b), 0);
    this.cols = Math.floor(most(x) / CELL) + 1;
    this.cellRows = Math.floor(most(y) / CELL) + 1;
    const cells = Uint32Array.from({ length: count }, (_, row) => this.cell(x[row], this.cols) + this.cols * this.cell(y[row], this.cellRows));
    this.starts = new Uint32Array(this.cols * this.cellRows + 1);
    for (const cell of cells) this.starts[cell + 1]++;
    for (let cell = 0; cell < this.cols * this.cellRows; cell++) this.starts[cell + 1] += this.starts[cell];
    const next = this.starts.slice();
    this.members = new Uint32Array(count);
    cells.forEach((cell, row) => (this.members[next[cell]++] = row));
    // places in the order of members: neighbours are read together
    this.xs = Float32Array.from(this.members, (row) => x[row]);
    this.ys = Float32Array.from(this.members, (row) => y[row]);
  }

  cell(value, count) {
    return Math.min(Math.max(Math.floor(value / CELL), 0), count - 1);
  }

  // Which rows have a mark.
  show(order) {
    this.shown.fill(0);
    for (const row of order) this.shown[row] = 1;
  }

  // The runs of members in the squares that a rectangle of post touches.
  *runs({ x0, y0, x1, y1 }) {
    for (let row = this.cell(y0, this.cellRows); row <= this.cell(y1, this.cellRows); row++) {
      const left = row * this.cols + this.cell(x0, this.cols), right = row * this.cols + this.cell(x1, this.cols);
      yield [this.starts[left], this.starts[right + 1]];
    }
  }

  within(box) {
    const found = [];
    const { x, y } = this.list.values;
    for (const [from, to] of this.runs(box)) {
      for (let n = from; n < to; n++) {
        const row = this.members[n];
        if (this.shown[row] && x[row] >= box.x0 && x[row] <= box.x1 && y[row] >= box.y0 && y[row] <= box.y1) found.push(row);
      }
    }
    return found;
  }

  draw(pane, context, { width, height, chosen }) {
    const view = new View(pane, width, height);
    const box = view.box(2 * view.radius);
    let count = 0;
    for (const [from, to] of this.runs(box)) count += to - from;
    const rows = count <= 8 * MOST_RINGS ? this.within(box) : null;
    if (rows && rows.length <= MOST_RINGS) this.drawRings(context, view, rows);
    else this.drawDots(context, view, box, count);
    if (chosen >= 0) emphasise(context, this.at(view, chosen), view.radius);
  }

  at(view, row) {
    return view.at(this.list.values.x[row], this.list.values.y[row]);
  }

  drawRings(context, view, rows) {
    const { decided, counted } = this.list;
    for (let kind = 0; kind < 2 * COLOURS.length; kind++) {
      const some = rows.filter((row) => 2 * decided[row] + counted[row] === kind);
      if (!some.length) continue;
      context.beginPath();
      for (const row of some) ring(context, this.at(view, row), view.radius, kind >> 1 === 2);
      context.setLineDash(kind & 1 ? [] : [4, 4]);
      strokeHaloed(context, COLOURS[kind >> 1], 1.8);
    }
    context.setLineDash([]);
  }

  // Squares of some screen px, all painted in one go.
  drawDots(context, { width, height, origin, byX, byY }, box, count) {
    const { dots, members, shown, xs, ys } = this;
    const { decided } = this.list;
    const side = count > 60000 ? 1 : count > 15000 ? 2 : 3;
    const [left, top, xLeft, xTop, yLeft, yTop] = [...origin.map((value) => value - (side - 1) / 2 + 0.5), ...byX, ...byY];
    const pixels = new Uint32Array(width * height);
    for (const [from, to] of this.runs(box)) {
      for (let n = from; n < to; n++) {
        if (!shown[members[n]]) continue;
        const col = Math.floor(left + xLeft * xs[n] + yLeft * ys[n]), row = Math.floor(top + xTop * xs[n] + yTop * ys[n]);
        if (col < 0 || row < 0 || col + side > width || row + side > height) continue;
        const unit = UNITS[decided[members[n]]];
        for (let at = row * width + col; at < (row + side) * width; at += width) for (let k = at; k < at + side; k++) pixels[k] = unit;
      }
    }
    [dots.width, dots.height] = [width, height];
    dots.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), 0, 0);
    context.drawImage(dots, 0, 0);
  }

  // The row whose mark is at a point of a pane, or -1.
  hit(pane, left, top) {
    const view = new View(pane, pane.element.clientWidth, pane.element.clientHeight);
    const reach = Math.max(view.radius, REACH) / view.zoom;
    const [px, py] = pane.pixelAt(left, top);
    const { x, y } = this.list.values;
    const distance = (row) => Math.hypot(x[row] - px, y[row] - py);
    const near = this.within({ x0: px - reach, y0: py - reach, x1: px + reach, y1: py + reach }).filter((row) => distance(row) <= reach);
    return near.reduce((best, row) => (best < 0 || distance(row) < distance(best) ? row : best), -1);
  }
}

// Where px of post are on the screen, without a call of the viewer for each.
class View {
  constructor(pane, width, height) {
    Object.assign(this, { pane, width, height, zoom: pane.place().zoom });
    const far = 1000;
    const [origin, right, below] = [pane.screenAt(0, 0), pane.screenAt(far, 0), pane.screenAt(0, far)];
    this.origin = origin;
    this.byX = [(right[0] - origin[0]) / far, (right[1] - origin[1]) / far];
    this.byY = [(below[0] - origin[0]) / far, (below[1] - origin[1]) / far];
    this.radius = Math.max(LEAST_RADIUS, RADIUS_PX * this.zoom);
  }

  left(x, y) {
    return this.origin[0] + this.byX[0] * x + this.byY[0] * y;
  }

  top(x, y) {
    return this.origin[1] + this.byX[1] * x + this.byY[1] * y;
  }

  at(x, y) {
    return [this.left(x, y), this.top(x, y)];
  }

  // The px of post that are seen, and some screen px more.
  box(margin) {
    const corners = [[-margin, -margin], [this.width + margin, -margin], [-margin, this.height + margin], [this.width + margin, this.height + margin]].map(([left, top]) => this.pane.pixelAt(left, top));
    const [xs, ys] = [corners.map(([x]) => x), corners.map(([, y]) => y)];
    return { x0: Math.min(...xs), y0: Math.min(...ys), x1: Math.max(...xs), y1: Math.max(...ys) };
  }
}

// A rejected one is crossed out: colour is not needed to see it.
function ring(context, [x, y], radius, crossed) {
  context.moveTo(x + radius, y);
  context.arc(x, y, radius, 0, 2 * Math.PI);
  if (!crossed) return;
  const reach = 0.7 * radius;
  context.moveTo(x - reach, y + reach);
  context.lineTo(x + reach, y - reach);
}

// Four strokes that point at a place.
export function emphasise(context, [x, y], radius) {
  context.beginPath();
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    context.moveTo(x + dx * (radius + 3), y + dy * (radius + 3));
    context.lineTo(x + dx * (radius + 17), y + dy * (radius + 17));
  }
  strokeHaloed(context, CHOSEN, 3);
}
