// The regions of a pair as they are in their file: changed there at once, one change after the other, and undone.

import { regionOf } from "./outlines.js";

export class SavedRegions {
  // `changed(why)` is called when the regions change.
  constructor(app, changed) {
    Object.assign(this, { app, changed, all: [], about: {}, home: "", past: [], queue: Promise.resolve(), waiting: 0 });
  }

  // Read the regions of the open pair again.
  async load() {
    const { home } = this.app;
    if (home !== this.home) Object.assign(this, { home, all: [], about: {}, past: [] });
    try {
      const collection = await this.app.get(home + "regions.geojson");
      if (!this.waiting) this.take(home, collection); // else the answer to a change comes, which is newer
    } catch (error) {
      if (home === this.home) Object.assign(this, { about: { writable: false, why: error.message } });
    }
    this.changed();
  }

  take(home, collection) {
    if (home !== this.home) return; // another pair is open by now
    this.all = collection.features.map(regionOf);
    this.about = collection.unglow || {};
  }

  get(id) {
    return this.all.find((region) => region.id === id);
  }

  // Why nothing can be saved, or nothing.
  get refusal() {
    const { pair } = this.app;
    if (!pair.live) return "These are files without a server: regions are shown, and cannot be drawn here.";
    const writable = this.about.writable ?? pair.writable ?? true;
    return writable ? "" : this.about.why || pair.why || "These results cannot be written to.";
  }

  put(feature) {
    const before = this.get(feature.id);
    return this.change({ put: [feature], delete: [] }, before ? { put: [before.feature], delete: [] } : { put: [], delete: [feature.id] });
  }

  remove(id) {
    return this.change({ put: [], delete: [id] }, { put: [this.get(id).feature], delete: [] });
  }

  undo() {
    const last = this.past.pop();
    return last && this.change(last);
  }

  // Shown at once; the answer of the server replaces it.
  change(change, back) {
    const { home } = this;
    const gone = new Set([...change.delete, ...change.put.map(({ id }) => id)]);
    this.all = [...this.all.filter(({ id }) => !gone.has(id)), ...change.put.map(regionOf)];
    if (back) this.past.push(back);
    this.changed();
    this.waiting += 1;
    this.queue = this.queue.then(() => this.send(home, change, back));
    return this.queue;
  }

  async send(home, change, back) {
    try {
      const answer = await this.app.post(home + "regions", change);
      this.waiting -= 1;
      if (!this.waiting) this.take(home, answer);
      this.changed();
    } catch (error) {
      this.waiting -= 1;
      this.past = this.past.filter((other) => other !== back);
      this.app.say("Not saved: " + error.message);
      if (home === this.app.home) await this.load();
    }
  }

  async use() {
    const written = await this.app.post(this.home + "regions/use", {});
    await this.load();
    return written;
  }
}
