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
      fill(this.part.body, el("p", {}, "No telemetry in these results: an older version made them."));
      return;
    }
    if (this.follow) this.chosenRun = model.shown;
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
    const typing = document.activeElement;
    if (!(typing.type === "search" && this.tables.contains(typing))) fill(this.tables, this.tableParts());
    return true;
  }

  draw() {
    this.state.run = null;
    this.update();
    this.look.colourOf = (a) => (this.by === "rule" ? this.colours.get(a.rule) : causeColour(a.outcome));
    freeCharts(this.axis);
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

  controls() {
    const { model } = this;
    const { run } = this.state;
    const nameRun = (r) => (r.recorded ? when(r.wall) : "not recorded, from " + when(r.wall)) + " · " + word(endOf(r));
    const runs = select("Run", model.runs.map((r, n) => [n, nameRun(r)]), this.chosenRun, (n) => {
      this.chosenRun = Number(n);
      this.follow = this.chosenRun === model.shown;
      this.draw();
    });
    const by = select("Colours by", [["rule", "colours by rule"], ["cause", "colours by cause"]], this.by, (value) => {
      this.by = value;
      this.redraw();
      fill(this.legend, this.legendParts());
    });
    const limits = el("input", { type: "checkbox", checked: this.limits.shown });
    limits.addEventListener("change", () => {
      this.limits.shown = limits.checked;
      this.redraw();
    });
    const beyond = [run.budget_mb, run.machine_mb].some((v) => v);
    return el("div", { class: "controls" },
        model.runs.length > 1 ? runs : null, by,
        el("span", { class: "tools" },
          button("+", "Zoom in (+), or drag over a chart", () => this.axis.zoom(0.5)),
          button("−", "Zoom out (-)", () => this.axis.zoom(2)),
          button("◀", "Earlier (a)", () => this.axis.pan(-0.25)),
          button("▶", "Later (d)", () => this.axis.pan(0.25)),
          button("all", "Show everything (0), or double-click a chart", () => this.axis.reset())),
        beyond ? el("label", {}, limits, " limit and machine in view") : null);
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
    if (this.by === "rule" && causes.some((c) => !went(c))) keys.push(key(null, "failed", "striped"));
    if (attempts.some((a) => a.number > 1)) keys.push(key(null, "another attempt", "dashed"));
    if (attempts.some((a) => a.stalls.length)) keys.push(key(null, "idle, with the reason", "stalled"));
    if (attempts.some((a) => a.launched !== null)) keys.push(key(css("--overhead"), "Snakemake starts and ends a job", "thin"));
    if (attempts.some((a) => a.steps.length)) keys.push(key(null, "steps of a job, dark and light", "alternating"));
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
    add(this.charts, [title("Memory of all jobs", "shared pages counted once (PSS), stacked by job"), memory, title("Processors and files"), activity]);
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
      const t = stream.posToVal(event.clientX - stream.over.getBoundingClientRect().left, "x");
      const here = [stepsAt(a, t), stallAt(a, t)].filter(Boolean).join(" · ");
      fill(tip, el("b", {}, labelOf(a)), el("br"), attemptWords(a), here ? [el("br"), "here: " + here] : null);
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
    fill(this.panel, a ? [attemptPanel(a), this.view.flames.button(a)] : el("p", { class: "soft" }, "Choose a bar to see one attempt; drag over a chart to zoom in on a time."));
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
