// The task stream: a bar for every attempt, on one row (core) for each thread.

const ROW_MOST = 30;
const ROW_LEAST = 5;
const STREAM_GOOD = 620;
const STREAM_MOST = 4000;

function streamChart(host, axis, state, look) {
  const { run } = state;
  const rows = Math.max(1, run.rows.length);
  const row = Math.max(ROW_LEAST, Math.min(ROW_MOST, STREAM_GOOD / rows));
  const every = Math.max(1, Math.ceil(16 / row));
  return chart(host, axis, {
    height: Math.round(Math.min(STREAM_MOST, rows * row) + 36),
    scales: { y: { range: () => [0, rows] } },
    left: {
      splits: () => Array.from({ length: Math.ceil(rows / every) }, (_, k) => rows - 0.5 - k * every),
      values: (u, ticks) => ticks.map((v) => run.rows[rows - 1 - Math.floor(v)] || ""),
      grid: { show: false },
      ticks: { show: false },
    },
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [(u) => drawBars(u, rows, state.attempts, look)] },
    renew: () => [axis.full, [null, null]],
  });
}

function barOf(u, rows, a) {
  const x = u.valToPos(a.start, "x", true);
  const end = Math.max(u.valToPos(a.end, "x", true), x + 1.5 * devicePixelRatio);
  const top = u.valToPos(rows - a.slot, "y", true);
  const bottom = u.valToPos(rows - a.slot - Math.max(1, a.threads), "y", true);
  const gap = bottom - top > 8 * devicePixelRatio ? devicePixelRatio : 0.25;
  return { x, width: end - x, y: top + gap, height: bottom - top - 2 * gap };
}

function drawBars(u, rows, attempts, look) {
  const context = u.ctx;
  const { left, top, width, height } = u.bbox;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  const bad = stripes(context, css("--stripe"));
  attempts.filter((a) => a.end >= u.scales.x.min && a.start <= u.scales.x.max).forEach((a) => drawBar(u, barOf(u, rows, a), a, look, bad));
  if (look.chosen) outline(context, barOf(u, rows, look.chosen), css("--focus"), 3);
  context.restore();
}

function outline(context, bar, colour, width, dash = []) {
  const size = width * devicePixelRatio;
  context.strokeStyle = colour;
  context.lineWidth = size;
  context.setLineDash(dash.map((d) => d * devicePixelRatio));
  context.strokeRect(bar.x + size / 2, bar.y + size / 2, Math.max(bar.width - size, 0.5), bar.height - size);
  context.setLineDash([]);
}

function drawBar(u, bar, a, look, bad) {
  const context = u.ctx;
  const ratio = devicePixelRatio;
  const colour = look.colourOf(a);
  context.fillStyle = colour;
  context.fillRect(bar.x, bar.y, bar.width, bar.height);
  drawStalls(u, a, bar);
  if (!went(a.outcome)) {
    context.fillStyle = bad;
    context.fillRect(bar.x, bar.y, bar.width, bar.height);
    outline(context, bar, css("--bad"), 2);
  } else if (a.number > 1) outline(context, bar, css("--ink"), 2, [4, 2]);
  if (a.outcome === "running") {
    context.fillStyle = css("--paper");
    for (let k = 0; k < 3; k++) context.fillRect(bar.x + bar.width - (3 * k + 2) * ratio, bar.y, ratio, bar.height);
  }
  const named = drawName(u, a, bar, colour);
  for (const [left, width, reason] of stretches(u, a)) {
    const x = Math.max(left, named, u.bbox.left);
    drawWords(context, stallWords(reason), x, bar, left + width - x, css("--suspect-back"), css("--suspect"));
  }
}

// Write the name of an attempt on its bar; returns where the name ends.
function drawName(u, a, bar, colour) {
  const x = Math.max(bar.x, u.bbox.left);
  const space = Math.min(bar.x + bar.width, u.bbox.left + u.bbox.width) - x;
  const plain = went(a.outcome) && !stretches(u, a).some(([left]) => left < x + space / 2);
  return drawWords(u.ctx, labelOf(a), x, bar, space, plain ? null : css("--paper"), plain ? inkOn(colour) : css("--ink"));
}

function drawWords(context, words, x, bar, space, back, ink) {
  const ratio = devicePixelRatio;
  if (bar.height < 11 * ratio || space < 26 * ratio) return x;
  const fitting = Math.floor((words.length * (space - 8 * ratio)) / context.measureText(words).width);
  const text = fitting >= words.length ? words : fitting > 2 ? words.slice(0, fitting - 1) + "…" : "";
  const middle = bar.y + bar.height / 2;
  const { width } = context.measureText(text);
  if (back) {
    context.fillStyle = back;
    context.fillRect(x + 2 * ratio, middle - 8 * ratio, width + 4 * ratio, 16 * ratio);
  }
  context.fillStyle = ink;
  context.fillText(text, x + 4 * ratio, middle);
  return x + width + 8 * ratio;
}

// Where an attempt did nothing: left, width (px of the canvas) and reason.
function stretches(u, a) {
  return a.stalls.map(([t, length, reason]) => {
    const left = u.valToPos(a.start + t - length, "x", true);
    return [left, Math.max(u.valToPos(a.start + t, "x", true) - left, 1.5 * devicePixelRatio), reason];
  });
}

// Records of older versions have no reason.
const stallWords = (reason) => (reason ? "idle: " + reason : "idle");

function drawStalls(u, a, bar) {
  for (const [left, width] of stretches(u, a)) {
    u.ctx.fillStyle = css("--suspect-back");
    u.ctx.fillRect(left, bar.y, width, bar.height);
    u.ctx.fillStyle = stripes(u.ctx, css("--suspect"));
    const edge = Math.min(4 * devicePixelRatio, bar.height / 3);
    for (const y of [bar.y, bar.y + bar.height - edge]) u.ctx.fillRect(left, y, width, edge);
  }
}

// What an attempt did at a time: its steps, the outer first, and why it was idle.
function doneAt(a, t) {
  const steps = a.steps.filter(([, start, end]) => start <= t - a.start && t - a.start < end).map(([name]) => name);
  const stall = a.stalls.find(([end, length]) => a.start + end - length <= t && t < a.start + end);
  return [steps.join(", "), stall ? stallWords(stall[2]) + " (" + seconds(stall[1]) + ")" : ""].filter(Boolean).join(" · ");
}

function labelOf(a) {
  const cause = went(a.outcome) ? "" : "✕ " + word(a.outcome) + ": ";
  return cause + a.title + (a.number > 1 ? " (attempt " + a.number + ")" : "");
}

// The attempt at a place of the chart, CSS px from the corner of its plot.
function attemptAt(u, rows, attempts, left, top) {
  const near = 2 * devicePixelRatio;
  const [x, y] = [left * devicePixelRatio + u.bbox.left, top * devicePixelRatio + u.bbox.top];
  return attempts.findLast((a) => {
    const bar = barOf(u, rows, a);
    return x >= bar.x - near && x <= bar.x + bar.width + near && y >= bar.y && y <= bar.y + bar.height;
  }) || null;
}
