// Charts over the time of a run that share one axis: zoom one, and all follow.

const GUTTER = 64;
const RIGHT = 52;

class Axis {
  constructor(end, start = 0) {
    this.charts = [];
    this.full = [start, Math.max(end, start + 1e-3)];
    this.shown = this.full;
    this.setting = false;
    this.changed = () => {}; // called when another time is shown
  }
  join(chart) {
    this.charts.push(chart);
    chart.setScale("x", { min: this.shown[0], max: this.shown[1] });
  }
  set(min, max) {
    const [from, to] = this.full;
    const span = Math.min(Math.max(max - min, 1e-3 * (to - from), 0.02), to - from);
    const start = Math.min(Math.max(min, from), to - span);
    this.shown = [start, start + span];
    this.setting = true;
    for (const chart of this.charts) chart.setScale("x", { min: start, max: start + span });
    this.setting = false;
    this.changed();
  }
  extend(seconds) {
    const all = this.shown[0] === this.full[0] && this.shown[1] === this.full[1];
    this.full = [0, Math.max(seconds, 1e-3)];
    if (all) this.shown = this.full;
  }
  zoom(factor, at) {
    const [min, max] = this.shown;
    const middle = at === undefined ? (min + max) / 2 : at;
    this.set(middle - (middle - min) * factor, middle + (max - middle) * factor);
  }
  pan(share) {
    const [min, max] = this.shown;
    const step = share * (max - min);
    this.set(min + step, max + step);
  }
  reset() {
    this.set(...this.full);
  }
  key(event) {
    const keys = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.reset(),
      a: () => this.pan(-0.25), d: () => this.pan(0.25),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
    act();
    event.preventDefault();
    return true;
  }
}

function timeTick(s, step) {
  if (step >= 3600) return Math.round(s / 3600) + " h";
  if (step >= 60) return Math.round(s / 60) + " min";
  if (s >= 300 && step >= 1) return Math.floor(s / 60) + ":" + String(Math.round(s % 60)).padStart(2, "0");
  return Number(s.toFixed(3)) + " s";
}

const TIME_STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

function axisStyle(more) {
  const ink = css("--soft");
  const look = { stroke: ink, grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
  return Object.assign(look, more);
}

// `settings.renew` gives the data as they are now.
function chart(host, axis, settings) {
  const options = {
    width: host.clientWidth || 900,
    height: settings.height,
    padding: [8, settings.right ? 0 : RIGHT, 0, 0],
    legend: { show: Boolean(settings.legend), live: true },
    cursor: { sync: { key: axis.name, scales: ["x", null] }, drag: { x: true, y: false, dist: 4 }, y: false, points: settings.points || { show: false } },
    scales: Object.assign({ x: { time: false } }, settings.scales),
    axes: [
      axisStyle({ values: (u, ticks, n, space, step) => ticks.map((t) => timeTick(t, step)), incrs: TIME_STEPS, size: 28, space: 70 }),
      Object.assign(axisStyle({ size: GUTTER }), settings.left),
      ...(settings.right ? [settings.right] : []),
    ],
    series: settings.series,
    hooks: Object.assign({}, settings.hooks, {
      setScale: [(u, key) => {
        if (key === "x" && !axis.setting && u.ready) axis.set(u.scales.x.min, u.scales.x.max);
      }],
      ready: [(u) => (u.ready = true)],
    }),
  };
  const made = new uPlot(options, settings.renew(), host);
  made.ready = true;
  made.renew = settings.renew;
  axis.join(made);
  const watch = new ResizeObserver(() => {
    const width = host.clientWidth;
    if (width && Math.abs(width - made.width) > 1) made.setSize({ width, height: made.height });
  });
  watch.observe(host);
  made.watch = watch;
  return made;
}

// Edges of n equal bins; a curve is constant from each edge to the next.
function edges(n, length) {
  return Array.from({ length: n + 1 }, (_, k) => (k * length) / n);
}
const held = (values) => [...values, values[values.length - 1]];

// How a series of a chart looks, and how its legend writes a value.
const written = (show) => (u, v) => (v === null || v === undefined ? "–" : show(v));
const timeSeries = () => ({ label: "time", value: written(seconds) });
function stepSeries(label, stroke, show, more) {
  return { label, paths: uPlot.paths.stepped({ align: 1 }), stroke, width: 1.5, points: { show: false }, value: written(show), ...more };
}
const oneDecimal = (v) => v.toFixed(1);
const tickTexts = (show) => (u, ticks) => ticks.map((v) => (v ? show(v) : "0"));

function freeCharts(axis) {
  for (const made of axis.charts) {
    made.watch.disconnect();
    made.destroy();
  }
  axis.charts = [];
}

function memoryChart(host, axis, state, look, limits) {
  const top = () => {
    const { lines, budget_mb: budget, machine_mb: machine } = state.run;
    const used = Math.max(lines.peak.mb, ...lines.declared.map((v) => v || 0));
    return 1.15 * Math.max(used, ...(limits.shown ? [budget || 0, machine || 0] : []));
  };
  return chart(host, axis, {
    height: 260,
    legend: true,
    scales: { y: { range: () => [0, top()] } },
    left: { values: tickTexts(mb) },
    series: [
      timeSeries(),
      stepSeries("all jobs", css("--ink"), mb),
      stepSeries("declared", css("--declared"), mb, { dash: [6, 3] }),
      stepSeries("free on the machine", css("--free"), mb, { width: 1, dash: [2, 3], spanGaps: true }),
    ],
    hooks: {
      drawClear: [(u) => drawStack(u, state.run, state.attempts, look.colourOf)],
      draw: [(u) => drawLimits(u, state.run, state.run.lines.peak)],
    },
    renew: () => {
      const { lines } = state.run;
      return [edges(lines.hi.length, state.run.seconds), held(lines.hi), held(lines.declared), held(lines.available)];
    },
  });
}

// Memory of each job on top of that of others, in the order of the rows above. Layers are shrunk to
// the sum that was measured, where the largest values of two jobs fell into one px at other times.
function drawStack(u, run, attempts, colourOf) {
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  const columns = Math.max(1, Math.round(width / ratio));
  const [x0, x1] = [u.scales.x.min, u.scales.x.max];
  const step = (x1 - x0) / columns;
  const bins = run.lines.hi.length;
  const layers = [];
  const sums = new Float64Array(columns);
  for (const a of attempts) {
    if (!a.curve || a.end <= x0 || a.start >= x1) continue;
    const first = Math.max(0, Math.floor((a.start - x0) / step));
    const last = Math.min(columns - 1, Math.ceil((a.end - x0) / step) - 1);
    const values = new Float64Array(Math.max(1, last - first + 1));
    for (let c = 0; c < values.length; c++) {
      values[c] = highest(a, x0 + (first + c) * step, x0 + (first + c + 1) * step);
      sums[first + c] += values[c];
    }
    layers.push({ a, first, values });
  }
  const share = sums.map((sum, c) => {
    const from = Math.floor(((x0 + c * step) / run.seconds) * bins);
    const to = Math.floor(((x0 + (c + 1) * step) / run.seconds) * bins);
    let most = 0;
    for (let k = Math.max(0, from); k <= Math.min(bins - 1, to); k++) most = Math.max(most, run.lines.hi[k] || 0);
    return sum > most && most > 0 ? most / sum : 1;
  });
  layers.sort((p, q) => p.a.slot - q.a.slot || p.a.start - q.a.start);
  const base = new Float64Array(columns);
  const scale = height / (u.scales.y.max - u.scales.y.min || 1);
  const y = (v) => top + height - v * scale;
  drawInside(u, (context) => layers.forEach(({ a, first, values }) => {
    context.beginPath();
    context.moveTo(left + first * ratio, y(base[first]));
    for (let c = 0; c < values.length; c++) {
      const v = y(base[first + c] + values[c] * share[first + c]);
      context.lineTo(left + (first + c) * ratio, v);
      context.lineTo(left + (first + c + 1) * ratio, v);
    }
    for (let c = values.length - 1; c >= 0; c--) {
      context.lineTo(left + (first + c + 1) * ratio, y(base[first + c]));
      context.lineTo(left + (first + c) * ratio, y(base[first + c]));
      base[first + c] += values[c] * share[first + c];
    }
    context.closePath();
    context.fillStyle = colourOf(a);
    context.globalAlpha = 0.75;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = css("--paper");
    context.lineWidth = 0.5 * ratio;
    context.stroke();
  }));
}

// Draw with a context that is clipped to the plot and writes on the middle of lines.
function drawInside(u, draw) {
  const context = u.ctx;
  const { left, top, width, height } = u.bbox;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  draw(context);
  context.restore();
}

function highest(a, from, to) {
  const { hi } = a.curve;
  const width = (a.end - a.start) / hi.length;
  const first = Math.min(hi.length - 1, Math.max(0, Math.floor((from - a.start) / width)));
  const last = Math.min(hi.length - 1, Math.max(first, Math.ceil((to - a.start) / width) - 1));
  let most = 0;
  for (let k = first; k <= last; k++) most = Math.max(most, hi[k] || 0);
  for (let k = first - 1; !most && k >= 0; k--) most = hi[k] || 0;
  return most;
}

function drawLimits(u, run, peak) {
  drawLines(u, [["limit of the run", run.budget_mb, css("--budget")], ["machine", run.machine_mb, css("--soft")]]);
  drawPeak(u, peak, "peak", css("--ink"));
}

// Dashed lines at amounts of memory, with names; those that are out of view are named in the corner.
function drawLines(u, lines) {
  const context = u.ctx;
  const ratio = devicePixelRatio;
  const { left, top, width, height } = u.bbox;
  context.save();
  context.font = 12 * ratio + "px system-ui, sans-serif";
  context.textBaseline = "bottom";
  const beyond = [];
  for (const [name, value, colour] of lines) {
    if (!value) continue;
    if (value > u.scales.y.max) {
      beyond.push(name + " " + mb(value));
      continue;
    }
    const y = u.valToPos(value, "y", true);
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.5 * ratio;
    context.setLineDash([10 * ratio, 4 * ratio]);
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(left + width, y);
    context.stroke();
    context.textAlign = "left";
    context.fillText(name + " " + mb(value), left + 6 * ratio, y - 2 * ratio);
  }
  context.setLineDash([]);
  if (beyond.length) {
    context.fillStyle = css("--soft");
    context.textAlign = "right";
    context.textBaseline = "top";
    context.fillText("↑ " + beyond.join(", ") + " (out of view)", left + width - 6 * ratio, top + 4 * ratio);
  }
  context.restore();
}

// A dot at the highest memory, with its name and value on the side where there is space. `taken` has the
// boxes of other labels, [left, right, bottom]; a label that overlaps one is moved up, or down at the top.
function drawPeak(u, peak, name, colour, taken = []) {
  if (peak.t < u.scales.x.min || peak.t > u.scales.x.max) return;
  const context = u.ctx;
  const ratio = devicePixelRatio;
  const { left, top, width } = u.bbox;
  const [x, y] = [u.valToPos(peak.t, "x", true), u.valToPos(peak.mb, "y", true)];
  context.save();
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, 3.5 * ratio, 0, 7);
  context.fill();
  context.fillStyle = css("--ink");
  context.font = 12 * ratio + "px system-ui, sans-serif";
  context.textBaseline = "bottom";
  context.textAlign = x > left + width / 2 ? "right" : "left";
  const side = context.textAlign === "left" ? 1 : -1;
  const text = name + " " + mb(peak.mb);
  const line = 14 * ratio;
  const ends = [x + 6 * side * ratio, x + side * (6 * ratio + context.measureText(text).width)];
  const [from, to] = [Math.min(...ends), Math.max(...ends)];
  const isFree = (at) => at >= top + line && taken.every(([a, b, other]) => to < a || from > b || Math.abs(at - other) >= line);
  const first = Math.max(y - 3 * ratio, top + line);
  const places = taken.flatMap((_, k) => [first - (k + 1) * line, first + (k + 1) * line]);
  const bottom = [first, ...places].find(isFree) ?? first;
  context.fillText(text, ends[0], bottom);
  taken.push([from, to, bottom]);
  context.restore();
}

function activityChart(host, axis, state) {
  const cores = state.run.cores || 1;
  return chart(host, axis, {
    height: 130,
    legend: true,
    scales: { y: { range: (u, min, max) => [0, 1.1 * Math.max(cores, max || 0)] }, io: { range: (u, min, max) => [0, Math.max(1, 1.1 * (max || 0))] } },
    left: { values: (u, ticks) => ticks.map((v) => (Number.isInteger(v) ? String(v) : "")) },
    right: axisStyle({ side: 1, size: RIGHT, scale: "io", grid: { show: false } }),
    series: [
      timeSeries(),
      stepSeries("processors at work", css("--cpu"), oneDecimal, { fill: css("--cpu-fill"), width: 1.2 }),
      stepSeries("MB/s read and written", css("--io"), oneDecimal, { scale: "io", dash: [4, 2], width: 1.2 }),
    ],
    renew: () => {
      const { lines } = state.run;
      return [edges(lines.cpu.length, state.run.seconds), held(lines.cpu), held(lines.io)];
    },
  });
}
