// Colours by rule, and patterns that show the same without colour.

const PALETTE = [
  "#4e79a7", "#e69f00", "#3a9d5d", "#c76b98", "#56b4e9", "#a0793d", "#8b6fc0", "#1f9e9a",
  "#d1783c", "#7a8c2f", "#b05a5a", "#5c6f82", "#c9a227", "#6aa0c8", "#9c5fa8", "#5f8f6f",
];
const looked = new Map();

function css(name) {
  if (!looked.has(name)) looked.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return looked.get(name);
}

// Black or white, whichever can be read on a colour.
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((n) => parseInt(colour.slice(n, n + 2), 16) / 255);
  return 0.3 * r + 0.59 * g + 0.11 * b > 0.55 ? "#111111" : "#ffffff";
}

// Stripes over attempts that failed.
function stripes(context, colour) {
  const size = Math.round(8 * devicePixelRatio);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = size / 4;
  for (const shift of [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}
