// Candidates: a table in step with the image, and the decision on each.

import { CandidateList, COLUMNS, DECISIONS } from "./candidate_list.js";
import { CandidateMarks, emphasise } from "./candidate_marks.js";
import { Chosen } from "./chosen.js";
import { button, el, fill } from "./elements.js";
import { Filters } from "./filters.js";
import { download } from "./picture.js";
import { Review } from "./review.js";
import { interval } from "./status.js";
import { Table } from "./table.js";
import { Tours } from "./tours.js";

const ZOOM = 4;
const FIRST_COLUMNS = ["id", "snr", "fdr", "flux", "flags", "decision"];
// px at least, and shares of the rest
const WIDTHS = { id: [34, 1], snr: [44, 1], fdr: [52, 1], flags: [40, 2], decision: [64, 1] };
const WIDTH = [46, 1];
const ACCEPTED = DECISIONS.indexOf("accepted");
const DECISION_KEYS = { a: "accepted", r: "rejected", u: "unsure", c: "" };

export class CandidatesPanel {
  name = "candidates";
  title = "Candidates";
  keys = [
    ["n, p", "next, previous candidate of the table"], ["↑ ↓ PgUp PgDn Home End", "in the table: another candidate"], ["a, r, u, c", "accept, reject, unsure, clear the decision"],
    ["z, Shift-z", "undo, do again"], ["m", "write a note"], ["l", "largest residual, then the next one"], ["g", "strongest dark spot, then the next one"],
  ];

  constructor(app) {
    this.app = app;
    this.columns = FIRST_COLUMNS;
    this.sort = { by: "snr", down: true };
    this.filters = new Filters(() => this.arrange());
    this.table = new Table("Candidates", { picked: (place) => this.choose(this.order[place], true), sorted: (by) => this.sortBy(by), classOf: (row) => this.classOf(row) });
    this.chosen = new Chosen(app, { decide: (decision) => this.decide(decision), note: (text) => this.note(text), undo: () => this.back("undo"), redo: () => this.back("redo"), retry: () => this.review.send() });
    this.tours = new Tours(app, (text) => this.say(text));
    this.reviews = new Map(); // by pair: what could not be saved is kept while another one is looked at
    this.search = el("p", { class: "search" });
    this.counts = el("p", { class: "counts", role: "status" });
    this.choice = el("details", {}, el("summary", {}, "Columns"), (this.boxes = el("div", { class: "group" })));
    this.export = button("Save accepted", "Save the accepted candidates as CSV", () => this.saveAccepted());
    this.element = el("div", { class: "candidates" });
    window.addEventListener("focus", () => this.review && this.review.refresh());
    window.addEventListener("beforeunload", (event) => [...this.reviews.values()].some(({ waiting }) => waiting.size) && event.preventDefault());
  }

  // The list may be long: nothing else waits for it.
  fill() {
    const { app } = this;
    Object.assign(this, { list: null, marks: null, order: [], row: -1, place: -1, problem: "", hasPlace: app.hadPlace });
    this.tours.forget();
    this.table.show([], this.order, this.sort); // its rows are of the last pair
    const { home } = app;
    if (!this.reviews.has(home)) this.reviews.set(home, new Review(app, (review) => review === this.review && this.decided()));
    this.review = this.reviews.get(home);
    this.lay();
    app.seen().then(() => home === app.home && this.read(home));
  }

  read(home) {
    const { app } = this;
    app.get(home + "candidates.json").then((table) => home === app.home && this.take(table), (error) => {
      if (home !== app.home) return;
      this.problem = error.message;
      this.lay();
    });
    this.review.refresh();
  }

  take(table) {
    this.list = new CandidateList(table);
    this.lay();
    if (!this.list.length) return;
    this.marks = new CandidateMarks(this.list);
    this.filters.fill(this.list.words);
    if (!this.list.names.includes(this.sort.by)) this.sort = { by: "id", down: false };
    this.decided();
    this.arrange();
    this.fromAddress(this.hasPlace);
  }

  // Content of the panel: table and tools, or a sentence why there are none.
  lay() {
    const { list } = this;
    fill(this.search, searched(this.app.pair.detection));
    if (!list || !list.length) fill(this.element, el("p", {}, this.problem || (list ? whyNone(this.app.pair) : "The list is read …")));
    else fill(this.element, this.search, this.filters.element, el("div", { class: "counted" }, this.counts, this.export), this.table.element, this.chosen.element, this.choice);
    if (list && list.length) this.chooseColumns();
  }

  chooseColumns() {
    const names = [...this.list.names, "decision"];
    fill(this.boxes, names.map((name) => el("label", {}, el("input", {
      type: "checkbox", checked: this.columns.includes(name), onchange: ({ target }) => {
        this.columns = target.checked ? [...this.columns, name] : this.columns.filter((other) => other !== name);
        this.show();
      },
    }), heading(name)[0])));
  }

  sortBy(by) {
    this.sort = { by, down: this.sort.by === by ? !this.sort.down : ["snr", "flux", "peak"].includes(by) };
    this.arrange();
  }

  // Filter and sort again.
  arrange() {
    if (!this.list) return;
    try {
      this.order = this.list.order(this.filters.value, this.sort);
      this.filters.say("");
    } catch (error) {
      this.filters.say(error.message);
      return;
    }
    this.places = new Int32Array(this.list.length).fill(-1);
    this.order.forEach((row, place) => (this.places[row] = place));
    this.marks.show(this.order);
    this.found();
    this.show();
    this.app.redraw();
  }

  // Where the chosen one is in the table now; it keeps its last place if it is no longer listed.
  found() {
    const place = this.row < 0 ? -1 : this.places[this.row];
    this.isListed = place >= 0;
    if (this.isListed) this.place = place;
  }

  show() {
    const { list } = this;
    this.table.show(this.columns.map((name) => ({ name, title: heading(name)[0], hint: hint(name), width: WIDTHS[name] || WIDTH, text: (row) => this.cell(row, name) })), this.order, this.sort);
    this.table.mark(this.isListed ? this.place : -1);
    this.count();
    this.chosen.show(list, this.row, this.review);
  }

  cell(row, name) {
    const text = this.list.text(row, name, name === "id" ? 7 : name.startsWith("fdr") ? 2 : 4);
    return name === "decision" && this.review.isUnsaved(this.list.values.id[row]) ? (text || "cleared") + " – unsaved" : text;
  }

  classOf(row) {
    return DECISIONS[this.list.decided[row]] + (this.review.isUnsaved(this.list.values.id[row]) ? " unsaved" : "") + (this.list.counted[row] ? "" : " uncounted");
  }

  count() {
    const { counts } = this.review;
    const parts = [this.order.length + " of " + this.list.length + " listed", (counts.reviewed || 0) + " decided", (counts.accepted || 0) + " accepted"];
    if (typeof counts.purity === "number") parts.push("purity " + counts.purity.toFixed(2) + (counts.purity_ci95 ? " (95 %: " + counts.purity_ci95.map((end) => end.toFixed(2)).join(" to ") + ")" : ""));
    if (counts.without_candidate) parts.push(counts.without_candidate + " decisions about candidates that are not in this list");
    fill(this.counts, parts.join(" · "));
    this.export.disabled = !this.list.decided.includes(ACCEPTED);
  }

  // All columns of the accepted candidates, in the order of candidates.csv, with their notes.
  saveAccepted() {
    const { list, review } = this;
    const rows = Array.from(list.decided.keys()).filter((row) => list.decided[row] === ACCEPTED);
    const text = list.csv(rows, (row) => review.of(list.values.id[row]).note);
    download(new Blob([text], { type: "text/csv" }), this.app.pair.title + "_accepted.csv");
  }

  // Decisions have changed, here or elsewhere.
  decided() {
    const { list, review } = this;
    if (!list || !list.length) return;
    list.decided.fill(0);
    for (const [id, { decision }] of review.all()) {
      const row = list.row(id);
      if (row >= 0) list.decided[row] = Math.max(0, DECISIONS.indexOf(decision));
    }
    if (this.filters.value.decision !== "all" || this.sort.by === "decision") this.arrange();
    else if (this.places) this.show();
    this.app.redraw();
  }

  // Choose a row of the list; `goes`: the image shows it.
  choose(row, goes) {
    if (row === undefined || row < 0) return;
    this.row = row;
    this.tours.place = null;
    this.say("");
    this.found();
    this.app.address.set({ source: String(this.list.values.id[row]) });
    this.table.mark(this.isListed ? this.place : -1);
    this.chosen.show(this.list, row, this.review);
    if (goes) this.go({ x: this.list.values.x[row], y: this.list.values.y[row] });
    this.app.redraw();
  }

  // Below the images; what others say there stays.
  say(text) {
    const { app } = this;
    if (text || app.message.textContent === this.said) app.say(text);
    this.said = text;
  }

  go({ x, y }) {
    const { app } = this;
    const now = app.shown && app.isPlaced && app.panes[0].place();
    if (now) {
      const { zoom } = app.toPost(app.shown[0].layer, now);
      app.go({ x, y, zoom: Math.max(zoom, ZOOM) });
    } else app.address.set({ x, y, zoom: ZOOM }); // where images go when they come
  }

  // A link with a candidate and no place leads to the candidate.
  fromAddress(hasPlace) {
    const source = this.app.address.get("source");
    const row = this.list && source ? this.list.row(source) : -1;
    if (row >= 0 && row !== this.row) this.choose(row, !hasPlace);
  }

  // The next one by the order of the table; if it has left the table, the next one has taken its place.
  step(by) {
    if (!this.order.length) return;
    const from = this.place < 0 ? (by > 0 ? -1 : this.order.length) : this.isListed || by < 0 ? this.place : this.place - 1;
    const place = from + by;
    if (place >= 0 && place < this.order.length) this.choose(this.order[place], true);
    else this.say(by > 0 ? "This is the last candidate of the table." : "This is the first candidate of the table.");
  }

  decide(decision) {
    if (!this.mayChange()) return;
    const { list, row, review } = this;
    const { note } = review.of(list.values.id[row]);
    review.decide(list.about(row), { decision, note: decision ? note : "" });
    if (decision && this.chosen.onward.checked) this.step(1);
  }

  // A note belongs to a decision: alone it says that one is unsure.
  note(text) {
    if (!this.mayChange()) return;
    const { list, row, review } = this;
    const { decision } = review.of(list.values.id[row]);
    if (decision || text) review.decide(list.about(row), { decision: decision || "unsure", note: text });
  }

  mayChange() {
    if (!this.review.writable) this.say(this.review.why || "Nothing can be saved here.");
    return this.review.writable && this.row >= 0;
  }

  back(which) {
    const candidate = this.review.writable ? this.review[which]() : null;
    if (candidate) this.choose(this.list.row(candidate.id), true);
    else this.say(this.review.writable ? "There is nothing to " + (which === "undo" ? "undo." : "do again.") : this.review.why);
  }

  update(keys) {
    if (keys.includes("panel")) this.table.reveal();
    if (keys.includes("source")) this.fromAddress(this.app.address.get("x") !== null);
    if (keys.some((key) => ["look", "mode"].includes(key))) this.chosen.stamps.soon();
  }

  attend(pane) {
    pane.viewer.addHandler("canvas-click", (event) => event.quick && this.clicked(pane, event.position));
  }

  // Other panels have a use of their own for clicks.
  clicked(pane, { x, y }) {
    const { app } = this;
    const shown = app.shown && app.shown[app.panes.indexOf(pane)];
    const isDrawn = this.marks && shown && shown.layer.frame === "post" && app.address.marks.includes("candidates");
    if (!isDrawn || !["candidates", "about"].includes(app.panels.open.name)) return;
    const row = this.marks.hit(pane, x, y);
    if (row < 0) return;
    this.open();
    this.choose(row, false);
  }

  open() {
    this.app.address.set({ panel: this.name });
  }

  draw(pane, context, { inPost, kinds, width, height }) {
    if (!inPost) return;
    if (this.marks && kinds.includes("candidates")) this.marks.draw(pane, context, { width, height, chosen: this.row });
    if (this.tours.place) emphasise(context, pane.screenAt(this.tours.place.x, this.tours.place.y), 8);
  }

  key(event, isOpen) {
    const { key } = event;
    if (key === "l") this.tours.block().then((place) => place && this.visit(place, "blocks"), (error) => this.say(error.message));
    else if (key === "g") this.visit(this.tours.negative(this.list));
    else if (!this.list || !this.list.length) return false;
    else if (key === "n" || key === "p") {
      this.open();
      this.step(key === "n" ? 1 : -1);
    } else return isOpen && (this.table.key(event) || this.decisionKey(key));
    return true;
  }

  decisionKey(key) {
    if (key in DECISION_KEYS) this.decide(DECISION_KEYS[key]);
    else if (key === "z") this.back("undo");
    else if (key === "Z") this.back("redo");
    else if (key === "m") this.chosen.note.focus();
    else return false;
    return true;
  }

  visit(place, kind) {
    if (!place) return;
    if (kind) this.app.address.mark(kind);
    this.go(place);
    this.app.redraw();
  }
}

function heading(name) {
  return COLUMNS[name] || [name, "", ""];
}

function hint(name) {
  const [title, unit, meaning] = heading(name);
  return title + (unit ? " [" + unit + "]" : "") + (meaning ? ": " + meaning : "") + " (press to sort)";
}

// A line about the search, and all of its settings.
function searched(detection) {
  if (!detection) return null;
  const { candidates, not_counted: apart, threshold_snr: threshold, threshold_from: from, fdr, fdr_control: control, settings = {}, density_per_mm2: density } = detection;
  const isKnown = (value) => typeof value === "number";
  const parts = [
    (detection.is_control ? "unstained control: " : "") + candidates + " candidates" + (isKnown(threshold) ? " with S/N ≥ " + threshold : "") + (apart ? ", " + apart + " not counted" : ""),
    isKnown(fdr) && "FDR " + +fdr.toPrecision(2) + (settings.fdr ? " (wanted " + settings.fdr + ")" : ""),
    isKnown(control) && "by controls " + +control.toPrecision(2) + interval(detection.fdr_control_ci95, 2),
    isKnown(density) && +density.toPrecision(3) + " per mm²" + interval(detection.density_ci95_per_mm2, 3),
  ];
  const title = Object.entries({ ...settings, threshold_from: from || settings.threshold_from }).map(([key, value]) => key + ": " + value).join("\n");
  return el("span", { title }, parts.filter(Boolean).join(" · "));
}

// Why there is no candidate to show, in one sentence.
function whyNone({ status, reasons, registration, detection }) {
  if (detection && detection.status === "failed") return "Nothing was searched: " + detection.reason;
  if (detection) return "The search has found no candidate" + (typeof detection.threshold_snr === "number" ? " with a signal-to-noise ratio of " + detection.threshold_snr + " or more." : ".");
  const why = (text) => ["There are no candidates, as " + text + ".", ...reasons].join(" ");
  if (status === "skipped") return why("this pair was skipped");
  if (registration && registration.status === "failed") return why("the registration of this pair has failed");
  if (status === "failed") return why("this pair has failed");
  return "There are no candidates of this pair yet: its search has not been done.";
}
