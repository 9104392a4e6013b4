// Flame graphs of profiled jobs: time by call, the outermost first.

const FLAME_BINS = 240; // of the chart of its time
const FLAME_LEAST = 0.0015; // share of the width below which a call is not drawn

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
    this.attempts = [];
    this.axis = new Axis(1);
    this.asks = null; // gets the profiles of a running run
  }

  // While a run is active, profiles are requested when somebody wants to see them.
  show(model) {
    this.model = model;
    if (!model.live) return this.take(model.flames);
    const run = model.runs[model.runs.length - 1];
    this.part.made.hidden = !(run && run.config && run.config.profile);
    if (!this.part.body.childElementCount) fill(this.part.body, this.renewButton());
  }

  renewButton() {
    return button("Show the profiles written so far", null, async () => this.take(await this.asks()));
  }

  take(profiled) {
    const known = new Map(this.model.attempts.map((a) => [a.id, a]));
    this.attempts = (profiled ? profiled.attempts : []).map((one) => ({ ...one, of: known.get(one.attempt) })).filter((one) => one.of);
    if (!this.model.live) this.part.made.hidden = !this.attempts.length;
    if (!this.attempts.length) {
      if (this.model.live) fill(this.part.body, this.renewButton(), el("p", { class: "soft" }, "No job has written a profile yet; the first comes after some 10 s."));
      return;
    }
    this.parents = [0, ...profiled.in];
    this.frames = [null, ...profiled.frame.map((k) => profiled.frames[k])]; // [name, file, line] of each call
    this.calls = this.parents.map(() => []);
    this.parents.forEach((parent, node) => node && this.calls[parent].push(node));
    this.status = el("div", { class: "flames-status", role: "status", "aria-live": "polite" });
    this.bars = el("div", { class: "flames-bars", role: "group", "aria-label": "Calls, outermost first" });
    this.controls = el("div", { class: "controls" });
    this.time = el("div", { class: "plot" });
    this.listen();
    fill(this.part.body, this.model.live ? this.renewButton() : null, this.controls, this.time, this.status, this.bars,
      el("p", { class: "soft" }, "Drag over the chart to see the calls of a time only, double-click for all. Click a call to see it alone, and one above it, or press Escape, to go back."));
    this.choose(this.rule, this.attempt);
  }

  // A way to here from an attempt elsewhere, if it was profiled.
  button(a) {
    return this.attempts.some(({ of }) => of.id === a.id) ? button("Flame graph of this attempt", null, () => this.open(a)) : null;
  }

  open(a) {
    this.choose(a.rule, a.id);
    this.part.made.scrollIntoView({ block: "start" });
    this.bars.querySelector("button").focus({ preventScroll: true });
  }

  choose(rule, id) {
    keepFocus(() => this.showCalls(rule, id));
  }

  showCalls(rule, id) {
    const own = this.attempts.filter(({ of }) => !rule || of.rule === rule);
    const chosen = own.filter(({ of }) => !id || of.id === id);
    if (!chosen.length) return this.showCalls("", "");
    Object.assign(this, { rule, attempt: id, chosen, zoomed: 0 });
    const rules = [...new Set(this.attempts.map(({ of }) => of.rule))];
    fill(this.controls,
      select("Rule of the flame graph", [["", "all rules"], ...rules.map((r) => [r, r])], rule, (one) => this.choose(one, "")),
      select("Attempt of the flame graph", [["", "all attempts (" + own.length + ")"], ...own.map(({ of }) => [of.id, labelOf(of)])], id, (one) => this.choose(this.rule, one)));
    freeCharts(this.axis);
    this.axis = new Axis(Math.max(...chosen.map(({ of }) => of.end)), Math.min(...chosen.map(({ of }) => of.start)));
    this.axis.name = "flames";
    this.drawTime();
    this.axis.changed = () => this.update();
    this.update();
  }

  // Threads at work over time, of which a part can be chosen.
  drawTime() {
    const [begin, end] = this.axis.full;
    const each = (end - begin) / FLAME_BINS;
    const busy = new Float64Array(FLAME_BINS);
    this.eachTime((node, from, to, s) => {
      const [first, last] = [from, to].map((t) => Math.min(FLAME_BINS - 1, Math.max(0, Math.floor((t - begin) / each))));
      for (let k = first; k <= last; k++) busy[k] += first === last ? s : (s * Math.max(0, Math.min(to, begin + (k + 1) * each) - Math.max(from, begin + k * each))) / (to - from);
    });
    chart(this.time, this.axis, {
      height: 90,
      scales: { y: { range: fromZero(1) } },
      left: { values: wholeNumbers },
      series: [timeSeries(), stepSeries("threads at work", css("--cpu"), oneDecimal, { fill: css("--cpu-fill") })],
      renew: () => [edges(FLAME_BINS, end - begin, begin), held([...busy].map((s) => s / each))],
    });
  }

  // Calls act(node, from, to, seconds) for every sample, s since the start of the run.
  eachTime(act) {
    for (const { node, bin, ms, bin_s: width, of } of this.chosen) {
      node.forEach((one, k) => {
        const from = of.start + bin[k] * width;
        act(one, from, from + width, ms[k] / 1000);
      });
    }
  }

  // Seconds of threads in each call itself, and with all that it calls, in the time that is shown.
  update() {
    this.own = new Float64Array(this.parents.length);
    const part = this.axis.isPart();
    const [start, end] = part ? this.axis.shown : [-Infinity, Infinity];
    this.eachTime((node, from, to, s) => {
      const inside = Math.min(to, end) - Math.max(from, start);
      if (inside > 0) this.own[node] += s * (to > from ? Math.min(1, inside / (to - from)) : 1);
    });
    this.all = this.own.slice();
    for (let node = this.all.length - 1; node > 0; node--) this.all[this.parents[node]] += this.all[node];
    this.part.note.textContent = counted(this.chosen.length, "profiled attempt") + ", " + (seconds(this.all[0]) || "0 s") + " of threads" + (part ? ", from " + seconds(start) + " to " + seconds(end) : "");
    this.zoom(this.all[this.zoomed] > 0 ? this.zoomed : 0);
  }

  zoom(node) {
    this.zoomed = node;
    const above = [];
    for (let one = node; one; one = this.parents[one]) above.unshift(this.bar(this.parents[one], "flame above"));
    keepFocus(() => fill(this.bars, above, this.block(node, 1)));
    this.describe(node);
  }

  // A call, and below it those that it makes, as wide as their share of it; the longest comes first.
  block(node, width) {
    const calls = this.calls[node].filter((one) => width * this.all[one] > FLAME_LEAST * this.all[node]).sort((a, b) => this.all[b] - this.all[a]);
    const made = el("div", { class: "flame-block" }, this.bar(node, "flame"), el("div", { class: "flame-calls" }, calls.map((one) => this.block(one, (width * this.all[one]) / this.all[node]))));
    const parent = this.all[this.parents[node]];
    made.style.width = node === this.zoomed ? "100%" : (100 * this.all[node]) / parent + "%";
    return made;
  }

  bar(node, kind) {
    const made = button(this.words(node), null, () => this.zoom(node), { class: kind, "data-node": node });
    made.style.background = node ? fileColour(this.frames[node][1]) : "#8a8f98";
    made.style.color = inkOn(node ? fileColour(this.frames[node][1]) : "#8a8f98");
    return made;
  }

  words(node) {
    let name = this.attempt ? labelOf(this.chosen[0].of) : this.rule || "all rules";
    if (node) name = this.frames[node][this.frames[node][0] === "<module>" ? 1 : 0];
    return name + " · " + (percent(this.all[0] ? this.all[node] / this.all[0] : 0) || "0 %") + " · " + (seconds(this.all[node]) || "0 s");
  }

  describe(node) {
    fill(this.status, el("b", {}, this.words(node)), el("br"),
      node ? [el("code", {}, this.frames[node].slice(1).join(":")), " · "] : null,
      digits(this.all[node], 4) + " s of threads, " + digits(this.own[node], 3) + " s of them in the call itself");
  }

  listen() {
    for (const kind of ["pointerover", "focusin"]) {
      this.bars.addEventListener(kind, (event) => event.target.dataset.node && this.describe(Number(event.target.dataset.node)));
    }
    this.bars.addEventListener("pointerleave", () => this.describe(this.zoomed));
    this.bars.addEventListener("keydown", (event) => event.key === "Escape" && this.zoomed && this.zoom(this.parents[this.zoomed]));
  }
}
