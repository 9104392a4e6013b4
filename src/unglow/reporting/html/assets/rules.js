// Tables of a run: rules, Snakemake itself, steps, all attempts.

function shareBar(parts) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  if (!(total > 0)) return null;
  const words = parts.map(([name, value]) => name + " " + percent(value / total)).join(", ");
  const made = el("span", { class: "share", role: "img", "aria-label": words, title: words });
  for (const [name, value] of parts) {
    const piece = el("span", { class: "piece " + name });
    piece.style.width = (100 * value) / total + "%";
    made.append(piece);
  }
  return made;
}

function meter(value, limit) {
  if (value === null || !limit) return null;
  const share = value / limit;
  const inside = el("span", { class: share > 1 ? "over" : share > 0.9 ? "near" : "fine" });
  inside.style.width = Math.min(100, 100 * share) + "%";
  return el("span", { class: "meter" }, el("span", { class: "track" }, inside), " ", percent(share), share > 1 ? " ✕" : "");
}

function rulesTable(run) {
  const split = (r) => [["computing", r.split.computing], ["files", r.split.moving], ["waiting", r.split.waiting]];
  const part = (name) => (r) => (r.seconds > 0 ? r.split[name] / r.seconds : null);
  const columns = [
    { name: "rule", of: (r) => r.rule },
    { name: "ok / attempts", title: "Attempts that finished, of all", number: true, of: (r) => r.attempts, show: (r) => r.ended_well + " / " + r.attempts, cls: (r) => (r.ended_well + r.running < r.attempts ? "bad" : "") },
    { name: "declared", title: "Predicted peak memory of the attempt that came closest to it", number: true, of: (r) => r.declared_mb, show: (r) => mb(r.declared_mb) },
    { name: "measured", title: "Largest resident set of a single process of the same attempt (VmHWM)", number: true, of: (r) => r.peak_mb, show: (r) => mb(r.peak_mb) },
    { name: "used of declared", number: true, of: (r) => (r.declared_mb ? r.peak_mb / r.declared_mb : null), show: (r) => meter(r.peak_mb, r.declared_mb) },
    { name: "time", title: "Of all attempts together", number: true, of: (r) => r.seconds, show: (r) => seconds(r.seconds) },
    { name: "longest", number: true, of: (r) => r.longest_s, show: (r) => seconds(r.longest_s) },
    { name: "CPU", title: "Processor time, and processors at work on average", number: true, of: (r) => r.cpu_s, show: (r) => seconds(r.cpu_s) + " (" + (r.cores || 0).toFixed(1) + "×)" },
    { name: "work / files / wait", title: "Shares of time: at work on a processor (blue), only moving bytes or waiting for the disk (orange), waiting for a processor, a lock, the network (grey)", of: part("computing"), show: (r) => el("div", {}, shareBar(split(r)), el("div", { class: "soft" }, split(r).map(([, s]) => (r.seconds > 0 ? Math.round((100 * s) / r.seconds) : 0)).join(" / ") + " %")) },
    { name: "read", number: true, of: (r) => r.read, show: (r) => bytes(r.read) },
    { name: "written", number: true, of: (r) => r.written, show: (r) => bytes(r.written) },
    { name: "MB/s", title: "Bytes read and written in each second of a job, cached or not", number: true, of: (r) => r.mb_per_s, show: (r) => digits(r.mb_per_s, 3) },
  ];
  if (run.rules.some((r) => isKnown(r.lost_most_mb))) {
    const lost = (amount) => mb(Math.max(0, amount));
    columns.push({ name: "left behind", title: "Memory missing on the machine after an attempt and not used by any process: median and largest of all attempts. Other programs change it, too", number: true, of: (r) => r.lost_most_mb, show: (r) => (isKnown(r.lost_most_mb) ? lost(r.lost_median_mb) + " / " + lost(r.lost_most_mb) : null) });
  }
  if (run.rules.some((r) => r.pixels)) {
    columns.push({ name: "Mpx/s", number: true, of: (r) => r.pixels / r.seconds, show: (r) => (r.pixels ? digits(r.pixels / 1e6 / r.seconds, 3) : null) });
  }
  return table(columns, run.rules, { key: "rules" });
}

function overheadPart(run) {
  const o = run.overhead;
  if (!o) return null;
  const work = run.rules.reduce((sum, r) => sum + r.seconds, 0);
  return [
    el("h3", {}, "Snakemake itself"),
    facts([
      ["time before the first job", seconds(o.before)],
      ["time to start a job, mean", seconds(o.launching)],
      ["time to record its end, mean", seconds(o.closing)],
      ["time without a job, in between", seconds(o.idle)],
      ["time after the last job", seconds(o.after)],
      ["jobs at a time, mean", run.seconds > 0 ? (work / run.seconds).toFixed(2) + (run.cores ? " on " + counted(run.cores, "core") : "") : null],
      ["clocks put right", Object.entries(run.shifts).map(([host, s]) => host + " by " + seconds(Math.abs(s)) + (s < 0 ? " back" : "")).join(", ")],
    ]),
  ];
}

// Units for the numbers of a step: {name, of(number, tally)}.
const STEP_UNITS = [
  { name: "all together", of: (value) => value, time: seconds, size: bytes },
  { name: "each time", of: (value, s) => value / s.count, time: seconds, size: bytes },
  { name: "share of the rule", of: (value, s, total) => (total > 0 ? value / total : null), time: percent, size: percent },
  { name: "per Mpx", of: (value, s) => (s.pixels ? value / (s.pixels / 1e6) : null), time: (v) => (v < 0.1 ? digits(1000 * v, 3) + " ms" : seconds(v)), size: (v) => digits(v / 1e6, 3) + " MB" },
];

function stepsPart(run) {
  if (!run.steps.length) return null;
  return folded("Steps of jobs (" + run.steps.length + ")", () => stepsTable(run), { key: "steps", open: run.steps.length <= 40 });
}

function stepsTable(run) {
  const chosen = remembered.get("steps chosen") || { unit: 0, text: "" };
  remembered.set("steps chosen", chosen);
  const rules = new Map(run.rules.map((r) => [r.rule, r]));
  const made = el("div");
  const draw = () => {
    const unit = STEP_UNITS[chosen.unit];
    const column = (name, key, title, show) => {
      const of = (s) => unit.of(s[key], s, (rules.get(s.rule) || {})[key]);
      return { name, title, number: true, of, show: (s) => (isKnown(of(s)) ? show(of(s)) : null) };
    };
    const text = chosen.text.trim().toLowerCase();
    fill(made, table([
      { name: "rule", of: (s) => s.rule },
      { name: "step", of: (s) => s.name, show: (s) => "– ".repeat(s.depth) + s.name },
      { name: "times", number: true, of: (s) => s.count },
      column("time", "seconds", "Steps inside are part of it", unit.time),
      column("CPU", "cpu_s", "Processor time, from samples 0.1 s apart", unit.time),
      column("read", "read", "Bytes through read calls, cached or not", unit.size),
      column("written", "written", "Bytes through write calls", unit.size),
    ], run.steps.filter((s) => (s.rule + " " + s.name).toLowerCase().includes(text)), { key: "steps" }));
  };
  const unit = select("Unit of steps", STEP_UNITS.map(({ name }, n) => [n, name]), chosen.unit, (n) => {
    chosen.unit = Number(n);
    draw();
  });
  const filter = el("input", { type: "search", "aria-label": "Rules and steps to show", placeholder: "rule or step", value: chosen.text });
  filter.addEventListener("input", () => {
    chosen.text = filter.value;
    draw();
  });
  draw();
  return el("div", {}, el("div", { class: "controls" }, filter, unit), made);
}

function attemptsTable(attempts, open) {
  return table([
    { name: "attempt", of: (a) => a.title, show: (a) => a.title + (a.tries > 1 ? " (" + a.number + " of " + a.tries + ")" : "") },
    { name: "outcome", of: (a) => a.outcome, show: (a) => badge(a.outcome) },
    { name: "from", number: true, of: (a) => a.start, show: (a) => seconds(a.start) },
    { name: "time", number: true, of: (a) => a.end - a.start, show: (a) => seconds(a.end - a.start) },
    { name: "declared", number: true, of: (a) => a.declared_mb, show: (a) => mb(a.declared_mb) },
    { name: "peak", number: true, of: (a) => a.peak_mb, show: (a) => mb(a.peak_mb) },
    { name: "CPU", number: true, of: (a) => a.cpu_s, show: (a) => seconds(a.cpu_s) },
    { name: "threads", title: "Asked for, and the most that were seen ready to run at once", number: true, of: (a) => a.runnable, show: (a) => a.threads + (isKnown(a.runnable) ? " / " + a.runnable : ""), cls: (a) => (a.crowded ? "bad" : "") },
    { name: "read", number: true, of: (a) => a.read, show: (a) => bytes(a.read) },
    { name: "written", number: true, of: (a) => a.written, show: (a) => bytes(a.written) },
    { name: "machine", of: (a) => a.host },
  ], attempts, { key: "attempts", onrow: open });
}
