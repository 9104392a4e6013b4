// Time and memory of a run: the stream of attempts, what they took, rules, steps, other runs.

const nameOfRun = (r) => r.name || (r.recorded ? when(r.wall) : "not recorded, from " + when(r.wall)) + " · " + word(endOf(r));

class Resources {
  constructor(view) {
    this.view = view;
    this.follow = true;
    this.state = { run: null, attempts: [] };
    this.axis = new Axis(1);
    this.look = { chosen: null, colourOf: (a) => this.colours.get(a.rule) };
    this.part = section("resources", "Time and memory");
    this.panel = el("div", { class: "panel", role: "status", "aria-live": "polite" });
  }

  show(model) {
    this.model = model;
    if (!model.runs.length) {
      fill(this.part.body, el("p", {}, "No telemetry in these results."));
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
    const rules = [...new Set(this.model.attempts.map((a) => a.rule))];
    this.state = Object.assign(this.state, { run, attempts });
    this.colours = new Map(rules.map((rule, n) => [rule, PALETTE[n % PALETTE.length]]));
    this.part.note.textContent = counted(attempts.length, "attempt") + " in " + seconds(run.seconds);
    if (this.look.chosen) this.look.chosen = attempts.find((a) => a.id === this.look.chosen.id) || null;
    const same = before && before.id === run.id && before.rows.length === run.rows.length && Boolean(before.lines) === Boolean(run.lines);
    if (!same) return false;
    this.axis.extend(run.seconds);
    for (const made of this.axis.charts) made.setData(made.renew(), false);
    this.axis.set(...this.axis.shown);
    fill(this.legend, this.legendParts());
    if (!this.tables.contains(document.activeElement)) fill(this.tables, this.tableParts());
    return true;
  }

  draw() {
    this.state.run = null;
    this.update();
    freeCharts(this.axis);
    this.axis = new Axis(this.state.run.seconds);
    this.axis.name = "run " + this.state.run.id;
    this.charts = el("div", { class: "charts", tabindex: "0", "aria-label": "Charts over time. The arrows go from attempt to attempt." });
    this.charts.addEventListener("keydown", (event) => this.key(event));
    this.legend = el("div", { class: "legend" }, this.legendParts());
    this.tables = el("div", {}, this.tableParts());
    fill(this.part.body, this.controls(), this.legend, this.charts, this.panel, this.tables);
    this.plots();
    this.choose(this.look.chosen);
  }

  controls() {
    const { model } = this;
    const runs = select("Run", model.runs.map((r, n) => [n, nameOfRun(r)]), this.chosenRun, (n) => {
      this.chosenRun = Number(n);
      this.follow = this.chosenRun === model.shown;
      keepFocus(() => this.draw());
    });
    return el("div", { class: "controls" }, model.runs.length > 1 ? runs : null, el("span", { class: "soft" }, "Drag over a chart to see a part of the time, double-click for all."));
  }

  legendParts() {
    const key = (colour, name, cls) => {
      const box = el("span", { class: "key " + (cls || "") });
      if (colour) box.style.backgroundColor = colour;
      return el("span", { class: "item" }, box, name);
    };
    const { attempts } = this.state;
    return [
      [...new Set(attempts.map((a) => a.rule))].map((r) => key(this.colours.get(r), r)),
      attempts.every((a) => went(a.outcome)) ? null : key(null, "failed", "striped"),
      attempts.some((a) => a.number > 1) ? key(null, "another attempt", "dashed") : null,
      attempts.some((a) => a.stalls.length) ? key(null, "idle, with the reason", "stalled") : null,
    ];
  }

  plots() {
    const { run, attempts } = this.state;
    const plot = (title, more) => {
      const host = el("div", { class: "plot" });
      add(this.charts, el("h3", {}, title, more ? el("span", { class: "note" }, more) : null), host);
      return host;
    };
    const stream = plot("Attempts on cores", attempts.some((a) => a.threads > 1) ? "a bar is as many rows high as it has threads" : "");
    this.stream = streamChart(stream, this.axis, this.state, this.look);
    this.listen(stream);
    if (!run.lines) return;
    const of = [["limit of the run", run.budget_mb], ["machine", run.machine_mb]].filter(([, v]) => v).map(([name, v]) => "; " + name + " " + mb(v)).join("");
    memoryChart(plot("Memory of all jobs", "shared memory is counted once; peak " + mb(run.lines.peak.mb) + of), this.axis, this.state);
    activityChart(plot("Processors and files"), this.axis, this.state);
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
      const here = doneAt(a, stream.posToVal(event.clientX - stream.over.getBoundingClientRect().left, "x"));
      fill(tip, el("b", {}, labelOf(a)), el("br"), attemptWords(a), here ? [el("br"), "here: " + here] : null);
      const box = host.getBoundingClientRect();
      tip.style.left = Math.min(event.clientX - box.left + 14, Math.max(0, box.width - tip.offsetWidth - 4)) + "px";
      tip.style.top = event.clientY - box.top + 16 + "px";
    });
    stream.over.addEventListener("mouseleave", () => (tip.hidden = true));
    let down = null;
    stream.over.addEventListener("mousedown", (event) => (down = event.clientX));
    stream.over.addEventListener("click", (event) => {
      if (down === null || Math.abs(event.clientX - down) <= 4) this.choose(at(event));
    });
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const { attempts } = this.state;
    if (!step || !attempts.length) return;
    event.preventDefault();
    const now = attempts.indexOf(this.look.chosen);
    this.choose(attempts[now < 0 ? 0 : Math.min(Math.max(now + step, 0), attempts.length - 1)]);
  }

  choose(a) {
    this.look.chosen = a;
    if (a && (a.end < this.axis.shown[0] || a.start > this.axis.shown[1])) this.axis.set(...this.axis.full);
    fill(this.panel, a ? [attemptPanel(a), this.view.flames.button(a), this.view.logButton(a)] : el("p", { class: "soft" }, "Choose a bar to see one attempt."));
    this.stream.redraw(false);
  }

  open(id) {
    const a = this.model.attempts.find((attempt) => attempt.id === id);
    if (!a) return;
    if (a.run !== this.chosenRun) {
      this.chosenRun = a.run;
      this.follow = false;
      this.draw();
    }
    this.choose(a);
    this.charts.scrollIntoView({ block: "start" });
    this.charts.focus({ preventScroll: true });
  }

  tableParts() {
    const { run } = this.state;
    const runs = this.model.runs.filter((r) => r.lines).slice(-8);
    return [
      el("h3", { id: "rules" }, "By rule"),
      rulesTable(run),
      run.steps.length ? folded("Steps of jobs (" + run.steps.length + ")", () => stepsTable(run), { key: "steps", open: run.steps.length <= 40 }) : null,
      runs.length > 1 ? folded("Memory of runs over each other (" + runs.length + ")", () => {
        const host = el("div", { class: "plot" });
        runsChart(host, runs);
        return host;
      }, { key: "runs over each other" }) : null,
    ];
  }
}
