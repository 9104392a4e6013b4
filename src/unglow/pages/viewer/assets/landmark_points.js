// Landmarks of a pair while they are clicked: points, what was done before, their fit, and the file they are saved in.

import { inverse, mapped } from "./matrices.js";

const LEAST = 2;
const FIT_MS = 60;
const NO_FIT = { model: "", matrix: null, residuals_px: [], problem: "" };

export class LandmarkPoints {
  // `changed()` hears when points, the fit or the file are others.
  constructor(app, changed) {
    Object.assign(this, { app, changed, home: "", drafts: new Map() });
    this.forget();
  }

  forget() {
    Object.assign(this, { points: [], past: [], fit: NO_FIT, about: {}, isSaved: true, written: null });
  }

  // Landmarks of the open pair: unsaved ones, or those of its file.
  async load() {
    const { home } = this.app;
    if (home !== this.home) {
      if (!this.isSaved) this.drafts.set(this.home, this.points);
      this.forget();
      this.home = home;
      this.changed();
    }
    let about;
    try {
      about = await this.app.get(home + "landmarks.json");
    } catch (error) {
      about = { points: [], writable: false, why: error.message };
    }
    if (home !== this.home) return;
    this.about = about;
    const points = this.drafts.get(home) || about.points;
    if (this.isSaved && JSON.stringify(points) !== JSON.stringify(this.points)) {
      Object.assign(this, { points, isSaved: !this.drafts.delete(home), past: [] });
      this.refit();
    }
    this.changed();
  }

  // Why nothing can be saved, or nothing.
  get refusal() {
    return this.about.writable === false ? this.about.why || "Landmarks cannot be saved." : "";
  }

  get complete() {
    return this.points.filter(({ post, pre }) => post && pre);
  }

  // The point whose partner is to be clicked next.
  get half() {
    return this.points.find(({ post, pre }) => !post || !pre);
  }

  // A place in "post" or "pre": the partner of the last point, or a new one.
  click(frame, place) {
    const { half } = this;
    if (half) return this.place(this.points.indexOf(half), frame, place);
    const names = new Set(this.points.map(({ name }) => name));
    let n = 1;
    while (names.has(String(n))) n += 1;
    this.change([...this.points, { name: String(n), post: null, pre: null, [frame]: place }]);
    return this.points.length - 1;
  }

  place(n, frame, place) {
    this.change(this.points.map((point, k) => (k === n ? { ...point, [frame]: place } : point)));
    return n;
  }

  remove(n) {
    this.change(this.points.filter((_, k) => k !== n));
  }

  undo() {
    const before = this.past.pop();
    if (before) this.change(before, false);
  }

  change(points, isKept = true) {
    if (isKept) this.past.push(this.points);
    Object.assign(this, { points, isSaved: false, written: null });
    this.refit();
    this.changed();
  }

  refit() {
    clearTimeout(this.timer);
    const turn = (this.turn = {});
    if (this.complete.length < LEAST) {
      this.fit = NO_FIT;
      return;
    }
    this.fit = { ...this.fit, residuals_px: [] };
    this.timer = setTimeout(() => this.ask(turn), FIT_MS);
  }

  async ask(turn) {
    let fit;
    try {
      fit = await this.app.post(this.home + "landmarks/fit", { points: this.points });
    } catch (error) {
      fit = { ...NO_FIT, problem: error.message };
    }
    if (turn !== this.turn) return; // points have changed since
    this.fit = fit;
    this.changed();
  }

  // Where the fit puts a place of one image in the other; null without a fit.
  predicted(frame, [x, y]) {
    const { matrix } = this.fit;
    if (!matrix) return null;
    const place = mapped(frame === "post" ? matrix : inverse(matrix), { x, y });
    return [place.x, place.y];
  }

  // The index of the point that the fit misses by most; -1 where all are met.
  get worst() {
    const off = this.fit.residuals_px.map((value) => value || 0), most = Math.max(...off);
    return off.length && this.complete.length > LEAST && most > 0.01 ? off.indexOf(most) : -1;
  }

  async save() {
    const points = this.complete;
    if (points.length < LEAST) throw new Error("Two landmarks at least make a map: click the same place in both images, twice.");
    const written = await this.app.post(this.home + "landmarks", { points });
    Object.assign(this, { written, isSaved: points.length === this.points.length });
    this.changed();
  }
}
