// Tables of a run: rules, and steps of their jobs.

// A share of a limit as a bar and a number.
function meter(value, limit) {
  if (value === null || !limit) return null;
  const share = value / limit;
  return el("span", { class: "meter" }, el("meter", { value: Math.min(share, 1), high: 0.9, low: 0.9, optimum: 0 }), " ", percent(share), share > 1 ? " ✕" : "");
}

function rulesTable(run) {
  const parts = (r) => [r.split.computing, r.split.moving, r.split.waiting].map((s) => Math.round((100 * s) / r.seconds));
  const rate = (r) => (r.seconds > 0 ? (r.read + r.written) / 1e6 / r.seconds : null);
  const columns = [
    { name: "rule", of: (r) => r.rule },
    { name: "ok / attempts", title: "Attempts that finished, of all", number: true, of: (r) => r.attempts, show: (r) => r.ended_well + " / " + r.attempts, cls: (r) => (r.ended_well + r.running < r.attempts ? "bad" : "") },
    { name: "declared", title: "Memory that was reserved for the attempt that came closest to it", number: true, of: (r) => r.declared_mb, show: (r) => mb(r.declared_mb) },
    { name: "measured", title: "Peak memory of the same attempt: of its largest process, or of several together", number: true, of: (r) => r.peak_mb, show: (r) => mb(r.peak_mb) },
    { name: "used of declared", title: "Measured peak, divided by the memory that was reserved", number: true, of: (r) => (r.declared_mb ? r.peak_mb / r.declared_mb : null), show: (r) => meter(r.peak_mb, r.declared_mb) },
    { name: "time", title: "Of all attempts together", number: true, of: (r) => r.seconds, show: (r) => seconds(r.seconds) },
    { name: "longest", title: "The longest attempt", number: true, of: (r) => r.longest_s, show: (r) => seconds(r.longest_s) },
    { name: "CPU", title: "Processor time, and processors at work on average", number: true, of: (r) => r.cpu_s, show: (r) => seconds(r.cpu_s) + " (" + (r.seconds > 0 ? r.cpu_s / r.seconds : 0).toFixed(1) + "×)" },
    { name: "work / files / wait", title: "Shares of time, %: at work on a processor; only moving bytes or waiting for the disk; waiting for a processor, a lock, the network", number: true, of: (r) => r.split.computing / r.seconds, show: (r) => (r.seconds > 0 ? parts(r).join(" / ") : null) },
    { name: "read", number: true, of: (r) => r.read, show: (r) => bytes(r.read) },
    { name: "written", number: true, of: (r) => r.written, show: (r) => bytes(r.written) },
    { name: "MB/s", title: "Bytes read and written in each second of a job, cached or not", number: true, of: rate, show: (r) => digits(rate(r), 3) },
  ];
  if (run.rules.some((r) => isKnown(r.lost_most_mb))) {
    const lost = (amount) => mb(Math.max(0, amount));
    columns.push({ name: "left behind", title: "Memory missing on the machine after an attempt and not used by any process: median and largest of all attempts. Other programs change it, too", number: true, of: (r) => r.lost_most_mb, show: (r) => (isKnown(r.lost_most_mb) ? lost(r.lost_median_mb) + " / " + lost(r.lost_most_mb) : null) });
  }
  if (run.rules.some((r) => r.pixels)) {
    columns.push({ name: "Mpx/s", title: "Megapixels of the image in each second of a job", number: true, of: (r) => r.pixels / r.seconds, show: (r) => (r.pixels ? digits(r.pixels / 1e6 / r.seconds, 3) : null) });
  }
  return table(columns, run.rules, { key: "rules" });
}

// Units for the numbers of a step: {name, of(number, tally)}.
const STEP_UNITS = [
  { name: "all together", of: (value) => value, time: seconds, size: bytes },
  { name: "each time", of: (value, s) => value / s.count, time: seconds, size: bytes },
  { name: "share of the rule", of: (value, s, total) => (total > 0 ? value / total : null), time: percent, size: percent },
  { name: "per Mpx", of: (value, s) => (s.pixels ? value / (s.pixels / 1e6) : null), time: (v) => (v < 0.1 ? digits(1000 * v, 3) + " ms" : seconds(v)), size: (v) => digits(v / 1e6, 3) + " MB" },
];
const stepsSought = { unit: 0, text: "" };

function stepsTable(run) {
  const rules = new Map(run.rules.map((r) => [r.rule, r]));
  const made = el("div");
  const draw = () => {
    const unit = STEP_UNITS[stepsSought.unit];
    const column = (name, key, title, show) => {
      const of = (s) => unit.of(s[key], s, (rules.get(s.rule) || {})[key]);
      return { name, title, number: true, of, show: (s) => (isKnown(of(s)) ? show(of(s)) : null) };
    };
    fill(made, table([
      { name: "rule", of: (s) => s.rule },
      { name: "step", of: (s) => s.name, show: (s) => "– ".repeat(s.depth) + s.name },
      { name: "times", number: true, of: (s) => s.count },
      column("time", "seconds", "Steps inside are part of it", unit.time),
      column("CPU", "cpu_s", "Processor time, from samples 0.5 s apart", unit.time),
      column("read", "read", "Bytes through read calls, cached or not", unit.size),
      column("written", "written", "Bytes through write calls", unit.size),
    ], run.steps.filter((s) => (s.rule + " " + s.name).toLowerCase().includes(stepsSought.text)), { key: "steps" }));
  };
  const unit = select("Unit of steps", STEP_UNITS.map(({ name }, n) => [n, name]), stepsSought.unit, (n) => { stepsSought.unit = Number(n); draw(); });
  const filter = el("input", { type: "search", "aria-label": "Rules and steps to show", placeholder: "rule or step", value: stepsSought.text });
  filter.addEventListener("input", () => { stepsSought.text = filter.value.trim().toLowerCase(); draw(); });
  draw();
  return el("div", {}, el("div", { class: "controls" }, filter, unit), made);
}
