// The task stream: a bar for every attempt, on one row (core) for each thread.

const ROW_MOST = 30;
const ROW_LEAST = 5;
const STREAM_GOOD = 620;
const STREAM_MOST = 4000;

function streamChart(host, axis, state, look) {
  const { run } = state;
  const rows = Math.max(1, run.rows.length);
  const row = Math.max(ROW_LEAST, Math.min(ROW_MOST, STREAM_GOOD / rows));
  const made = chart(host, axis, {
    height: Math.round(Math.min(STREAM_MOST, rows * row) + 36),
    scales: { y: { range: () => [0, rows] } },
    left: {
      splits: () => rowTicks(rows, row),
      values: (u, ticks) => ticks.map((v) => run.rows[rows - 1 - Math.floor(v)] || ""),
      grid: { show: false },
      ticks: { show: false },
    },
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [(u) => drawBars(u, rows, state.attempts, look)] },
    renew: () => [axis.full, [null, null]],
  });
  return made;
}

function rowTicks(rows, row) {
  const every = Math.max(1, Math.ceil(16 / row));
  return Array.from({ length: Math.ceil(rows / every) }, (_, k) => rows - 0.5 - k * every);
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
  const [x0, x1] = [u.scales.x.min, u.scales.x.max];
  drawInside(u, (context) => {
    const bad = stripes(context, css("--stripe"));
    for (const a of attempts) {
      const start = a.launched === null ? a.start : a.launched;
      const last = a.closed === null ? a.end : a.closed;
      if (last >= x0 && start <= x1) drawBar(u, rows, a, look, bad);
    }
    if (!look.chosen) return;
    const bar = barOf(u, rows, look.chosen);
    context.strokeStyle = css("--focus");
    context.lineWidth = 3 * devicePixelRatio;
    context.strokeRect(bar.x, bar.y, bar.width, bar.height);
  });
}

function drawBar(u, rows, a, look, bad) {
  const context = u.ctx;
  const ratio = devicePixelRatio;
  const bar = barOf(u, rows, a);
  drawStart(u, a, bar);
  const colour = look.colourOf(a);
  context.fillStyle = colour;
  context.fillRect(bar.x, bar.y, bar.width, bar.height);
  drawSteps(u, a, bar);
  drawStalls(u, a, bar);
  if (!went(a.outcome)) {
    context.fillStyle = bad;
    context.fillRect(bar.x, bar.y, bar.width, bar.height);
    context.strokeStyle = css("--bad");
    context.lineWidth = 2 * ratio;
    context.strokeRect(bar.x + ratio, bar.y + ratio, Math.max(bar.width - 2 * ratio, 0.5), bar.height - 2 * ratio);
  } else if (a.number > 1) {
    context.strokeStyle = css("--ink");
    context.setLineDash([4 * ratio, 2 * ratio]);
    context.lineWidth = 2 * ratio;
    context.strokeRect(bar.x + ratio, bar.y + ratio, Math.max(bar.width - 2 * ratio, 0.5), bar.height - 2 * ratio);
    context.setLineDash([]);
  }
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
  const text = shortened(context, words, space - 8 * ratio);
  if (!text) return x;
  const middle = bar.y + bar.height / 2;
  const width = context.measureText(text).width;
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
function stallWords(reason) {
  return reason ? "idle: " + reason : "idle";
}

function drawStalls(u, a, bar) {
  const context = u.ctx;
  for (const [left, width] of stretches(u, a)) {
    context.fillStyle = css("--suspect-back");
    context.fillRect(left, bar.y, width, bar.height);
    context.fillStyle = stripes(context, css("--suspect"));
    const edge = Math.min(4 * devicePixelRatio, bar.height / 3);
    for (const y of [bar.y, bar.y + bar.height - edge]) context.fillRect(left, y, width, edge);
  }
}

// The outer steps of an attempt, alternately light and dark along the foot of its bar.
function drawSteps(u, a, bar) {
  const foot = Math.min(4 * devicePixelRatio, bar.height / 5);
  if (bar.height < 14 * devicePixelRatio || bar.width < 30 * devicePixelRatio) return;
  a.steps.filter(([, , , depth]) => depth === 0).forEach(([, start, end], n) => {
    const x = u.valToPos(a.start + start, "x", true);
    u.ctx.fillStyle = n % 2 ? "rgb(255 255 255 / 0.75)" : "rgb(0 0 0 / 0.6)";
    u.ctx.fillRect(x, bar.y + bar.height - foot, u.valToPos(a.start + end, "x", true) - x, foot);
  });
}

// Names of the steps that an attempt was in, the outer first.
function stepsAt(a, t) {
  return a.steps.filter(([, start, end]) => start <= t - a.start && t - a.start < end).map(([name]) => name).join(", ");
}

// Reason for an idle attempt at a time.
function stallAt(a, t) {
  const found = a.stalls.find(([end, length]) => a.start + end - length <= t && t < a.start + end);
  return found ? stallWords(found[2]) + " (" + seconds(found[1]) + ")" : "";
}

// Time Snakemake takes to start a job and to record its end.
function drawStart(u, a, bar) {
  const context = u.ctx;
  const third = bar.height / 3;
  context.fillStyle = css("--overhead");
  if (a.launched !== null) {
    const x = u.valToPos(a.launched, "x", true);
    context.fillRect(x, bar.y + third, Math.max(0, bar.x - x), third);
  }
  if (a.closed !== null) {
    const x = u.valToPos(a.closed, "x", true);
    context.fillRect(bar.x + bar.width, bar.y + third, Math.max(0, x - bar.x - bar.width), third);
  }
}

function labelOf(a) {
  const cause = went(a.outcome) ? "" : "✕ " + word(a.outcome) + ": ";
  const retry = a.number > 1 ? " (attempt " + a.number + ")" : "";
  return cause + a.title + retry;
}

function shortened(context, text, space) {
  if (context.measureText(text).width <= space) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= space) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + "…" : "";
}

// The attempt at a place of the chart, CSS px from the corner of its plot.
function attemptAt(u, rows, attempts, left, top) {
  const ratio = devicePixelRatio;
  const [x, y] = [left * ratio + u.bbox.left, top * ratio + u.bbox.top];
  let found = null;
  for (const a of attempts) {
    const bar = barOf(u, rows, a);
    const near = 2 * ratio;
    if (x >= bar.x - near && x <= bar.x + bar.width + near && y >= bar.y && y <= bar.y + bar.height) found = a;
  }
  return found;
}
