// Regions over an image: excluded and spoilt ones are hatched, analysed ones outlined.

import { boxOf, cornerOf, pathOf } from "./outlines.js";
import { drawLabel, strokeHaloed } from "./pointer.js";

const COLOURS = { exclude: "#ff5d55", analyse: "#46d369", spoilt: "#ff9f43", "": "#b8c2cc" };
const HATCHED = ["exclude", "spoilt"];
const HATCH = 9;
const hatches = new Map();

// `toScreen(x, y)` gives the place of px of post in the pane.
export function drawRegions(context, regions, toScreen, chosen, [width, height]) {
  for (const region of regions) {
    region.path ||= pathOf(region);
    region.box ||= boxOf(region);
    if (!isSeen(region.box, toScreen, width, height)) continue;
    const path = new Path2D();
    path.addPath(region.path, onScreen(region.box, toScreen));
    if (HATCHED.includes(region.kind)) {
      context.fillStyle = hatch(context, COLOURS[region.kind]);
      context.fill(path, "evenodd");
    }
    strokeHaloed(context, COLOURS[region.kind], region === chosen ? 3 : 1.7, path);
    drawName(context, region, toScreen);
  }
  if (chosen && chosen.isEditable && regions.includes(chosen)) drawCorners(context, chosen, toScreen);
}

function isSeen({ x0, y0, x1, y1 }, toScreen, width, height) {
  const places = [[x0, y0], [x1, y0], [x0, y1], [x1, y1]].map(([x, y]) => toScreen(x, y));
  const [xs, ys] = [0, 1].map((n) => places.map((place) => place[n]));
  return Math.max(...xs) > 0 && Math.max(...ys) > 0 && Math.min(...xs) < width && Math.min(...ys) < height;
}

// What takes px of post to the screen near a box, as the canvas wants it.
function onScreen({ x0, y0, x1, y1 }, toScreen) {
  const [wide, high] = [Math.max(x1 - x0, 1), Math.max(y1 - y0, 1)];
  const [a, b, c] = [toScreen(x0, y0), toScreen(x0 + wide, y0), toScreen(x0, y0 + high)];
  const along = [0, 1].map((n) => (b[n] - a[n]) / wide), down = [0, 1].map((n) => (c[n] - a[n]) / high);
  return new DOMMatrix([...along, ...down, a[0] - along[0] * x0 - down[0] * y0, a[1] - along[1] * x0 - down[1] * y0]);
}

function hatch(context, colour) {
  if (!hatches.has(colour)) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [HATCH, HATCH];
    const lines = canvas.getContext("2d");
    lines.strokeStyle = colour;
    lines.lineWidth = 1;
    lines.beginPath();
    for (const from of [-HATCH, 0, HATCH]) {
      lines.moveTo(from, HATCH);
      lines.lineTo(from + HATCH, 0);
    }
    lines.stroke();
    hatches.set(colour, context.createPattern(canvas, "repeat"));
  }
  return hatches.get(colour);
}

function drawName(context, region, toScreen) {
  if (!region.name) return;
  const [x, y] = toScreen(...cornerOf(region));
  context.font = "12px system-ui, sans-serif";
  drawLabel(context, region.name, x + 4, y - 6, COLOURS[region.kind]);
}

function drawCorners(context, { polygons: [[outline]] }, toScreen) {
  context.lineWidth = 1;
  context.strokeStyle = "#000000";
  context.fillStyle = "#ffffff";
  for (const corner of outline) {
    const [x, y] = toScreen(...corner);
    context.fillRect(x - 4, y - 4, 8, 8);
    context.strokeRect(x - 4, y - 4, 8, 8);
  }
}
