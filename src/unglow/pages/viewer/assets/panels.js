// Panels next to the images, one of which is open. Each has `title`, `element`, and may have
// fill() for another pair, update(keys), attend(pane), draw(pane, context, about), key(event), and `keys` as in keys.js.

import { AboutPanel } from "./about.js";
import { CandidatesPanel } from "./candidates.js";
import { ChannelsPanel } from "./channels.js";
import { button, el, fill, keepFocus } from "./elements.js";
import { LandmarksPanel } from "./landmarks.js";
import { PairsPanel } from "./pair_list.js";
import { RegionsPanel } from "./regions.js";
import { SpoiltPanel } from "./spoilt.js";

export class Panels {
  constructor(app) {
    this.app = app;
    this.about = new AboutPanel(app);
    this.all = [new PairsPanel(app), this.about, new ChannelsPanel(app), new CandidatesPanel(app), new SpoiltPanel(app), new RegionsPanel(app), new LandmarksPanel(app)];
    this.tabs = el("div", { class: "tabs", role: "tablist" });
    this.body = el("div", { class: "body", tabindex: "0", role: "region", "aria-label": "Panel" });
    this.element = el("aside", { class: "panels" }, this.tabs, this.body);
  }

  get open() {
    const { address, pair } = this.app;
    const name = address.get("panel") || (pair?.detection?.status === "ok" && "candidates");
    return this.all.find((panel) => panel.name === name && this.isThere(panel)) || this.about;
  }

  // What keys do in the panels that are there.
  get keys() {
    return this.all.filter((panel) => this.isThere(panel)).flatMap(({ keys }) => keys || []);
  }

  // Of a slide there are facts, channels and spoilt places.
  isThere(panel) {
    const { pair } = this.app;
    if (pair && pair.is_slide && !["pairs", "about", "channels", "spoilt"].includes(panel.name)) return false;
    return !panel.isThere || panel.isThere();
  }

  async fill() {
    await Promise.all(this.all.map((panel) => panel.fill && this.isThere(panel) && panel.fill()));
    this.show();
  }

  show() {
    const { open } = this;
    keepFocus(() => fill(this.tabs, this.all.filter((panel) => this.isThere(panel)).map((panel) => button(panel.title, panel.title, () => this.app.address.set({ panel: panel.name }), { role: "tab", "aria-selected": String(panel === open) }))));
    fill(this.body, open.element);
  }

  update(keys) {
    if (keys.includes("panel")) this.show();
    for (const panel of this.all) if (panel.update) panel.update(keys);
  }

  attend(pane) {
    for (const panel of this.all) if (panel.attend) panel.attend(pane);
  }

  draw(pane, context, about) {
    for (const panel of this.all) if (panel.draw) panel.draw(pane, context, about);
  }

  // Whether the open panel, or another one, has taken a key.
  key(event) {
    const { open } = this;
    return [open, ...this.all.filter((panel) => panel !== open)].some((panel) => panel.key && this.isThere(panel) && panel.key(event, panel === open));
  }
}
