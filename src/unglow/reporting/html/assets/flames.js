// Flame graphs of profiled jobs: time by call, the outermost first.

const FLAME_ROW = 20;
const FLAMES_MS = 5000;
const FLAME_BINS = 240; // of the chart of its time
const FLAME_TEXT = 28; // no words on a bar that is narrower, px

// One colour for all calls of a file.
function fileColour(file) {
  let mixed = 7;
  for (const letter of file) mixed = (mixed * 31 + letter.codePointAt(0)) >>> 0;
  return PALETTE[mixed % PALETTE.length];
}

class Flames {
  constructor() {
    this.part = section("flames", "Flame graph");
    this.part.made.hidden = true;
    this.rule = this.attempt = "";
    this.zoomed = 0;
    this.attempts = [];
    this.axis = new Axis(1);
    this.asks = null; // gets the profiles of a running run
  }

  show(model) {
    this.model = model;
    if (model.live) this.wait();
    else this.take(model.flames);
  }

  // While a run is active, profiles are requested only while the graph is open and shows all calls.
  wait() {
    const run = this.model.runs[this.model.runs.length - 1];
    this.part.made.hidden = !(run && run.config && run.config.profile);
    if (this.part.made.hidden || this.folded) return;
    this.shown = el("div");
    this.folded = el("details", {}, el("summary", {}, "Show the profiles written so far"), this.shown);
    this.folded.addEventListener("toggle", () => this.ask());
    fill(this.part.body, this.folded);
  }

  async ask() {
    clearTimeout(this.timer);
    if (!this.folded.open) return;
    const still = document.hidden || this.zoomed || this.partly() || this.part.body.contains(document.activeElement) && document.activeElement.tagName !== "SUMMARY";
    const profiled = still ? undefined : await this.asks();
    if (profiled !== undefined && this.folded.open) this.take(profiled);
    this.timer = setTimeout(() => this.ask(), FLAMES_MS);
  }

  take(profiled) {
    if (!this.folded) this.part.made.hidden = !profiled;
    if (this.watch) this.watch.disconnect();
    const { rule, attempt } = this;
    const known = new Map(profiled ? this.model.attempts.map((a) => [a.id, a]) : []);
    this.attempts = profiled ? profiled.attempts.map((one) => ({ ...one, of: known.get(one.attempt) })).filter((one) => one.of) : [];
    if (!this.attempts.length) {
      if (this.folded) fill(this.shown, el("p", { class: "soft" }, "No job has written a profile yet; the first comes after some 10 s."));
      return;
    }
    this.parents = [0, ...profiled.in];
    this.frames = [null, ...profiled.frame.map((k) => profiled.frames[k])]; // [name, file, line] of each call
    this.calls = this.parents.map(() => []);
    this.parents.forEach((parent, node) => node && this.calls[parent].push(node));
    const same = this.attempts.some(({ of }) => (!rule || of.rule === rule) && (!attempt || of.id === attempt));
    this.zoomed = 0;
    this.draw(same ? rule : "", same ? attempt : "");
  }

  // A way to here from an attempt elsewhere, if it was profiled.
  button(a) {
    const profiled = this.attempts.some(({ of }) => of.id === a.id);
    if (!profiled && this.folded && a.outcome === "running") {
      return button("Flame graph of this attempt", null, () => this.later(a));
    }
    return profiled ? button("Flame graph of this attempt", null, () => this.open(a)) : null;
  }

  async later(a) {
    this.folded.open = true;
    this.take(await this.asks());
    if (this.attempts.some(({ of }) => of.id === a.id)) this.open(a);
    else this.part.made.scrollIntoView({ block: "start" });
  }

  open(a) {
    this.choose(a.rule, a.id);
    this.part.made.scrollIntoView({ block: "start" });
    this.bars.querySelector("button").focus({ preventScroll: true });
  }

  restyle() {
    if (!this.attempts.length) return;
    this.drawTime();
    this.update();
  }

  draw(rule, attempt) {
    this.status = el("div", { class: "flames-status", role: "status", "aria-live": "polite" });
    this.inside = el("div", { role: "group", "aria-label": "Calls, outermost first" });
    this.bars = el("div", { class: "flames-bars" }, this.inside);
    this.controls = el("div", { class: "controls" });
    this.time = el("div", { class: "charts", tabindex: "0", "aria-label": "Time of the flame graph. Plus and minus choose less or more of it, 0 all, a and d move." });
    this.time.addEventListener("keydown", (event) => this.axis.key(event));
    this.listen();
    fill(this.folded ? this.shown : this.part.body, this.controls, this.time, this.status, this.bars,
      el("p", { class: "soft" }, "Drag over the chart to see the calls of a time only. Click a call to see it alone, and one above it, or press Escape, to go back. Arrows go from call to call."));
    this.choose(rule, attempt);
    this.watch = new ResizeObserver(() => this.bars.clientWidth !== this.width && this.update());
    this.watch.observe(this.bars);
  }

  choose(rule, id) {
    this.rule = rule;
    this.attempt = id;
    this.zoomed = 0;
    const rules = [...new Set(this.attempts.map(({ of }) => of.rule))];
    const own = this.attempts.filter(({ of }) => !rule || of.rule === rule);
    fill(this.controls,
      select("Rule of the flame graph", [["", "all rules"], ...rules.map((r) => [r, r])], rule, (chosen) => this.choose(chosen, "")),
      select("Attempt of the flame graph", [["", "all attempts (" + own.length + ")"], ...own.map(({ of }) => [of.id, labelOf(of)])], id, (chosen) => this.choose(this.rule, chosen)),
      button("All calls", "Back from one call to all (Escape)", () => this.zoom(0)),
      el("span", { class: "tools" },
        button("+", "Less time (+), or drag over the chart", () => this.axis.zoom(0.5)),
        button("−", "More time (-)", () => this.axis.zoom(2)),
        button("◀", "Earlier (a)", () => this.axis.pan(-0.25)),
        button("▶", "Later (d)", () => this.axis.pan(0.25)),
        button("all time", "Show all of the time (0), or double-click the chart", () => this.axis.reset())));
    this.chosen = own.filter(({ of }) => !id || of.id === id);
    freeCharts(this.axis);
    this.axis = new Axis(Math.max(...this.chosen.map(({ of }) => of.end)), Math.min(...this.chosen.map(({ of }) => of.start)));
    this.axis.name = "flames";
    this.drawTime();
    this.times();
    this.update();
  }

  // Threads at work over time, of which a part can be chosen.
  drawTime() {
    const [[begin, end], count] = [this.axis.full, FLAME_BINS];
    const each = (end - begin) / count;
    const busy = new Float64Array(count);
    this.eachTime((node, from, to, s) => {
      const [first, last] = [from, to].map((t) => Math.min(count - 1, Math.max(0, Math.floor((t - begin) / each))));
      for (let k = first; k <= last; k++) busy[k] += first === last ? s : (s * Math.max(0, Math.min(to, begin + (k + 1) * each) - Math.max(from, begin + k * each))) / (to - from);
    });
    const threads = [...busy].map((s) => s / each);
    this.axis.changed = () => {};
    freeCharts(this.axis);
    fill(this.time);
    chart(this.time, this.axis, {
      height: 90,
      scales: { y: { range: (u, min, max) => [0, 1.1 * Math.max(1, max || 0)] } },
      left: { values: (u, ticks) => ticks.map((v) => (Number.isInteger(v) ? String(v) : "")) },
      series: [timeSeries(), stepSeries("threads at work", css("--cpu"), oneDecimal, { fill: css("--cpu-fill") })],
      renew: () => [edges(count, end - begin).map((t) => begin + t), held(threads)],
    });
    this.axis.changed = () => {
      this.times();
      this.update();
    };
  }

  // Calls act(node, from, to, seconds) for every sample, s since the start of the run.
  eachTime(act) {
    for (const { node, bin, ms, bin_s: width, of } of this.chosen) {
      node.forEach((one, k) => {
        const from = width ? of.start + bin[k] * width : of.start; // not known when: all of the attempt
        act(one, from, width ? from + width : of.end, ms[k] / 1000);
      });
    }
  }

  // Whether only a part of the time is shown.
  partly() {
    const { shown, full } = this.axis;
    return shown[0] > full[0] || shown[1] < full[1];
  }

  // Seconds of threads in each call itself, and with all that it calls, in the time that is shown.
  times() {
    this.own = new Float64Array(this.parents.length);
    const [start, end] = this.partly() ? this.axis.shown : [-Infinity, Infinity];
    this.eachTime((node, from, to, s) => {
      const inside = Math.min(to, end) - Math.max(from, start);
      if (inside > 0) this.own[node] += s * (to > from ? Math.min(1, inside / (to - from)) : 1);
    });
    this.all = this.own.slice();
    for (let node = this.all.length - 1; node > 0; node--) this.all[this.parents[node]] += this.all[node];
    const time = this.partly() ? ", from " + seconds(start) + " to " + seconds(end) : "";
    this.part.note.textContent = counted(this.chosen.length, "profiled attempt") + ", " + (seconds(this.all[0]) || "0 s") + " of threads" + time;
    if (!(this.all[this.zoomed] > 0)) this.zoomed = 0;
  }

  zoom(node) {
    this.zoomed = node;
    this.update();
    this.focus(node);
  }

  update() {
    this.width = this.bars.clientWidth;
    this.laid = this.layout();
    const lowest = Math.max(...this.laid.map(({ depth }) => depth));
    this.inside.style.height = (lowest + 1) * FLAME_ROW + "px";
    fill(this.inside, this.laid.map((bar) => this.bar(bar)));
    this.focusable(this.zoomed);
    this.describe(this.zoomed);
  }

  // Bars to draw: {node, depth, x, width}, the last two as shares; the longest call comes first.
  layout() {
    const least = 1.5 / Math.max(300, this.width);
    const above = [];
    for (let node = this.zoomed; node; node = this.parents[node]) above.unshift(this.parents[node]);
    const made = above.map((node, depth) => ({ node, depth, x: 0, width: 1, above: true }));
    const down = [{ node: this.zoomed, depth: above.length, x: 0, width: 1 }];
    while (down.length) {
      const bar = down.pop();
      made.push(bar);
      let x = bar.x;
      const calls = this.calls[bar.node].filter((node) => this.all[node] > 0).sort((a, b) => this.all[b] - this.all[a]);
      for (const node of calls) {
        const width = this.all[node] / this.all[this.zoomed];
        if (width < least) break;
        down.push({ node, depth: bar.depth + 1, x, width });
        x += width;
      }
    }
    return made;
  }

  words(node) {
    let name = this.attempt ? labelOf(this.chosen[0].of) : this.rule || "all rules";
    if (node) name = this.frames[node][this.frames[node][0] === "<module>" ? 1 : 0];
    return name + " · " + (percent(this.all[0] ? this.all[node] / this.all[0] : 0) || "0 %") + " · " + (seconds(this.all[node]) || "0 s");
  }

  bar(bar) {
    const wide = bar.width * this.width >= FLAME_TEXT;
    const words = this.words(bar.node);
    const kind = ["flame", bar.above ? "above" : "", wide ? "" : "thin"].filter(Boolean).join(" ");
    const made = el("button", { type: "button", class: kind, tabindex: "-1", "aria-label": wide ? null : words, "data-node": bar.node }, wide ? words : null);
    const colour = bar.node ? fileColour(this.frames[bar.node][1]) : "#8a8f98";
    made.style.setProperty("--flame", colour);
    made.style.background = colour;
    made.style.color = inkOn(colour);
    made.style.left = 100 * bar.x + "%";
    made.style.width = 100 * bar.width + "%";
    made.style.top = bar.depth * FLAME_ROW + "px";
    bar.made = made;
    return made;
  }

  describe(node) {
    const { own, all } = this;
    fill(this.status, el("b", {}, this.words(node)), el("br"),
      node ? [el("code", {}, this.frames[node].slice(1).join(":")), " · "] : null,
      digits(all[node], 4) + " s of threads, " + digits(own[node], 3) + " s of them in the call itself");
  }

  listen() {
    const at = (event) => {
      const bar = event.target.closest(".flame");
      return bar ? Number(bar.dataset.node) : null;
    };
    const show = (event) => at(event) !== null && this.describe(at(event));
    this.inside.addEventListener("pointerover", show);
    this.inside.addEventListener("pointerleave", () => this.describe(this.zoomed));
    this.inside.addEventListener("focusin", (event) => {
      this.focusable(at(event));
      show(event);
    });
    this.inside.addEventListener("click", (event) => at(event) !== null && this.zoom(at(event)));
    this.inside.addEventListener("keydown", (event) => this.key(event, at(event)));
  }

  key(event, node) {
    if (event.key === "Escape" && this.zoomed) {
      event.preventDefault();
      this.zoom(this.parents[this.zoomed]);
      return;
    }
    const now = this.laid.find((bar) => bar.node === node);
    if (!now || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const row = (depth) => this.laid.filter((bar) => bar.depth === depth).sort((a, b) => a.x - b.x);
    const siblings = row(now.depth);
    const next = {
      ArrowUp: () => this.laid.find((bar) => bar.node === this.parents[node]),
      ArrowDown: () => row(now.depth + 1).find((bar) => this.parents[bar.node] === node),
      ArrowLeft: () => siblings[siblings.indexOf(now) - 1],
      ArrowRight: () => siblings[siblings.indexOf(now) + 1],
    }[event.key]();
    if (next) this.focus(next.node);
  }

  // One bar at a time is reached by Tab.
  focusable(node) {
    for (const bar of this.laid) bar.made.tabIndex = bar.node === node ? 0 : -1;
  }

  focus(node) {
    const bar = this.laid.find((one) => one.node === node);
    if (bar) bar.made.focus({ preventScroll: bar.depth * FLAME_ROW < this.bars.clientHeight });
  }
}
