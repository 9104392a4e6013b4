// Landmarks: the same places clicked in post and pre, for a registration that needs help.

import { nextCommand } from "./command.js";
import { button, el, fill } from "./elements.js";
import { drawExpected, drawLandmarks } from "./landmark_marks.js";
import { LandmarkPoints } from "./landmark_points.js";
import { attendTo, drawCross } from "./pointer.js";
import { number } from "./status.js";
import { TwoViews } from "./two_views.js";

const NEAR = 11;
const OTHER = { post: "pre", pre: "post" };

export class LandmarksPanel {
  name = "landmarks";
  title = "Landmarks";
  keys = [
    ["Enter", "landmarks: a point at the cross of the active image"], ["Tab", "landmarks: the other image; Shift and Tab lead to the buttons"], ["m", "landmarks: 4 : 1 in both, and back"],
    ["z", "landmarks: undo"], ["Delete", "landmarks: remove the chosen one"],
  ];

  constructor(app) {
    this.app = app;
    this.chosen = -1;
    this.views = new TwoViews(app);
    this.marks = new LandmarkPoints(app, () => this.show());
    this.state = el("p", { class: "state", role: "status" });
    this.tools = el("div", { class: "tools" });
    this.table = el("div");
    this.fit = el("div");
    this.keep = el("div");
    this.element = el("div", { class: "landmarks" }, this.state, this.tools, this.table, this.fit, this.keep);
    window.addEventListener("focus", () => this.isThere() && this.marks.isSaved && this.marks.load());
  }

  isThere() {
    const { pair } = this.app;
    return Boolean(pair) && pair.live && ["post", "pre"].every((name) => pair.layers.some((layer) => layer.name === name));
  }

  get isOpen() {
    return this.app.panels.open === this;
  }

  fill() {
    this.chosen = -1;
    if (this.isThere()) this.marks.load();
    if (this.isOpen) this.start();
    else if (this.views.isOn) this.views.end();
  }

  start() {
    return this.views.start().then(() => this.show());
  }

  update(keys) {
    if (!this.isOpen && this.views.isOn) this.views.end();
    if (this.isOpen && keys.some((key) => ["panel", "mode", "a", "b"].includes(key))) this.show();
  }

  // ------------------------------------------------------------------ the panel

  show() {
    const { marks } = this;
    this.chosen = Math.min(this.chosen, marks.points.length - 1);
    if (!marks.fit.matrix && this.app.tried) this.views.together(null);
    fill(this.state, this.hint());
    fill(this.tools, this.actions());
    fill(this.table, marks.points.length ? this.list() : null);
    fill(this.fit, this.ofFit());
    fill(this.keep, this.saving());
    this.app.redraw();
  }

  hint() {
    const { half, points } = this.marks;
    if (!this.views.areThere) return ["Landmarks are clicked in post and pre side by side. ", button("Show both", "Show post and pre side by side", () => this.start())];
    if (half) return ["Point " + half.name + ": now click the same place in ", el("b", {}, half.post ? "pre" : "post"), "."];
    const least = { 0: "Click a place that you know again in both images, in either of them.", 1: "Click another place, far from the first." }[points.length];
    return least || "Click the next place, or save. Four or more, far from each other, are better than two.";
  }

  actions() {
    const { marks, views } = this;
    const hasFit = Boolean(marks.fit.matrix);
    return [button("Undo", "Undo the last change (z)", () => marks.undo(), { disabled: !marks.past.length }),
      button("4 : 1", "Very near in both images, at the cursor or the crosses, and back (m)", () => this.magnify(), { "aria-pressed": String(views.places !== null) }),
      button("Turn pre", "Turn the image pre by 90°, to look at it: its px stay as they are", () => views.turn()),
      button("Move together", "Move both images together, by the fit", () => this.link(), { disabled: !hasFit, "aria-pressed": String(Boolean(this.app.tried)) })];
  }

  list() {
    const { points } = this.marks;
    return el("table", { class: "points" }, el("tr", {}, ["", "post x, y", "pre x, y", "off by", ""].map((text) => el("th", {}, text))), points.map((point, n) => this.row(point, n)));
  }

  row(point, n) {
    const { worst, fit } = this.marks;
    const off = point.post && point.pre ? fit.residuals_px[n] : null;
    const state = (n === this.chosen ? " is-chosen" : "") + (n === worst ? " worst" : "");
    return el("tr", { class: state, onclick: () => this.choose(n) }, el("td", {}, point.name), el("td", {}, placeOf(point.post)), el("td", {}, placeOf(point.pre)),
      el("td", { class: "off" }, off === null || off === undefined ? "" : lengthOf(off)),
      el("td", {}, button("◎", "Go there in both images", () => this.goTo(n)), button("✕", "Remove it (Delete)", (event) => this.remove(n, event))));
  }

  ofFit() {
    const { fit, complete } = this.marks;
    if (complete.length < 2) return null;
    const off = fit.residuals_px.filter((value) => value !== null && value !== undefined).sort((a, b) => a - b);
    const isExact = off.length > 0 && off[off.length - 1] < 0.01;
    const missed = off.length > 2 && !isExact ? ": they are missed by " + lengthOf(off[Math.floor((off.length - 1) / 2)]) + " in the median, by " + lengthOf(off[off.length - 1]) + " at most" : "";
    const exact = isExact ? " So few always fit exactly: add one more to see the error." : "";
    return [fit.model ? el("p", {}, cased(fit.model) + " map of " + complete.length + " landmarks" + missed + "." + exact) : null, fit.problem ? el("p", { class: "suspect" }, fit.problem) : null];
  }

  saving() {
    const { marks } = this;
    const { about, refusal, written } = marks;
    const state = refusal || (marks.isSaved ? (marks.points.length ? "Saved in " + about.file + "." : "") : "Not saved yet" + (marks.half ? "; a point without a partner is not saved." : "."));
    return [about.problem ? el("p", { class: "suspect" }, about.problem) : null, el("p", { class: "soft" }, state),
      button("Save landmarks", "Write them where the registration reads them", () => this.save(), { disabled: Boolean(refusal) || marks.isSaved }),
      written && nextCommand(written, "The registration of this pair and what follows it run again with:"), written && written.note ? el("p", { class: "suspect" }, written.note) : null];
  }

  // ------------------------------------------------------------------ actions

  async save() {
    try {
      await this.marks.save();
      this.app.say("");
    } catch (error) {
      this.app.say(error.message);
    }
  }

  choose(n) {
    this.chosen = n;
    this.show();
  }

  remove(n, event) {
    if (event) event.stopPropagation(); // its row is chosen by clicks
    this.chosen = -1;
    this.marks.remove(n);
  }

  goTo(n) {
    const point = this.marks.points[n];
    for (const pane of this.app.panes) {
      const frame = this.views.frameOf(pane);
      const at = point[frame] || this.marks.predicted(OTHER[frame], point[OTHER[frame]]);
      if (at) pane.go({ x: at[0], y: at[1] });
    }
  }

  link() {
    this.views.together(this.app.tried ? null : this.marks.fit.matrix);
    this.show();
  }

  magnify() {
    const at = this.cursor && this.views.areThere ? this.cursor : null;
    const places = this.app.panes.map((pane) => {
      if (!at) return {};
      const frame = this.views.frameOf(pane);
      const place = pane === at.pane ? at.place : this.marks.predicted(OTHER[frame], at.place);
      return place ? { x: place[0], y: place[1] } : {};
    });
    this.views.magnify(places);
    this.show();
  }

  // ------------------------------------------------------------------ over the images

  attend(pane) {
    attendTo(pane, {
      isOn: () => this.isOpen && Boolean(this.views.areThere),
      draws: () => true,
      grab: (_, __, at) => this.grab(pane, at),
      click: (_, place) => this.click(pane, place),
      hover: (_, place) => (this.cursor = { pane, place }),
    });
  }

  near(pane, at) {
    const frame = this.views.frameOf(pane);
    const far = this.marks.points.map((point) => {
      const [x, y] = point[frame] ? pane.screenAt(...point[frame]) : [Infinity, Infinity];
      return Math.hypot(x - at[0], y - at[1]);
    });
    const n = far.indexOf(Math.min(...far));
    return far[n] <= NEAR ? n : -1;
  }

  // A point is moved by a drag, and chosen by a click.
  grab(pane, at) {
    const n = this.near(pane, at), frame = this.views.frameOf(pane);
    if (n < 0) return null;
    return {
      move: (place) => {
        this.dragged = { n, frame, place };
        this.app.redraw();
      },
      end: (isMoved) => {
        const { dragged } = this;
        this.dragged = null;
        if (isMoved && dragged) this.marks.place(n, frame, dragged.place);
        this.choose(n);
      },
    };
  }

  click(pane, place) {
    const { views } = this;
    const n = this.app.panes.indexOf(pane), frame = views.frameOf(pane);
    views.activate(n);
    const { width, height } = this.app.shown[n].image;
    if (place[0] < -0.5 || place[1] < -0.5 || place[0] > width - 0.5 || place[1] > height - 0.5) return this.app.say("This place is outside of " + frame + ": click inside the image.");
    this.app.say("");
    this.chosen = this.marks.click(frame, place);
    const { half } = this.marks;
    const expected = half && this.marks.predicted(frame, place);
    const other = views.paneOf(OTHER[frame]);
    if (expected && other && !this.app.tried) other.go({ x: expected[0], y: expected[1] });
    this.show();
  }

  draw(pane, context, { width, height }) {
    if (!this.isOpen || !this.views.areThere) return;
    const frame = this.views.frameOf(pane);
    const { marks } = this, { half, worst } = marks;
    drawLandmarks(pane, context, marks.points.map((point, n) => this.drawn(point, n, frame, worst)).filter(Boolean));
    const expected = half && !half[frame] && marks.predicted(OTHER[frame], half[OTHER[frame]]);
    if (expected) drawExpected(pane, context, expected);
    drawCross(context, [width / 2, height / 2], pane === this.views.pane ? 12 : 7);
  }

  // What the fit misses a point by is drawn in pre, where it was measured.
  drawn(point, n, frame, worst) {
    const { dragged, marks } = this;
    const place = dragged && dragged.n === n && dragged.frame === frame ? dragged.place : point[frame];
    if (!place) return null;
    const off = marks.fit.residuals_px[n];
    const isMissed = frame === "pre" && point.post && off > 0;
    return {
      x: place[0], y: place[1], name: point.name, state: n === this.chosen ? "chosen" : n === worst ? "worst" : "plain",
      expected: isMissed ? marks.predicted("post", point.post) : null, off: isMissed && n === worst ? lengthOf(off) : "",
    };
  }

  // ------------------------------------------------------------------ keys

  key(event, isOpen) {
    if (!isOpen || !this.views.areThere || !this.views.pane.ready) return false;
    const isFree = event.target.tagName !== "BUTTON"; // else the key belongs to the button
    const { x, y } = this.views.pane.place();
    const act = {
      z: () => this.marks.undo(), m: () => this.magnify(),
      ...(isFree && { Enter: () => this.click(this.views.pane, [x, y]) }),
      ...(isFree && !event.shiftKey && { Tab: () => this.activate() }),
      ...(this.chosen >= 0 && { Delete: () => this.remove(this.chosen), Backspace: () => this.remove(this.chosen), Escape: () => this.choose(-1) }),
    }[event.key];
    if (act) act();
    const isTaken = Boolean(act) || this.views.key(event);
    if (isTaken) this.cursor = null; // now it is the crosses that point
    return isTaken;
  }

  activate() {
    this.views.activate((this.views.active + 1) % this.app.panes.length);
    this.app.redraw();
  }
}

function placeOf(place) {
  return place ? place.map((value) => value.toFixed(1)).join(", ") : "–";
}

function lengthOf(px) {
  return number(+px.toFixed(px < 10 ? 2 : 1)) + " px";
}

function cased(text) {
  return text[0].toUpperCase() + text.slice(1);
}
