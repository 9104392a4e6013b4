// Flame graphs of profiled jobs: whose time it was, from the first call down to the innermost.

const FLAME_ROW = 20;
const FLAME_TEXT = 28; // no words on a bar that is narrower, px
const STRIP_BINS = 600;

// The columns of a model, with times in s and the calls that each call made.
class FlameData {
  constructor(model) {
    const told = model.flames;
    this.told = told;
    this.bin = told.bin_ms / 1000;
    this.parents = [0, ...told.in];
    this.waits = new Set(told.waits);
    this.calls = this.parents.map(() => []);
    this.parents.forEach((parent, node) => node && this.calls[parent].push(node));
    this.attempts = told.attempts.map(({ attempt, after, bins, node, ms }) => {
      let at = 0;
      return { of: model.attempts[attempt], first: after.map((step) => (at += step)), bins, node, ms };
    });
  }

  name(node) {
    const { names, name } = this.told;
    const told = names[name[node - 1]];
    return told === "<module>" ? this.file(node) : told;
  }

  file(node) {
    return this.told.files[this.told.file[node - 1]];
  }

  place(node) {
    return this.file(node) + ":" + this.told.line[node - 1];
  }

  // Calls each entry of the attempts with its node, first bin, count of bins, and s in each bin.
  each(attempts, waiting, act) {
    for (const { first, bins, node, ms } of attempts) {
      for (let k = 0; k < node.length; k++) {
        if (waiting || !this.waits.has(node[k])) act(node[k], first[k], bins[k], ms[k] / 1000);
      }
    }
  }

  // Seconds of threads in each call itself, and with all that it calls, from one time to another.
  times(attempts, waiting, from, to) {
    const own = new Float64Array(this.parents.length);
    const [low, high] = [from / this.bin, to / this.bin];
    this.each(attempts, waiting, (node, first, bins, s) => {
      own[node] += s * Math.max(0, Math.min(first + bins, high) - Math.max(first, low));
    });
    const all = own.slice();
    for (let node = all.length - 1; node > 0; node--) all[this.parents[node]] += all[node];
    return { own, all };
  }

  // How many threads there were, the mean of each of equal bins over the run.
  threads(attempts, waiting, length) {
    const count = Math.max(1, Math.min(STRIP_BINS, Math.ceil(length / this.bin)));
    const width = length / count;
    const sums = new Float64Array(count);
    this.each(attempts, waiting, (node, first, bins, s) => {
      const [begin, end] = [first * this.bin, (first + bins) * this.bin];
      const last = Math.min(count - 1, Math.ceil(end / width) - 1);
      for (let k = Math.floor(begin / width); k <= last; k++) {
        sums[k] += (s / this.bin) * Math.max(0, Math.min(end, (k + 1) * width) - Math.max(begin, k * width));
      }
    });
    return Array.from(sums, (v) => v / width);
  }
}

// One colour for all calls of a file, whatever else there is.
function fileColour(file) {
  let mixed = 7;
  for (const letter of file) mixed = (mixed * 31 + letter.codePointAt(0)) >>> 0;
  return PALETTE[mixed % PALETTE.length];
}

class Flames {
  constructor() {
    this.part = section("flames", "Flame graph");
    this.part.made.hidden = true;
    this.data = null;
    this.axis = new Axis(1);
  }

  show(model) {
    this.part.made.hidden = !model.flames;
    this.free();
    this.data = model.flames ? new FlameData(model) : null;
    if (!this.data) return;
    this.run = model.runs[this.data.attempts[0].of.run];
    this.rule = this.attempt = "";
    this.waiting = false;
    this.zoomed = 0;
    this.draw();
  }

  has(a) {
    return Boolean(this.data) && this.data.attempts.some(({ of }) => of.id === a.id);
  }

  // A way to here from an attempt elsewhere, if it was profiled.
  button(a) {
    return this.has(a) ? el("button", { type: "button", onclick: () => this.open(a) }, "Flame graph of this attempt") : null;
  }

  open(a) {
    this.choose(a.rule, a.id);
    this.part.made.scrollIntoView({ block: "start" });
    this.bars.querySelector("button").focus({ preventScroll: true });
  }

  restyle() {
    if (this.data) this.draw();
  }

  free() {
    for (const made of this.axis.charts) {
      made.watch.disconnect();
      made.destroy();
    }
    this.axis.charts = [];
    if (this.watch) this.watch.disconnect();
  }

  draw() {
    const shown = this.axis.charts.length ? this.axis.shown : null;
    this.free();
    this.axis = new Axis(this.run.seconds);
    this.axis.name = "flames";
    if (shown) this.axis.shown = shown;
    this.told = el("div", { class: "flames-told", role: "status", "aria-live": "polite" });
    this.inside = el("div", { role: "group", "aria-label": "Calls, outermost first" });
    this.bars = el("div", { class: "flames-bars" }, this.inside);
    this.strip = el("div", { class: "plot", tabindex: "0", role: "group", "aria-label": "Threads over time. Plus and minus zoom, 0 shows everything, a and d move." });
    this.strip.addEventListener("keydown", (event) => this.axis.key(event));
    this.controls = el("div", { class: "controls" });
    this.listen();
    fill(this.part.body, this.controls,
      el("h3", {}, "Threads over time", el("span", { class: "note" }, "drag to choose a time")), this.strip,
      this.told, this.bars,
      el("p", { class: "soft" }, "Click a call to see it alone, and one above it, or press Escape, to go back. Arrows go from call to call."));
    this.fillControls();
    this.stripChart();
    this.axis.changed = () => this.update();
    this.update();
    this.watch = new ResizeObserver(() => this.bars.clientWidth !== this.width && this.update());
    this.watch.observe(this.bars);
  }

  fillControls() {
    const { data } = this;
    const pick = (name, chosen, options, act) => {
      const made = el("select", { "aria-label": name }, options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
      made.addEventListener("change", () => act(made.value));
      return made;
    };
    const rules = [...new Set(data.attempts.map(({ of }) => of.rule))];
    const own = data.attempts.filter(({ of }) => !this.rule || of.rule === this.rule);
    const waiting = el("input", { type: "checkbox", checked: this.waiting });
    waiting.addEventListener("change", () => {
      this.waiting = waiting.checked;
      this.renew();
    });
    const tool = (name, title, act) => el("button", { type: "button", title, onclick: act }, name);
    fill(this.controls,
      pick("Rule of the flame graph", this.rule, [["", "all rules"], ...rules.map((r) => [r, r])], (rule) => this.choose(rule, "")),
      pick("Attempt of the flame graph", this.attempt, [["", "all attempts (" + own.length + ")"], ...own.map(({ of }) => [of.id, labelOf(of)])], (id) => this.choose(this.rule, id)),
      el("label", {}, waiting, " threads that only wait"),
      el("span", { class: "tools" },
        tool("+", "Zoom in on time (+)", () => this.axis.zoom(0.5)),
        tool("−", "Zoom out (-)", () => this.axis.zoom(2)),
        tool("◀", "Earlier (a)", () => this.axis.pan(-0.25)),
        tool("▶", "Later (d)", () => this.axis.pan(0.25)),
        tool("all", "The whole time (0), or double-click the chart", () => this.axis.reset())),
      tool("All calls", "Back from one call to all (Escape)", () => this.zoom(0)));
  }

  stripChart() {
    const stepped = uPlot.paths.stepped({ align: 1 });
    chart(this.strip, this.axis, {
      height: 90,
      scales: { y: { range: (u, min, max) => [0, 1.1 * Math.max(1, max || 0)] } },
      left: { values: (u, ticks) => ticks.map((v) => (Number.isInteger(v) ? String(v) : "")) },
      series: [{}, { paths: stepped, stroke: css("--cpu"), fill: css("--cpu-fill"), width: 1.2, points: { show: false } }],
      renew: () => {
        const threads = this.data.threads(this.chosen(), this.waiting, this.run.seconds);
        return [edges(threads.length, this.run.seconds), held(threads)];
      },
    });
  }

  chosen() {
    const fits = ({ of }) => (!this.rule || of.rule === this.rule) && (!this.attempt || of.id === this.attempt);
    return this.data.attempts.filter(fits);
  }

  choose(rule, id) {
    this.rule = rule;
    this.attempt = id;
    this.zoomed = 0;
    this.fillControls();
    this.renew();
    const one = id ? this.chosen()[0].of : null;
    if (one) this.axis.set(one.start, one.end);
    else this.axis.reset();
  }

  renew() {
    for (const made of this.axis.charts) made.setData(made.renew(), false);
    this.axis.set(...this.axis.shown);
  }

  zoom(node) {
    this.zoomed = node;
    this.update();
    this.focus(node);
  }

  update() {
    const { data } = this;
    const [from, to] = this.axis.shown;
    this.times = data.times(this.chosen(), this.waiting, from, to);
    while (this.zoomed && !this.times.all[this.zoomed]) this.zoomed = data.parents[this.zoomed];
    const whole = from === this.axis.full[0] && to === this.axis.full[1];
    this.part.note.textContent = counted(this.chosen().length, "profiled attempt") + ", " +
      (seconds(this.times.all[0]) || "0 s") + " of threads" + (whole ? "" : " from " + seconds(from) + " to " + seconds(to));
    this.width = this.bars.clientWidth;
    this.laid = this.layout();
    const lowest = Math.max(...this.laid.map(({ depth }) => depth));
    this.inside.style.height = (lowest + 1) * FLAME_ROW + "px";
    fill(this.inside, this.laid.map((bar) => this.bar(bar)));
    this.focusable(this.zoomed);
    this.tell(this.zoomed);
  }

  // What is drawn: {node, depth, x, width}, the last two as shares; the longest call comes first.
  layout() {
    const { data, times: { all } } = this;
    const least = 1.5 / Math.max(300, this.width);
    const above = [];
    for (let node = this.zoomed; node; node = data.parents[node]) above.unshift(data.parents[node]);
    const made = above.map((node, depth) => ({ node, depth, x: 0, width: 1, above: true }));
    const down = [{ node: this.zoomed, depth: above.length, x: 0, width: 1 }];
    while (down.length) {
      const bar = down.pop();
      made.push(bar);
      let x = bar.x;
      const calls = data.calls[bar.node].filter((node) => all[node] > 0).sort((a, b) => all[b] - all[a]);
      for (const node of calls) {
        const width = all[node] / all[this.zoomed];
        if (width < least) break;
        down.push({ node, depth: bar.depth + 1, x, width });
        x += width;
      }
    }
    return made;
  }

  words(node) {
    const { all } = this.times;
    const name = node ? this.data.name(node) : this.attempt ? labelOf(this.chosen()[0].of) : this.rule || "all rules";
    return name + " · " + (percent(all[node] / all[0]) || "0 %") + " · " + (seconds(all[node]) || "0 s");
  }

  bar(bar) {
    const wide = bar.width * this.width >= FLAME_TEXT;
    const words = this.words(bar.node);
    const kind = ["flame", bar.above ? "above" : "", wide ? "" : "thin"].filter(Boolean).join(" ");
    const made = el("button", { type: "button", class: kind, tabindex: "-1", "aria-label": wide ? null : words, "data-node": bar.node }, wide ? words : null);
    const colour = bar.node ? fileColour(this.data.file(bar.node)) : "#8a8f98";
    made.style.setProperty("--flame", colour);
    made.style.background = colour;
    made.style.color = inkOn(colour);
    made.style.left = 100 * bar.x + "%";
    made.style.width = 100 * bar.width + "%";
    made.style.top = bar.depth * FLAME_ROW + "px";
    bar.made = made;
    return made;
  }

  tell(node) {
    const { own, all } = this.times;
    const waits = this.data.waits.has(node) ? ", waiting" : "";
    fill(this.told, el("b", {}, this.words(node)), el("br"),
      node ? [el("code", {}, this.data.place(node)), " · "] : null,
      digits(all[node], 4) + " s of threads, " + digits(own[node], 3) + " s of them in the call itself" + waits);
  }

  listen() {
    const at = (event) => {
      const bar = event.target.closest(".flame");
      return bar ? Number(bar.dataset.node) : null;
    };
    const told = (event) => at(event) !== null && this.tell(at(event));
    this.inside.addEventListener("pointerover", told);
    this.inside.addEventListener("pointerleave", () => this.tell(this.zoomed));
    this.inside.addEventListener("focusin", (event) => {
      this.focusable(at(event));
      told(event);
    });
    this.inside.addEventListener("click", (event) => at(event) !== null && this.zoom(at(event)));
    this.inside.addEventListener("keydown", (event) => this.key(event, at(event)));
  }

  key(event, node) {
    if (event.key === "Escape" && this.zoomed) {
      event.preventDefault();
      this.zoom(this.data.parents[this.zoomed]);
      return;
    }
    const now = this.laid.find((bar) => bar.node === node);
    if (!now || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const row = (depth) => this.laid.filter((bar) => bar.depth === depth).sort((a, b) => a.x - b.x);
    const beside = row(now.depth);
    const next = {
      ArrowUp: () => this.laid.find((bar) => bar.node === this.data.parents[node]),
      ArrowDown: () => row(now.depth + 1).find((bar) => this.data.parents[bar.node] === node),
      ArrowLeft: () => beside[beside.indexOf(now) - 1],
      ArrowRight: () => beside[beside.indexOf(now) + 1],
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
