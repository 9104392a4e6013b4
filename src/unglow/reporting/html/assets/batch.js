// Many pairs: a row each, worst first; a row opens as a card.

// Order of rows: failed, unfinished and suspect pairs, those with outlying values, the rest.
const NEEDS = { failed: 0, skipped: 0, incomplete: 1, suspect: 2 };
const needOf = (r) => NEEDS[r.pair.status] ?? (r.outlier.length ? 3 : 4);
const worstFirst = (a, b) => needOf(a) - needOf(b) || (needOf(a) === 3 ? unusualness(b) - unusualness(a) : 0) || a.n - b.n;
const unusualness = (r) => Math.abs(r.outlier[0][1]);

const px = (v) => (isKnown(v) ? String(v) : null);
const share = (v) => (isKnown(v) ? percent(Number(v)) : null);
const NUMBERS = [
  { key: "residual_median_px", name: "residual", rem: 4.1, unit: "px", show: px },
  { key: "error_median_px", name: "error", rem: 4.1, unit: "px", show: px },
  { key: "gain", name: "gain", rem: 6.7, show: px, ends: ["gain_low95", "gain_high95"] },
  { key: "expected_gain", name: "expected", rem: 4.6, unit: "gain", show: px, title: "Gain expected from the exposure times" },
  { key: "residual_shift_px", name: "shift", rem: 4.1, unit: "px", show: px, title: "Distance of the aligned background from the marker" },
  { key: "clipped", name: "clipped", rem: 4.3, show: share, title: "Share of the pixels that were clipped at the ends of the type" },
  { key: "background", name: "background", rem: 5.6, unit: "of MAD", show: (v) => digits(v, 2), title: "Background left in the difference: its median in units of its median absolute deviation (MAD)" },
  { key: "candidates", name: "candidates", rem: 5.4, show: px },
  { key: "candidates_fdr", name: "FDR", rem: 6, show: share, title: "Estimated share of false candidates", ends: ["fdr_low95", "fdr_high95"] },
  { key: "density_per_mm2", name: "density", rem: 6.9, unit: "per mm²", show: px, ends: ["density_low95", "density_high95"] },
  { key: "spoilt_share", name: "spoilt", rem: 4.1, show: share, title: "Share of the section that is spoilt and excluded" },
  { key: "seconds", name: "time", rem: 5.6, show: seconds, title: "Sum over the jobs of the pair, or of the slide of a marker" },
  { key: "peak_mb", name: "memory", rem: 4.4, show: mb, title: "Peak of the largest job" },
];
const number = (r, key) => (isKnown(r.pair[key]) && isFinite(Number(r.pair[key])) ? Number(r.pair[key]) : null);

function outlyingText(outlier, pair, model) {
  return outlier.map(([key, z]) => {
    const { show, unit } = NUMBERS.find((c) => c.key === key);
    return model.batch.names[key] + " " + show(pair[key]) + (unit ? " " + unit : "") + " (robust z " + (z > 0 ? "+" : "−") + Math.abs(z) + ")";
  }).join(", ");
}

const ANY_REASON = "any spoilt place";
const UNUSUAL = "outlying values";

class Batch {
  constructor(view) {
    this.view = view;
    this.text = "";
    this.status = "";
    this.chosen = {}; // group column: value
    this.spoilt = ""; // a reason, or ANY_REASON
    this.by = { column: null, down: false };
    this.opened = new Set();
    this.lines = new Map(); // by name: the row's element, and what it was made of
    this.list = el("div", { role: "rowgroup", class: "lines" });
    this.heads = el("div", { role: "row", class: "heads" });
    this.box = el("div", { class: "batch", role: "table", "aria-label": "Pairs" }, el("div", { role: "rowgroup", class: "top" }, this.heads), this.list);
    // The box grows by the cards that are open, so that none of them is cut.
    this.heights = new ResizeObserver(() => {
      const open = [...this.list.querySelectorAll(".detail")].reduce((sum, card) => sum + card.offsetHeight, 0);
      this.box.style.setProperty("--open", open + "px");
    });
    this.plots = el("div", { class: "plots" });
    this.count = el("span", { class: "soft", role: "status" });
    this.controls = el("div", { class: "controls" });
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const line = event.target.closest(".line");
      if (line) this.toggle(this.rows.find((r) => r.name === line.dataset.name));
    });
  }

  note(rows) {
    const odd = rows.filter((r) => r.outlier.length).length;
    return unitsOf(rows.map((r) => r.pair)) + (odd ? ", " + odd + " with outlying values" : "");
  }

  show(rows, model) {
    this.rows = rows;
    this.model = model;
    this.columns = this.columnsOf(rows, model);
    this.box.style.setProperty("--columns", this.columns.map((c) => (c.grow ? "minmax(" + c.rem + "rem, " + c.grow + "fr)" : c.rem + "rem")).join(" "));
    this.box.style.setProperty("--least", this.columns.reduce((sum, c) => sum + c.rem, 0) + "rem");
    this.plotted = null;
    this.fillControls();
    const { scrollTop } = this.box;
    this.draw();
    requestAnimationFrame(() => (this.box.scrollTop = scrollTop));
    return [this.controls, this.box, this.plots];
  }

  columnsOf(rows, model) {
    const has = (key) => rows.some((r) => isKnown(r.pair[key]));
    const numbers = NUMBERS.filter((c) => has(c.key)).map((c) => ({
      ...c, rem: c.key === "gain" && model.slides ? 7.8 : c.rem, number: true, of: (r) => number(r, c.key),
      below: c.ends && ((r) => (isKnown(r.pair[c.ends[0]]) ? c.ends.map((k) => c.show(r.pair[k])).join(" to ") : null)),
    }));
    return [
      { name: "state", rem: 6, order: worstFirst, title: "Failed first, then suspect, then pairs with outlying values" },
      { name: kindOf(rows.map((r) => r.pair)) === "Pairs" ? "pair" : "marker", rem: 11, grow: 1, of: (r) => r.name },
      { name: "why", rem: 8, grow: 2, of: (r) => this.why(r) || null },
      ...numbers,
    ];
  }

  why(r) {
    const outlying = r.outlier.length ? outlyingText(r.outlier, r.pair, this.model) : "";
    return [r.pair.outdated && "Outdated: " + r.pair.outdated + ".", r.pair.reasons, outlying].filter(Boolean).join(" ");
  }

  fillControls() {
    const { rows } = this;
    const search = el("input", { type: "search", placeholder: "name or reason", "aria-label": "Show pairs whose name or reason contains", value: this.text });
    search.addEventListener("input", () => { this.text = search.value.toLowerCase(); this.draw(); });
    const choose = (label, every, values, now, take) => select(label, [["", every], ...values.map((v) => [v, v])], now, (value) => { take(value); this.draw(); });
    const statuses = [...new Set(rows.map((r) => r.pair.status))];
    const known = (key) => [...new Set(rows.map((r) => r.pair[key]).filter(isKnown))].sort();
    const reasons = [...new Set(rows.flatMap((r) => spoiltParts(r.pair).map(([reason]) => reason)))].sort();
    const slides = this.model.slides ? ["sample"] : [];
    const label = (key) => (slides.length && { sample: "slide", dye: "marker" }[key]) || key;
    const groups = [...slides, "dye", ...this.model.batch.groups].map((key) => [key, known(key)]).filter(([, values]) => values.length > 1);
    if (!this.controls.contains(document.activeElement)) {
      fill(this.controls, search,
        choose("Show pairs with status", "every state", [...statuses, UNUSUAL], this.status, (v) => { this.status = v; }),
        groups.map(([key, values]) => choose("Show pairs of " + label(key), "every " + label(key), values, this.chosen[key], (v) => { this.chosen[key] = v; })),
        reasons.length ? choose("Show pairs with spoilt places", "spoilt or not", [ANY_REASON, ...reasons], this.spoilt, (v) => { this.spoilt = v; }) : null,
        this.count);
    }
    fill(this.heads, this.columns.map((column) => this.head(column)));
  }

  head(column) {
    const name = button(column.name, column.title, () => this.sort(column));
    return el("div", { role: "columnheader", class: column.number ? "number" : null }, name, column.unit && !column.below ? el("small", {}, column.unit) : null);
  }

  sort(column) {
    const again = this.by.column === column.name;
    this.by = { column: column.name, down: again ? !this.by.down : Boolean(column.number) };
    this.draw();
    this.box.scrollTop = 0;
  }

  fitting() {
    const asked = Object.entries(this.chosen).filter(([, value]) => value);
    return this.rows.filter((r) => {
      const status = !this.status || r.pair.status === this.status || (this.status === UNUSUAL && r.outlier.length);
      const parts = spoiltParts(r.pair);
      const spoilt = !this.spoilt || (this.spoilt === ANY_REASON ? parts.length > 0 : parts.some(([reason]) => reason === this.spoilt));
      return status && spoilt && asked.every(([key, value]) => r.pair[key] === value) && (r.name + " " + this.why(r)).toLowerCase().includes(this.text);
    });
  }

  // By a column: else slides are kept together.
  isSorted() {
    return this.columns.some((c) => c.name === this.by.column && !c.order);
  }

  ordered(rows) {
    const column = this.columns.find((c) => c.name === this.by.column);
    if (!column || column.order) {
      const order = [...rows].sort(worstFirst);
      return this.by.down ? order.reverse() : order;
    }
    return sorted(rows, column.of, this.by.down);
  }

  draw() {
    if (!this.rows) return;
    const rows = this.fitting();
    const all = this.rows.map((r) => r.pair);
    this.count.textContent = rows.length + " of " + (all.some(isMarker) ? all.length + " " + kindOf(all).toLowerCase() : counted(all.length, "pair"));
    [...this.heads.children].forEach((head, n) => {
      const on = this.columns[n].name === this.by.column;
      if (on) head.setAttribute("aria-sort", this.by.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const ordered = this.ordered(rows);
    const lines = (some) => some.flatMap((r) => [this.line(r), this.opened.has(r.name) ? this.detail(r) : null]);
    const headed = (group) => [isMarker(group[0].pair) ? el("div", { role: "row", class: "of-slide" }, el("div", { role: "cell" }, slideHead(group, this.view, this.model))) : null, lines(group)];
    const shown = this.isSorted() ? lines(ordered) : bySlide(ordered).map(headed);
    fill(this.list, shown, rows.length ? null : el("p", { class: "soft" }, "No pair fits."));
    const first = this.list.querySelector(".line");
    if (first && !this.list.querySelector(".line[tabindex='0']")) first.tabIndex = 0;
    const plotted = rows.map((r) => r.n).join();
    if (plotted !== this.plotted) fill(this.plots, batchPlots(rows, this.model, (n) => this.reveal(n)));
    this.plotted = plotted;
  }

  // The row of a pair: the same element as before, unless there is something new in it.
  line(r) {
    const about = JSON.stringify([r.pair, r.outlier, this.columns.length]);
    const before = this.lines.get(r.name);
    if (before && before.about === about) {
      r.state = before.state;
      return before.made;
    }
    const odd = new Set(r.outlier.map(([key]) => key));
    const names = isMarker(r.pair) ? ["dye", "sample"] : LEVELS;
    const [first, ...rest] = [...names, ...this.model.batch.groups].map((key) => r.pair[key]);
    const why = this.why(r);
    const cells = [
      [r.state], [el("div", { class: "named" }, this.view.viewer.small(r.n, r.name), el("div", {}, el("b", {}, first), el("small", {}, [...rest, r.pair.control ? "control" : ""].filter(Boolean).join(" · "))))], [el("span", { class: "why", title: why || null }, why)],
      ...this.columns.slice(3).map((c) => [c.show(r.pair[c.key]) ?? "–", c.below && isKnown(r.pair[c.key]) ? el("small", {}, c.below(r)) : null]),
    ];
    const kinds = (c) => [c.number ? "number" : "", odd.has(c.key) ? "odd" : ""].join(" ").trim() || null;
    const made = el("div", { role: "row", class: "line " + r.pair.status, tabindex: "-1", "aria-expanded": String(this.opened.has(r.name)), "data-name": r.name },
      cells.map((cell, n) => el("div", { role: n === 1 ? "rowheader" : "cell", class: kinds(this.columns[n]) }, cell)));
    this.lines.set(r.name, { made, about, state: r.state });
    return made;
  }

  detail(r) {
    const before = this.lines.get(r.name);
    if (before.detail) return before.detail;
    before.detail = el("div", { role: "row", class: "detail" }, el("div", { role: "cell" }, containedCard({ ...r, state: el("span") }, this.view, hasViewer(this.model))));
    this.heights.observe(before.detail);
    return before.detail;
  }

  toggle(r) {
    const { made } = this.lines.get(r.name);
    const open = !this.opened.has(r.name);
    if (open) this.opened.add(r.name);
    else this.opened.delete(r.name);
    made.setAttribute("aria-expanded", String(open));
    if (open) {
      made.after(this.detail(r));
      this.detail(r).scrollIntoView({ block: "nearest" });
    } else this.lines.get(r.name).detail.remove();
    this.focus(made);
  }

  focus(line) {
    const before = this.list.querySelector(".line[tabindex='0']");
    if (before) before.tabIndex = -1;
    line.tabIndex = 0;
    line.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
  }

  // Shows a pair that was chosen in a plot.
  reveal(n) {
    const r = this.rows[n];
    if (!this.opened.has(r.name)) this.toggle(r);
    const { made } = this.lines.get(r.name);
    this.box.scrollIntoView({ block: "nearest" });
    this.box.scrollTop = made.offsetTop - this.heads.offsetHeight;
    this.focus(made);
  }

  key(event) {
    const line = event.target;
    if (!line.classList.contains("line")) return;
    const lines = [...this.list.querySelectorAll(".line")];
    const at = lines.indexOf(line);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (event.key === "Enter" || event.key === " ") line.click();
    else if (to !== undefined) this.focus(lines[Math.min(lines.length - 1, Math.max(0, to))]);
    else return;
    event.preventDefault();
  }
}
