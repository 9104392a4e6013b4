// Values as colours: limits, stretch, colour maps.

export const NO_DATA = [60, 66, 74];

// Anchors at equal distances; `unglow` is that of the figures, viridis and magma those of matplotlib.
const MAPS = {
  grey: ["#000000", "#ffffff"],
  unglow: ["#c8f2ff", "#38b6ff", "#0d4a86", "#000000", "#8a3304", "#ff8a1f", "#fff0b3"],
  viridis: ["#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c", "#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"],
  magma: ["#000004", "#0a0822", "#1d1147", "#36106b", "#51127c", "#6a1c81", "#832681", "#9c2e7f", "#b73779", "#d0416f", "#e75263", "#f56b5c", "#fc8961", "#fea772", "#fec488", "#fde2a3", "#fcfdbf"],
  orange: ["#000000", "#ff8a1f"],
  blue: ["#000000", "#0075e0"],
};
export const MAP_NAMES = ["grey", "unglow", "viridis", "magma"];
// The two of an overlay add up to white where both are equal.
export const OVERLAY_MAPS = ["orange", "blue"];

// What a kind of layer looks like before somebody changes it.
export const STANDARD = {
  intensity: { low: 0.5, high: 99.7, stretch: "linear", map: "grey", symmetric: false },
  difference: { low: 0.5, high: 99.9, stretch: "linear", map: "unglow", symmetric: true },
  snr: { low: 0, high: 100, stretch: "linear", map: "unglow", symmetric: true, limits: [-10, 10] },
  error: { low: 0, high: 100, stretch: "linear", map: "viridis", symmetric: false },
  gain: { low: 0, high: 100, stretch: "linear", map: "viridis", symmetric: false },
  channel: { low: 1, high: 99.8, stretch: "linear", map: "grey", symmetric: false },
};

const STEPS = 1024;
// How much of the range is stretched most by asinh.
const ASINH = 0.08;

// A colour such as #00ff00 as a 32-bit px.
export function pixelOf(hex) {
  const [r, g, b] = rgb(hex);
  return (255 << 24) | (b << 16) | (g << 8) | r;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// [r, g, b] of a share from 0 to 1 of a colour map, or from black to a colour such as #00ff00.
export function colourOf(name, share) {
  const anchors = MAPS[name] || ["#000000", name];
  const at = Math.min(Math.max(share, 0), 1) * (anchors.length - 1);
  const below = Math.min(Math.floor(at), anchors.length - 2);
  const [a, b] = [rgb(anchors[below]), rgb(anchors[below + 1])];
  return a.map((value, n) => Math.round(value + (b[n] - value) * (at - below)));
}

// Position of a value between the limits, 0 to 1, after the stretch; symmetric limits keep 0 in the middle.
export function share(value, [low, high], stretch, symmetric) {
  const linear = (value - low) / (high - low || 1);
  if (stretch !== "asinh") return linear;
  const bend = (part) => Math.asinh(part / ASINH) / Math.asinh(1 / ASINH);
  return symmetric ? 0.5 + 0.5 * Math.sign(linear - 0.5) * bend(Math.abs(2 * linear - 1)) : bend(Math.max(linear, 0));
}

// Colours as 32-bit px, by steps between the limits.
export function table({ limits, stretch, map, symmetric, invert }) {
  const out = new Uint32Array(STEPS);
  const [low, high] = limits;
  for (let step = 0; step < STEPS; step++) {
    const part = share(low + ((high - low) * step) / (STEPS - 1), limits, stretch, symmetric);
    const [r, g, b] = colourOf(map, invert ? 1 - part : part);
    out[step] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return out;
}

// The px of a picture, for values and a table of their limits; no data is bluish grey, or nothing if asked for.
export function coloured(values, colours, [low, high], clear) {
  const out = new Uint32Array(values.length);
  const none = clear ? 0 : (255 << 24) | (NO_DATA[2] << 16) | (NO_DATA[1] << 8) | NO_DATA[0];
  const scale = (STEPS - 1) / (high - low || 1);
  for (let n = 0; n < values.length; n++) {
    const value = values[n];
    if (value !== value) out[n] = none;
    else {
      const step = (value - low) * scale + 0.5;
      out[n] = colours[step < 0 ? 0 : step >= STEPS ? STEPS - 1 : step | 0];
    }
  }
  return new Uint8ClampedArray(out.buffer);
}

// Limits by percentiles of values; symmetric ones by those of their absolute values.
export function limitsOf(sorted, { low, high, symmetric }) {
  if (!sorted.length) return [0, 1];
  const at = (percent) => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(((sorted.length - 1) * percent) / 100)))];
  if (symmetric) {
    const most = Math.max(Math.abs(at(100 - high)), Math.abs(at(high))) || 1;
    return [-most, most];
  }
  const [from, to] = [at(low), at(high)];
  return to > from ? [from, to] : [from, from + 1];
}

// The finite values of an overview in order, at most some 100000 of them.
export function sortedSample(values) {
  const stride = Math.max(1, Math.floor(values.length / 1e5));
  return values.filter((value, n) => n % stride === 0 && value === value).sort();
}

// A bar of the colours between the limits.
export function drawBar(context, look, x, y, width, height) {
  const { limits: [low, high] } = look;
  for (let n = 0; n < width; n++) {
    const part = share(low + ((high - low) * n) / (width - 1), look.limits, look.stretch, look.symmetric);
    context.fillStyle = "rgb(" + colourOf(look.map, look.invert ? 1 - part : part).join(",") + ")";
    context.fillRect(x + n, y, 1, height);
  }
}
