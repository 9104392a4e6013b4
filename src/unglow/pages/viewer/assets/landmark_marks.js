// Landmarks over an image: numbered, with what the fit misses them by.

import { drawCross, drawLabel, strokeHaloed } from "./pointer.js";

const COLOURS = { plain: "#5cc8ff", chosen: "#ffe08a", worst: "#ff7a70", expected: "#ffffff" };

// `points` are [{x, y, name, state, expected: [x, y] or null, off}] in px of the pane's image.
export function drawLandmarks(pane, context, points) {
  context.font = "12px system-ui, sans-serif";
  for (const { x, y, name, state, expected, off } of points) {
    const at = pane.screenAt(x, y), colour = COLOURS[state];
    if (expected) drawMiss(context, at, pane.screenAt(...expected), colour);
    ring(context, at, state === "chosen" ? 8 : 6, colour);
    drawLabel(context, name + (off ? "  " + off : ""), at[0] + 10, at[1] - 8, colour);
  }
}

// Where the partner of a point is expected.
export function drawExpected(pane, context, [x, y]) {
  const at = pane.screenAt(x, y);
  context.setLineDash([4, 3]);
  ring(context, at, 14, COLOURS.expected);
  context.setLineDash([]);
  drawCross(context, at, 9, COLOURS.expected);
}

function drawMiss(context, [x, y], [toX, toY], colour) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  strokeHaloed(context, colour, 2);
}

function ring(context, [x, y], radius, colour) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  strokeHaloed(context, colour, 1.7);
  context.fillStyle = colour;
  context.fillRect(x - 1, y - 1, 2, 2);
}
