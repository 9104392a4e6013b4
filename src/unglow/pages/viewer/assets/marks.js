// Overlays: residual blocks, arrows of the displacement field, the scale bar, and marks of panels.

import { number } from "./status.js";

const ARROW = "#ffe08a";
const BLOCK = { used: "#57d27a", held: "#e8b84a", out: "#ff5555" };
const MARGIN = 60;
// Residuals and displacements are far smaller than what can be seen: they are drawn magnified.
const LONGEST = 46;

export function drawMarks(app, pane) {
  const { marks } = pane;
  const [width, height] = [pane.element.clientWidth, pane.element.clientHeight];
  const density = window.devicePixelRatio || 1;
  if (marks.width !== Math.round(width * density) || marks.height !== Math.round(height * density)) {
    [marks.width, marks.height] = [Math.round(width * density), Math.round(height * density)];
  }
  const context = marks.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  const layer = app.shown && app.shown[app.panes.indexOf(pane)];
  if (!pane.place() || !layer) return;
  const inPost = layer.layer.frame === "post";
  const kinds = app.address.marks;
  const drawn = inPost ? drawRegistration(app, pane, context, kinds, width, height) : [];
  app.panels.draw(pane, context, { layer: layer.layer, inPost, kinds, width, height });
  if (app.address.get("mode") === "swipe" && !app.sides) drawSwipe(context, app.address.get("at") * width, height);
  drawRulers(context, drawn, width, height);
}

// Residuals and displacements of a pair, or of the cycle that is shown; returns [what, colour, px of the longest arrow] of each.
function drawRegistration(app, pane, context, kinds, width, height) {
  const wanted = ["arrows", "blocks"].filter((kind) => kinds.includes(kind));
  const cycle = app.cycleOf(pane);
  if (!wanted.length || cycle === null) return wanted.length ? [["reference cycle: nothing was registered"]] : [];
  const of = cycle ? ", cycle " + cycle : "";
  return wanted.flatMap((kind) => {
    const found = app.known(kind + (cycle && "-" + cycle) + ".json");
    if (!found) return [];
    const [draw, what, colour] = kind === "arrows" ? [drawArrows, "displacement", ARROW] : [drawBlocks, "residuals", BLOCK.used];
    const longest = draw(pane, context, found, width, height);
    return [[longest ? what + of : "no " + what + of, colour, longest]];
  });
}

function isNear([x, y], width, height) {
  return x > -MARGIN && y > -MARGIN && x < width + MARGIN && y < height + MARGIN;
}

// The length that is drawn as `LONGEST` screen px; 0 if there is none.
function longestOf(lengths) {
  const sorted = lengths.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  return sorted.length && Math.max(sorted[Math.floor(0.98 * (sorted.length - 1))], 1e-3);
}

function drawArrows(pane, context, { points }, width, height) {
  const longest = longestOf(points.map(([, , dx, dy]) => Math.hypot(dx, dy))), long = LONGEST / longest;
  context.strokeStyle = ARROW;
  context.lineWidth = 1.5;
  for (const [x, y, dx, dy] of points) {
    const at = pane.screenAt(x, y);
    if (isNear(at, width, height)) arrow(context, at, [at[0] + dx * long, at[1] + dy * long]);
  }
  return longest;
}

function arrow(context, [x0, y0], [x1, y1]) {
  const angle = Math.atan2(y1 - y0, x1 - x0), head = Math.min(6, Math.hypot(x1 - x0, y1 - y0));
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  for (const side of [-0.5, 0.5]) {
    context.moveTo(x1, y1);
    context.lineTo(x1 - head * Math.cos(angle + side), y1 - head * Math.sin(angle + side));
  }
  context.stroke();
}

// The residuals of the blocks of registration, from where the map puts them to where they were found.
function drawBlocks(pane, context, { columns, rows }, width, height) {
  const at = Object.fromEntries(columns.map((name, n) => [name, n]));
  const longest = longestOf(rows.filter((row) => row[at.used]).map((row) => Math.hypot(row[at.dx], row[at.dy])));
  const long = LONGEST / (longest || 1);
  context.lineWidth = 1.5;
  for (const row of rows) {
    const place = pane.screenAt(row[at.x], row[at.y]);
    if (!isNear(place, width, height)) continue;
    const [dx, dy] = [row[at.dx] * long, row[at.dy] * long];
    const shorter = Math.min(1, LONGEST / (Math.hypot(dx, dy) || 1));
    context.strokeStyle = row[at.used] ? BLOCK.used : row[at.held_out] ? BLOCK.held : BLOCK.out;
    context.strokeRect(place[0] - 3, place[1] - 3, 6, 6);
    arrow(context, place, [place[0] + dx * shorter, place[1] + dy * shorter]);
  }
  return longest;
}

// How long arrows are, and whose: a line each, with an arrow of the longest.
function drawRulers(context, drawn, width, height) {
  context.font = "13px sans-serif";
  drawn.forEach(([what, colour, longest], n) => {
    const text = longest ? number(+longest.toPrecision(2)) + " px: " + what : what;
    const wide = context.measureText(text).width + (longest ? LONGEST + 8 : 0), left = width - wide - 16, y = height - 20 - 24 * n;
    context.fillStyle = "rgb(0 0 0 / 0.6)";
    context.fillRect(left - 8, y - 12, wide + 16, 24);
    context.fillStyle = "#ffffff";
    context.fillText(text, width - 16 - context.measureText(text).width, y + 4);
    if (!longest) return;
    context.strokeStyle = colour;
    arrow(context, [left, y], [left + LONGEST, y]);
  });
}

function drawSwipe(context, x, height) {
  context.fillStyle = "#ffffff";
  context.fillRect(x - 1, 0, 2, height);
  context.beginPath();
  context.arc(x, height / 2, 9, 0, 2 * Math.PI);
  context.fill();
}
