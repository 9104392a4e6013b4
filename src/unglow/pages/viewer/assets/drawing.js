// An outline that is being drawn: a rectangle by a drag or two corners, a polygon corner by corner.

import { drawCross } from "./pointer.js";
import { crosses, rectangleOf } from "./outlines.js";

// Two clicks closer than this are one corner, screen px.
const SAME = 3;

export class Drawing {
  // `done(corners)` hears of an outline, `changed()` of everything else.
  constructor(done, changed) {
    Object.assign(this, { done, changed, tool: "", corners: [], cursor: null, problem: "" });
  }

  start(tool) {
    Object.assign(this, { tool, corners: [], cursor: null, problem: "" });
    this.changed();
  }

  stop() {
    this.start("");
  }

  get state() {
    if (this.problem) return this.problem;
    const more = this.tool === "rectangle" ? "Drag from corner to corner, or click two corners." : "Click the corners. A double click or Enter closes, Backspace takes the last corner back.";
    return more + " Escape gives up. By keys: move the image and press c for a corner at the cross.";
  }

  // A rectangle that is dragged.
  grab(place) {
    if (this.tool !== "rectangle") return null;
    const { corners } = this;
    return {
      move: (to) => {
        this.corners = [place];
        this.hover(to);
      },
      end: (isMoved) => {
        this.corners = corners;
        if (isMoved) this.finish(rectangleOf(place, this.cursor));
        else this.corner(place, Infinity);
      },
    };
  }

  hover(place) {
    this.cursor = place;
    this.changed(true);
  }

  corner(place, zoom) {
    const last = this.corners[this.corners.length - 1];
    if (last && Math.hypot(place[0] - last[0], place[1] - last[1]) * zoom < SAME) return;
    this.problem = "";
    this.corners.push(place);
    if (this.tool === "rectangle" && this.corners.length === 2) this.finish(rectangleOf(...this.corners));
    else this.changed();
  }

  back() {
    this.corners.pop();
    this.problem = "";
    this.changed();
  }

  close() {
    if (this.tool === "polygon") this.finish(this.corners);
  }

  finish(corners) {
    this.problem = problemOf(corners);
    if (this.problem) {
      if (this.tool === "rectangle") this.corners = [];
      this.changed();
      return;
    }
    this.stop();
    this.done(corners);
  }

  draw(pane, context, width, height) {
    drawCross(context, [width / 2, height / 2]);
    if (!this.corners.length) return;
    const corners = this.tool === "rectangle" && this.cursor ? rectangleOf(this.corners[0], this.cursor) : [...this.corners, ...(this.cursor ? [this.cursor] : [])];
    const places = corners.map(([x, y]) => pane.screenAt(x, y));
    context.setLineDash([6, 4]);
    context.lineWidth = 2;
    context.strokeStyle = "#ffe08a";
    context.beginPath();
    places.forEach(([x, y], n) => (n ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (this.tool === "rectangle") context.closePath();
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = "#ffe08a";
    for (const corner of this.corners) {
      const [x, y] = pane.screenAt(...corner);
      context.fillRect(x - 3, y - 3, 6, 6);
    }
  }
}

function problemOf(corners) {
  const [xs, ys] = [0, 1].map((n) => corners.map((corner) => corner[n]));
  if (corners.length < 3) return "A polygon has three corners or more: click them.";
  if (Math.max(...xs) - Math.min(...xs) < 1 || Math.max(...ys) - Math.min(...ys) < 1) return "That is smaller than a px: draw it again.";
  return crosses(corners) ? "Sides of this polygon cross each other: take corners back with Backspace." : "";
}
