// Charts over the time of a run that share one axis: drag over one, and all show that time.

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
  set(min, max) {
    this.shown = [Math.max(min, this.full[0]), Math.min(max, this.full[1])];
    this.setting = true;
    for (const chart of this.charts) chart.setScale("x", { min: this.shown[0], max: this.shown[1] });
    this.setting = false;
    this.changed();
  }
  extend(seconds) {
    const all = !this.isPart();
    this.full = [0, Math.max(seconds, 1e-3)];
    if (all) this.shown = this.full;
  }
  // Whether only a part of the time is shown.
  isPart() {
    return this.shown[0] > this.full[0] || this.shown[1] < this.full[1];
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
  const look = { stroke: css("--soft"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
  return Object.assign(look, more);
}

// `settings.renew` gives the data as they are now.
function chart(host, axis, settings) {
  const options = {
    width: host.clientWidth || 900,
    height: settings.height,
    padding: [8, settings.right ? 0 : RIGHT, 0, 0],
    legend: { show: Boolean(settings.legend), live: true },
    cursor: { sync: { key: axis.name, scales: ["x", null] }, drag: { x: true, y: false, dist: 4 }, y: false, points: { show: false } },
    scales: Object.assign({ x: { time: false } }, settings.scales),
    axes: [
      axisStyle({ values: (u, ticks, n, space, step) => ticks.map((t) => timeTick(t, step)), incrs: TIME_STEPS, size: 28, space: 70 }),
      Object.assign(axisStyle({ size: GUTTER }), settings.left),
      ...(settings.right ? [settings.right] : []),
    ],
    series: settings.series,
    hooks: Object.assign({}, settings.hooks, {
      setScale: [(u, key) => {
        if (key === "x" && !axis.setting && u.renew) axis.set(u.scales.x.min, u.scales.x.max);
      }],
    }),
  };
  const made = new uPlot(options, settings.renew(), host);
  made.renew = settings.renew;
  axis.charts.push(made);
  made.setScale("x", { min: axis.shown[0], max: axis.shown[1] });
  made.watch = new ResizeObserver(() => {
    if (!host.isConnected) freeCharts(axis); // uPlot keeps every chart until then
    else if (host.clientWidth) made.setSize({ width: host.clientWidth, height: made.height });
  });
  made.watch.observe(host);
  return made;
}

// Edges of n equal bins; a curve is constant from each edge to the next.
const edges = (n, length, start = 0) => Array.from({ length: n + 1 }, (_, k) => start + (k * length) / n);
const held = (values) => [...values, values[values.length - 1]];

// How a series of a chart looks, and how its legend writes a value.
const written = (show) => (u, v) => (v === null || v === undefined ? "–" : show(v));
const timeSeries = () => ({ label: "time", value: written(seconds) });
function stepSeries(label, stroke, show, more) {
  return { label, paths: uPlot.paths.stepped({ align: 1 }), stroke, width: 1.5, points: { show: false }, value: written(show), ...more };
}
const oneDecimal = (v) => v.toFixed(1);
const tickTexts = (show) => (u, ticks) => ticks.map((v) => (v ? show(v) : "0"));
const wholeNumbers = (u, ticks) => ticks.map((v) => (Number.isInteger(v) ? String(v) : ""));
// From 0 to somewhat above what is there, and `least`.
const fromZero = (least) => (u, min, max) => [0, 1.1 * Math.max(least, max || 0)];

function freeCharts(axis) {
  for (const made of axis.charts) {
    made.watch.disconnect();
    made.destroy();
  }
  axis.charts = [];
}

function memoryChart(host, axis, state) {
  const used = () => Math.max(state.run.lines.peak.mb, ...state.run.lines.declared.map((v) => v || 0));
  return chart(host, axis, {
    height: 260,
    legend: true,
    scales: { y: { range: () => [0, 1.15 * used()] } },
    left: { values: tickTexts(mb) },
    series: [
      timeSeries(),
      stepSeries("all jobs", css("--ink"), mb, { fill: css("--cpu-fill") }),
      stepSeries("declared", css("--declared"), mb, { dash: [6, 3] }),
      stepSeries("limit of the run", css("--budget"), mb, { dash: [10, 4] }),
      stepSeries("free on the machine", css("--free"), mb, { width: 1, dash: [2, 3], spanGaps: true }),
    ],
    renew: () => {
      const { lines, seconds: length, budget_mb: budget } = state.run;
      const t = edges(lines.hi.length, length);
      return [t, held(lines.hi), held(lines.declared), t.map(() => budget), held(lines.available)];
    },
  });
}

function activityChart(host, axis, state) {
  return chart(host, axis, {
    height: 130,
    legend: true,
    scales: { y: { range: fromZero(state.run.cores || 1) }, io: { range: fromZero(1) } },
    left: { values: wholeNumbers },
    right: axisStyle({ side: 1, size: RIGHT, scale: "io", grid: { show: false } }),
    series: [
      timeSeries(),
      stepSeries("processors at work", css("--cpu"), oneDecimal, { fill: css("--cpu-fill"), width: 1.2 }),
      stepSeries("MB/s read and written", css("--io"), oneDecimal, { scale: "io", dash: [4, 2], width: 1.2 }),
    ],
    renew: () => [edges(state.run.lines.cpu.length, state.run.seconds), held(state.run.lines.cpu), held(state.run.lines.io)],
  });
}

// Memory of several runs, all from their start on; each curve has bins of its own width.
function runsChart(host, runs) {
  const longest = Math.max(...runs.map((r) => r.seconds));
  const t = edges(2 * Math.max(...runs.map((r) => r.lines.hi.length)), longest);
  const at = (r, x) => (x > r.seconds ? null : r.lines.hi[Math.min(r.lines.hi.length - 1, Math.floor((x / r.seconds) * r.lines.hi.length))]);
  return chart(host, new Axis(longest), {
    height: 240,
    legend: true,
    scales: { y: { range: fromZero(1) } },
    left: { values: tickTexts(mb) },
    series: [timeSeries(), ...runs.map((r, n) => stepSeries(nameOfRun(r), PALETTE[n % PALETTE.length], mb, { dash: [[], [8, 4], [2, 3]][n % 3] }))],
    renew: () => [t, ...runs.map((r) => t.map((x) => at(r, x)))],
  });
}
