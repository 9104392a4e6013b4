// Time and memory of a run: the stream of attempts, what they took, rules, steps, Snakemake itself.

class Resources {
  constructor(view) {
    this.view = view;
    this.by = "rule";
    this.limits = { shown: false };
    this.follow = true;
    this.state = { run: null, attempts: [] };
    this.axis = new Axis(1);
    this.look = { chosen: null, colourOf: () => PALETTE[0] };
    this.part = section("resources", "Time and memory");
    this.panel = el("div", { class: "panel", role: "status", "aria-live": "polite" });
  }

  show(model) {
    this.model = model;
    if (!model.runs.length) {
      fill(this.part.body, el("p", {}, "These results hold no telemetry: they were made by an older version."));
      return;
    }
    if (this.follow) this.chosenRun = model.runs.length - 1;
    if (!this.update()) this.draw();
  }

  // Take in the newest state of the run; true if it fits into the charts that are there.
  update() {
    const run = this.model.runs[this.chosenRun];
    const before = this.state.run;
    const attempts = this.model.attempts.filter((a) => a.run === this.chosenRun);
    this.state = Object.assign(this.state, { run, attempts });
    this.colours = ruleColours(this.model.attempts);
    this.part.note.textContent = counted(attempts.length, "attempt") + " in " + seconds(run.seconds);
    if (this.look.chosen) this.look.chosen = attempts.find((a) => a.id === this.look.chosen.id) || null;
    const same = before && before.id === run.id && before.rows.length === run.rows.length && Boolean(before.lines) === Boolean(run.lines);
    if (!same) return false;
    this.axis.extend(run.seconds);
    for (const made of this.axis.charts) made.setData(made.renew(), false);
    this.axis.set(...this.axis.shown);
    fill(this.legend, this.legendParts());
    fill(this.tables, this.tableParts());
    return true;
  }

  draw() {
    this.state.run = null;
    this.update();
    this.look.colourOf = (a) => (this.by === "rule" ? this.colours.get(a.rule) : causeColour(a.outcome));
    this.free();
    this.axis = new Axis(this.state.run.seconds);
    this.axis.name = "run " + this.state.run.id;
    this.charts = el("div", { class: "charts", tabindex: "0", "aria-label": "Charts over time. Plus and minus zoom, 0 shows everything, a and d move, the arrows go from attempt to attempt." });
    this.charts.addEventListener("keydown", (event) => this.key(event));
    this.legend = el("div", { class: "legend" }, this.legendParts());
    this.tables = el("div", {}, this.tableParts());
    fill(this.part.body, this.controls(), this.legend, this.charts, this.panel, this.tables);
    this.plots();
    this.choose(this.look.chosen);
  }

  free() {
    for (const made of this.axis.charts) {
      made.watch.disconnect();
      made.destroy();
    }
    this.axis.charts = [];
  }

  controls() {
    const { model } = this;
    const { run } = this.state;
    const runs = el("select", { "aria-label": "Run" }, model.runs.map((r, n) => {
      const name = (r.recorded ? when(r.wall) : "not recorded, from " + when(r.wall)) + " · " + word(r.outcome);
      return el("option", { value: n, selected: n === this.chosenRun }, name);
    }));
    runs.addEventListener("change", () => {
      this.chosenRun = Number(runs.value);
      this.follow = this.chosenRun === model.runs.length - 1;
      this.draw();
    });
    const by = el("select", { "aria-label": "Colours by" }, [["rule", "colours by rule"], ["cause", "colours by cause"]].map(([value, name]) => el("option", { value, selected: value === this.by }, name)));
    by.addEventListener("change", () => {
      this.by = by.value;
      this.redraw();
      fill(this.legend, this.legendParts());
    });
    const limits = el("input", { type: "checkbox", checked: this.limits.shown });
    limits.addEventListener("change", () => {
      this.limits.shown = limits.checked;
      this.redraw();
    });
    const tool = (name, title, act) => el("button", { type: "button", title, onclick: act }, name);
    const beyond = [run.budget_mb, run.machine_mb].some((v) => v);
    return el("div", { class: "controls" },
        model.runs.length > 1 ? runs : null, by,
        el("span", { class: "tools" },
          tool("+", "Zoom in (+), or drag over a chart", () => this.axis.zoom(0.5)),
          tool("−", "Zoom out (-)", () => this.axis.zoom(2)),
          tool("◀", "Earlier (a)", () => this.axis.pan(-0.25)),
          tool("▶", "Later (d)", () => this.axis.pan(0.25)),
          tool("all", "Show everything (0), or double-click a chart", () => this.axis.reset())),
        beyond ? el("label", {}, limits, " budget and machine in view") : null);
  }

  legendParts() {
    const key = (colour, name, cls) => {
      const box = el("span", { class: "key " + (cls || "") });
      if (colour) box.style.backgroundColor = colour;
      return el("span", { class: "item" }, box, name);
    };
    const { attempts } = this.state;
    const rules = [...new Set(attempts.map((a) => a.rule))];
    const causes = [...new Set(attempts.map((a) => a.outcome))];
    const keys = this.by === "rule" ? rules.map((r) => key(this.colours.get(r), r)) : causes.map((c) => key(causeColour(c), word(c)));
    if (this.by === "rule" && causes.some((c) => !went(c))) keys.push(key(null, "did not end well", "striped"));
    if (attempts.some((a) => a.number > 1)) keys.push(key(null, "another attempt", "dashed"));
    if (attempts.some((a) => a.launched !== null)) keys.push(key(css("--overhead"), "Snakemake starts and ends a job", "thin"));
    return keys;
  }

  plots() {
    const { run, attempts } = this.state;
    const title = (text, more) => el("h3", {}, text, more ? el("span", { class: "note" }, more) : null);
    const stream = el("div", { class: "plot" });
    const wide = attempts.some((a) => a.threads > 1) ? "a bar is as many rows high as it has threads" : "";
    add(this.charts, [title("Attempts on cores", wide), stream]);
    this.stream = streamChart(stream, this.axis, this.state, this.look);
    this.listen(stream);
    if (!run.lines) {
      add(this.charts, [el("p", { class: "soft" }, "No samples of memory: these jobs were run by an older version.")]);
      return;
    }
    const memory = el("div", { class: "plot" });
    const activity = el("div", { class: "plot" });
    add(this.charts, [title("Memory of all jobs", "resident, stacked by job"), memory, title("Processors and files"), activity]);
    memoryChart(memory, this.axis, this.state, this.look, this.limits);
    activityChart(activity, this.axis, this.state);
  }

  listen(host) {
    const { stream } = this;
    const rows = Math.max(1, this.state.run.rows.length);
    const tip = el("div", { class: "tip", hidden: true });
    host.append(tip);
    const at = (event) => {
      const box = stream.over.getBoundingClientRect();
      return attemptAt(stream, rows, this.state.attempts, event.clientX - box.left, event.clientY - box.top);
    };
    stream.over.addEventListener("mousemove", (event) => {
      const a = at(event);
      tip.hidden = !a;
      stream.over.style.cursor = a ? "pointer" : "crosshair";
      if (!a) return;
      fill(tip, el("b", {}, labelOf(a)), el("br"), attemptWords(a));
      const box = host.getBoundingClientRect();
      const x = event.clientX - box.left;
      tip.style.left = Math.min(x + 14, Math.max(0, box.width - tip.offsetWidth - 4)) + "px";
      tip.style.top = event.clientY - box.top + 16 + "px";
    });
    stream.over.addEventListener("mouseleave", () => (tip.hidden = true));
    let down = null;
    stream.over.addEventListener("mousedown", (event) => (down = event.clientX));
    stream.over.addEventListener("click", (event) => {
      if (down !== null && Math.abs(event.clientX - down) > 4) return;
      this.choose(at(event));
    });
  }

  key(event) {
    if (this.axis.key(event)) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") this.choose(null);
    const { attempts } = this.state;
    if (!step || !attempts.length) return;
    event.preventDefault();
    const now = attempts.indexOf(this.look.chosen);
    const next = now < 0 ? (step > 0 ? 0 : attempts.length - 1) : now + step;
    this.choose(attempts[Math.min(Math.max(next, 0), attempts.length - 1)], true);
  }

  choose(a, reveal) {
    this.look.chosen = a;
    if (a && reveal && (a.end < this.axis.shown[0] || a.start > this.axis.shown[1])) {
      const span = this.axis.shown[1] - this.axis.shown[0];
      this.axis.set((a.start + a.end - span) / 2, (a.start + a.end + span) / 2);
    }
    fill(this.panel, a ? attemptPanel(a) : el("p", { class: "soft" }, "Choose a bar to see one attempt; drag over a chart to zoom in on a time."));
    this.stream.redraw(false);
  }

  redraw() {
    for (const made of this.axis.charts) made.redraw(true, true);
    this.axis.set(...this.axis.shown);
  }

  restyle() {
    if (this.state.run) this.draw();
  }

  open(id) {
    const a = this.model.attempts.find((attempt) => attempt.id === id);
    if (!a) return;
    if (a.run !== this.chosenRun) {
      this.chosenRun = a.run;
      this.follow = false;
      this.draw();
    }
    this.choose(a, true);
    this.charts.scrollIntoView({ block: "start" });
    this.charts.focus({ preventScroll: true });
  }

  tableParts() {
    const { run, attempts } = this.state;
    return [
      el("h3", { id: "rules" }, "By rule"),
      rulesTable(run),
      overheadPart(run),
      stepsPart(run),
      folded("All attempts (" + attempts.length + ")", () => attemptsTable(attempts, (a) => this.open(a.id)), { key: "attempts" }),
    ];
  }
}

function attemptWords(a) {
  const used = a.peak_mb === null ? "" : "peak " + mb(a.peak_mb) + (a.declared_mb ? " of " + mb(a.declared_mb) + " declared" : "");
  return [word(a.outcome) + " after " + seconds(a.end - a.start), used, a.cpu_s === null ? "" : seconds(a.cpu_s) + " CPU"].filter(Boolean).join(" · ");
}

function attemptPanel(a) {
  const share = a.peak_mb !== null && a.declared_mb ? " (" + percent(a.peak_mb / a.declared_mb) + " of what was declared)" : "";
  const start = a.launched === null ? "" : " · started by Snakemake " + seconds(a.start - a.launched) + " before";
  const made = el("div", { class: "attempt" },
    el("h3", {}, badge(a.outcome), " ", a.title, a.tries > 1 ? " · attempt " + a.number + " of " + a.tries : ""),
    a.message ? el("p", {}, a.message) : null,
    facts([
      ["time", seconds(a.end - a.start) + " from " + seconds(a.start) + " on" + start],
      ["peak memory", a.peak_mb === null ? null : mb(a.peak_mb) + share],
      ["declared", mb(a.declared_mb)],
      ["CPU", a.cpu_s === null ? null : seconds(a.cpu_s) + " on " + counted(a.threads, "thread")],
      ["read, written", a.read === null ? null : bytes(a.read) + ", " + bytes(a.written)],
      ["progress", a.of ? a.done + " of " + a.of + " blocks" : null],
      ["stalls", a.stalls.length ? a.stalls.map(([t, s]) => seconds(s) + " at " + seconds(t)).join(", ") : null],
      ["why it was run", a.reason],
      ["machine", a.host],
      ["log", a.log],
    ]),
    a.steps.length ? stepBars(a) : null);
  if (a.curve) {
    const host = el("div", { class: "plot small" });
    made.append(host);
    requestAnimationFrame(() => host.isConnected && attemptChart(host, a));
  }
  return made;
}

function attemptChart(host, a) {
  const t = edges(a.curve.hi.length, a.end - a.start);
  const stepped = uPlot.paths.stepped({ align: 1 });
  const own = new Axis(a.end - a.start);
  own.name = "attempt " + a.id;
  const declared = a.declared_mb || 0;
  const value = (u, v) => (v === null || v === undefined ? "–" : mb(v));
  chart(host, own, {
    height: 150,
    legend: true,
    scales: { y: { range: (u, min, max) => [0, 1.1 * Math.max(declared, max || 1)] }, cpu: { range: (u, min, max) => [0, 1.1 * Math.max(a.threads, max || 0)] } },
    left: { values: (u, ticks) => ticks.map((v) => (v ? mb(v) : "0")) },
    right: axisStyle({ side: 1, size: RIGHT, scale: "cpu", grid: { show: false } }),
    series: [
      { label: "time", value: (u, v) => (v === null ? "–" : seconds(v)) },
      { label: "memory, highest", paths: stepped, stroke: css("--ink"), fill: css("--cpu-fill"), width: 1.5, points: { show: false }, value, spanGaps: true },
      { label: "memory, lowest", paths: stepped, stroke: css("--soft"), width: 1, points: { show: false }, value, spanGaps: true },
      { label: "declared", paths: stepped, stroke: css("--declared"), dash: [6, 3], width: 1.5, points: { show: false }, value },
      { label: "processors", scale: "cpu", paths: stepped, stroke: css("--io"), dash: [4, 2], width: 1, points: { show: false }, value: (u, v) => (v === null || v === undefined ? "–" : v.toFixed(1)) },
    ],
    hooks: {},
    renew: () => [t, held(a.curve.hi), held(a.curve.lo), t.map(() => declared || null), held(a.curve.cpu)],
  });
}

function stepBars(a) {
  const whole = a.end - a.start || 1;
  return el("div", { class: "steps" }, a.steps.map(([name, begin, end, depth]) => {
    const bar = el("span", { class: "bar" });
    bar.style.marginLeft = (100 * begin) / whole + "%";
    bar.style.width = Math.max(0.3, (100 * (end - begin)) / whole) + "%";
    const label = el("span", { class: "name" }, "  ".repeat(depth) + name + " · " + seconds(end - begin));
    return el("div", {}, label, el("span", { class: "lane" }, bar));
  }));
}

function shareBar(parts) {
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  if (!(whole > 0)) return null;
  const told = parts.map(([name, value]) => name + " " + percent(value / whole)).join(", ");
  const made = el("span", { class: "share", role: "img", "aria-label": told, title: told });
  for (const [name, value] of parts) {
    const piece = el("span", { class: "piece " + name });
    piece.style.width = (100 * value) / whole + "%";
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
    { name: "ok / attempts", title: "Attempts that ended well, of all", number: true, of: (r) => r.attempts, show: (r) => r.ended_well + " / " + r.attempts, cls: (r) => (r.ended_well + r.running < r.attempts ? "bad" : "") },
    { name: "declared", title: "Predicted peak memory of the attempt that came nearest to it", number: true, of: (r) => r.declared_mb, show: (r) => mb(r.declared_mb) },
    { name: "measured", title: "Peak memory of the same attempt", number: true, of: (r) => r.peak_mb, show: (r) => mb(r.peak_mb) },
    { name: "used of declared", number: true, of: (r) => (r.declared_mb ? r.peak_mb / r.declared_mb : null), show: (r) => meter(r.peak_mb, r.declared_mb) },
    { name: "time", title: "Of all attempts together", number: true, of: (r) => r.seconds, show: (r) => seconds(r.seconds) },
    { name: "longest", number: true, of: (r) => r.longest_s, show: (r) => seconds(r.longest_s) },
    { name: "CPU", title: "Processor time, and processors at work on average", number: true, of: (r) => r.cpu_s, show: (r) => seconds(r.cpu_s) + " (" + (r.cores || 0).toFixed(1) + "×)" },
    { name: "where time went", title: "At work on a processor (blue), reading or writing without (orange), neither (grey)", of: part("computing"), show: (r) => shareBar(split(r)) },
    { name: "work", number: true, title: "Share of time at work on a processor", of: part("computing"), show: (r) => percent(part("computing")(r)) },
    { name: "files", number: true, title: "Share of time that only bytes were moved, or the disk waited for", of: part("moving"), show: (r) => percent(part("moving")(r)) },
    { name: "wait", number: true, title: "Share of time that nothing happened: waiting for a processor, a lock, the network", of: part("waiting"), show: (r) => percent(part("waiting")(r)) },
    { name: "read", number: true, of: (r) => r.read, show: (r) => bytes(r.read) },
    { name: "written", number: true, of: (r) => r.written, show: (r) => bytes(r.written) },
    { name: "MB/s", title: "Bytes read and written in each second of a job, cached or not", number: true, of: (r) => r.mb_per_s, show: (r) => digits(r.mb_per_s, 3) },
  ];
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
      ["before the first job", seconds(o.before)],
      ["to start a job, mean", seconds(o.launching)],
      ["to note its end, mean", seconds(o.closing)],
      ["no job ran, in between", seconds(o.idle)],
      ["after the last job", seconds(o.after)],
      ["jobs at a time, mean", run.seconds > 0 ? (work / run.seconds).toFixed(2) + (run.cores ? " on " + counted(run.cores, "core") : "") : null],
      ["clocks put right", Object.entries(run.shifts).map(([host, s]) => host + " by " + seconds(Math.abs(s)) + (s < 0 ? " back" : "")).join(", ")],
    ]),
  ];
}

function stepsPart(run) {
  if (!run.steps.length) return null;
  return folded("Steps of jobs (" + run.steps.length + ")", () => table([
    { name: "rule", of: (s) => s.rule },
    { name: "step", of: (s) => s.name, show: (s) => "– ".repeat(s.depth) + s.name },
    { name: "times", number: true, of: (s) => s.count },
    { name: "together", number: true, of: (s) => s.seconds, show: (s) => seconds(s.seconds) },
    { name: "mean", number: true, of: (s) => s.seconds / s.count, show: (s) => seconds(s.seconds / s.count) },
  ], run.steps, { key: "steps" }), { key: "steps", open: run.steps.length <= 40 });
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
    { name: "read", number: true, of: (a) => a.read, show: (a) => bytes(a.read) },
    { name: "written", number: true, of: (a) => a.written, show: (a) => bytes(a.written) },
    { name: "machine", of: (a) => a.host },
  ], attempts, { key: "attempts", onrow: open });
}
