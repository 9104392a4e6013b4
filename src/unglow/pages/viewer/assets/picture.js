// Save the view as PNG with scale bar, colour bars and a caption.

import { wrapText } from "./tiles.js";
import { drawLabel } from "./pointer.js";
import { barOf, number } from "./status.js";
import { drawBar, NO_DATA } from "./colours.js";
import { reasonOf } from "./images.js";

const PAPER = "#ffffff", INK = "#1b1f24";
const LINE = 18, MARGIN = 12, BAR = 160;

export async function saveLink(app) {
  const link = app.address.link();
  try {
    await navigator.clipboard.writeText(link);
    app.say("The address of this view is copied.");
  } catch {
    app.say("The address of this view: " + link);
  }
}

export function savePicture(app) {
  if (!app.panes.every((pane) => pane.ready)) return;
  const canvas = drawn(app);
  canvas.toBlob((blob) => download(blob, [app.pair.title, ...app.shown.map(({ layer }) => layer.name)].join("_") + ".png"));
}

// The px of the first image that are seen, as the server cuts them out.
export async function saveCrop(app) {
  const [pane] = app.panes, [{ layer, image }] = app.shown;
  const { x, y, width, height } = pane.bounds();
  const [left, top] = [Math.max(0, Math.floor(x)), Math.max(0, Math.floor(y))];
  const [right, bottom] = [Math.min(image.width, Math.ceil(x + width)), Math.min(image.height, Math.ceil(y + height))];
  if (right <= left || bottom <= top) return app.say("There is nothing of " + layer.title + " to save here.");
  // a layer of another variant is cut out there
  const address = new URL("../crop.ome.tif", new URL(layer.url, new URL(app.home, app.base)));
  const asked = new URLSearchParams({ layer: layer.name.split("/").pop(), x: left, y: top, width: right - left, height: bottom - top });
  const response = await fetch(address + "?" + asked);
  if (!response.ok) return app.say(await reasonOf(response));
  download(await response.blob(), [app.pair.title, layer.name, "x" + left, "y" + top].join("_") + ".ome.tif");
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The panes with their marks, side by side, and the caption below them.
export function drawn(app) {
  const density = window.devicePixelRatio || 1;
  const panes = app.panes.map((pane) => ({ pane, width: pane.element.clientWidth, height: pane.element.clientHeight }));
  const width = panes.reduce((sum, pane) => sum + pane.width, 0), { height } = panes[0];
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  context.font = "13px sans-serif";
  const lines = caption(app).flatMap((line) => wrapText(context, line, width - 2 * MARGIN));
  const below = MARGIN + 2 * LINE + LINE * lines.length;
  [canvas.width, canvas.height] = [width * density, (height + below) * density];
  context.scale(density, density);
  context.fillStyle = PAPER;
  context.fillRect(0, 0, width, height + below);
  let left = 0;
  for (const { pane, width: wide } of panes) {
    context.fillStyle = "rgb(" + NO_DATA.join(",") + ")";
    context.fillRect(left, 0, wide, height);
    context.drawImage(pane.viewer.drawer.canvas, left, 0, wide, height);
    context.drawImage(pane.marks, left, 0, wide, height);
    if (panes.length > 1) drawName(context, pane.name.textContent, left + MARGIN);
    left += wide;
  }
  drawScale(context, app, height);
  drawLegend(context, app, height + MARGIN);
  context.fillStyle = INK;
  context.font = "13px sans-serif";
  lines.forEach((line, n) => context.fillText(line, MARGIN, height + MARGIN + 2 * LINE + LINE * n));
  return canvas;
}

function drawName(context, name, left) {
  context.font = "13px sans-serif";
  drawLabel(context, name, left, 22, PAPER);
}

function drawScale(context, app, height) {
  const { length, text } = barOf(app.panes[0].place().zoom, app.pair.pixel_size_um);
  context.fillStyle = "rgb(0 0 0 / 0.6)";
  context.fillRect(MARGIN, height - 44, length + 16, 34);
  context.fillStyle = PAPER;
  context.fillRect(MARGIN + 8, height - 20, length, 4);
  context.font = "13px sans-serif";
  context.fillText(text, MARGIN + 8, height - 26);
}

function drawLegend(context, app, top) {
  let left = MARGIN;
  const drawn = new Set();
  context.font = "12px sans-serif";
  for (const { layer, look } of app.shown) {
    const key = app.looks.keyOf(layer) + look.map;
    if (drawn.has(key)) continue;
    drawn.add(key);
    const [low, high] = look.limits.map(number);
    context.fillStyle = INK;
    context.fillText(low, left, top + 10);
    left += context.measureText(low).width + 6;
    drawBar(context, look, left, top, BAR, 12);
    left += BAR + 6;
    const text = high + " " + (layer.unit || "") + (look.stretch === "asinh" ? " (asinh)" : "");
    context.fillStyle = INK;
    context.fillText(text, left, top + 10);
    left += context.measureText(text).width + 24;
  }
}

// The caption, in sentences for a paper.
export function caption(app) {
  const { pair, address } = app;
  const place = app.toPost(app.shown[0].layer, app.panes[0].place());
  const mode = { single: "", blink: " (one of two that blink)", swipe: " (left | right)", checker: " (checkerboard)", overlay: " (first orange, second blue, equal parts white)", side: " (side by side)", composite: " (added up)" }[address.get("mode")];
  const shown = app.shown.map(({ layer }) => layer.title).join(", ") + mode;
  const contrast = app.shown.map(({ layer, look }) => layer.title + " from " + look.limits.map(number).join(" to ") + ", " + look.stretch + (look.invert ? ", inverted" : ""));
  const blur = address.get("blur") ? "; Gaussian blur of " + address.get("blur") + " px" : "";
  const found = pair.scale?.methods[pair.scale.default]?.gain;
  const gain = typeof found === "number" ? "; gain " + number(found) + " (" + pair.scale.default + ")" : "";
  return [
    pair.title + ": " + shown + ".",
    "Centre x " + place.x.toFixed(1) + ", y " + place.y.toFixed(1) + " px, " + number(place.zoom) + " screen px per px; contrast: " + contrast.join("; ") + blur + gain + ".",
    "unglow " + pair.versions.unglow + ".",
  ];
}
