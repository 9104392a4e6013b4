// Regions to exclude from the search, and regions to analyse: drawn, named, saved and handed to the workflow.

import { nextCommand } from "./command.js";
import { Drawing } from "./drawing.js";
import { button, el, fill, select } from "./elements.js";
import { areaOf, contains, featureOf, withCorners, withProperties } from "./outlines.js";
import { attendTo } from "./pointer.js";
import { drawRegions } from "./region_marks.js";
import { SavedRegions } from "./saved_regions.js";
import { areaText } from "./status.js";

const CLASSES = [["exclude", "exclude"], ["analyse", "analyse"]];
const NEAR = 9;

export class RegionsPanel {
  name = "regions";
  title = "Regions";
  keys = [
    ["r d", "regions: draw a rectangle, a polygon"], ["c", "regions: a corner at the cross"], ["Enter Escape Backspace", "regions: close, give up, take the last corner back"],
    ["z Delete", "regions: undo, remove the chosen one"],
  ];

  constructor(app) {
    this.app = app;
    this.kind = "exclude";
    this.chosen = "";
    this.written = null;
    this.saved = new SavedRegions(app, () => this.show());
    this.drawing = new Drawing((corners) => this.add(corners), (isHover) => isHover ? app.redraw() : this.showHint());
    this.tools = el("div", { class: "tools" });
    this.state = el("p", { class: "state", role: "status" });
    this.list = el("div", { class: "regions", onfocusout: () => this.isBehind && setTimeout(() => this.show()) });
    this.use = el("div", { class: "use" });
    this.element = el("div", {}, this.tools, this.state, this.list, this.use);
    window.addEventListener("focus", () => this.isThere() && this.saved.load());
  }

  isThere() {
    const { pair } = this.app;
    return Boolean(pair) && pair.layers.some(({ frame }) => frame === "post");
  }

  fill() {
    Object.assign(this, { chosen: "", written: null });
    this.drawing.stop();
    if (this.isThere()) this.saved.load();
  }

  get isOpen() {
    return this.app.panels.open === this;
  }

  update(keys) {
    if (keys.includes("panel") && !this.isOpen && this.drawing.tool) this.drawing.stop();
  }

  // ------------------------------------------------------------------ the panel

  show() {
    const off = Boolean(this.saved.refusal);
    // a name that is being typed stays as it is, and all others until it is done
    this.isBehind = this.list.contains(document.activeElement) && document.activeElement.tagName === "INPUT";
    if (!this.isBehind) fill(this.list, this.saved.all.map((region) => this.row(region, off)));
    fill(this.use, this.ofWorkflow(off));
    this.showHint();
  }

  // A hint: the next step of drawing.
  showHint() {
    const { refusal } = this.saved;
    const off = Boolean(refusal);
    const tool = (name, text, key) => button(text, text + " (" + key + ")", () => this.start(name), { disabled: off, "aria-pressed": String(this.drawing.tool === name) });
    fill(this.tools, select("Class of the next region", CLASSES, this.kind, (kind) => (this.kind = kind)), tool("rectangle", "Rectangle", "r"), tool("polygon", "Polygon", "d"),
      button("Undo", "Undo the last change (z)", () => this.undo(), { disabled: off || !this.saved.past.length }));
    fill(this.state, this.drawing.tool || this.drawing.problem ? this.drawing.state : refusal || this.hint());
    this.app.redraw();
  }

  hint() {
    if (!this.saved.all.length) return "Exclude bubbles, folds and glue from the search, or analyse parts of the section on their own.";
    const region = this.saved.get(this.chosen);
    if (!region) return "Click a region, in the list or in the image, to change it.";
    return region.isEditable ? "Drag a corner to move it; Delete removes the region." : "This shape has holes or several parts: it can be named and deleted, its corners stay.";
  }

  row(region, off) {
    const { id, name, kind } = region;
    const named = el("input", { value: name, placeholder: "no name", "aria-label": "name", disabled: off, onchange: (event) => this.rename(region, event.target) });
    const classes = kind ? CLASSES : [["", region.given || "no class"], ...CLASSES];
    return el("div", { class: "region" + (id === this.chosen ? " is-chosen" : ""), "data-id": id, onclick: () => this.choose(id), onfocusin: () => this.choose(id) },
      el("i", { class: kind }), named,
      el("fieldset", { disabled: off }, select("class", classes, kind, (next) => this.saved.put(withProperties(region.feature, { classification: { name: next } })))),
      button("◎", "Show it", () => this.zoomTo(region)), button("✕", "Delete it (Delete)", (event) => this.remove(id, event), { disabled: off }),
      el("span", { class: "soft" }, this.size(region)), el("span", { class: "soft" }, this.counts(region)));
  }

  size(region) {
    return areaText(areaOf(region), this.app.pair.pixel_size_um, 4);
  }

  counts({ id, kind }) {
    const found = (this.saved.about.counts || {})[id];
    return found && kind === "analyse" ? [countText("candidates", found.candidates), el("br"), countText("accepted", found.accepted)] : null;
  }

  ofWorkflow(off) {
    const { about, all } = this.saved;
    const state = about.in_use === true ? "These are the regions that the workflow reads." : about.in_use === false ? "The regions that the workflow reads differ from these." : "";
    if (!all.length && about.in_use !== false) return null;
    return [el("h3", {}, "In the workflow"), state ? el("p", { class: about.in_use ? "good" : "suspect" }, state) : null,
      el("p", { class: "soft" }, "The search skips excluded regions and counts candidates in analysed ones. Only the search and what follows it run again."),
      button("Use in the workflow", "Write these regions where the workflow reads them", () => this.useThem(), { disabled: off || about.in_use === true }), about.in_use !== false && this.written && nextCommand(this.written, "Go on with:")];
  }

  // ------------------------------------------------------------------ actions

  start(tool) {
    if (this.saved.refusal) return;
    if (document.activeElement) document.activeElement.blur(); // Enter belongs to the drawing now
    this.app.address.mark("regions");
    this.chosen = "";
    this.drawing.start(this.drawing.tool === tool ? "" : tool);
  }

  add(corners) {
    const id = crypto.randomUUID(); // as QuPath has them
    this.chosen = id;
    this.saved.put(featureOf({ id, kind: this.kind, name: this.freeName(), corners }));
  }

  freeName() {
    const names = new Set(this.saved.all.map(({ name }) => name));
    let n = 1;
    while (names.has("region " + n)) n += 1;
    return "region " + n;
  }

  rename(region, input) {
    input.blur();
    this.saved.put(withProperties(region.feature, { name: input.value.trim() }));
  }

  choose(id) {
    if (id === this.chosen) return;
    this.chosen = id;
    this.list.querySelectorAll(".region").forEach((row) => row.classList.toggle("is-chosen", row.dataset.id === id));
    if (id) this.app.address.mark("regions");
    this.showHint();
  }

  remove(id, event) {
    if (event) event.stopPropagation(); // its row is chosen by clicks
    if (this.chosen === id) this.chosen = "";
    this.saved.remove(id);
  }

  undo() {
    if (!this.saved.refusal) this.saved.undo();
  }

  zoomTo(region) {
    this.choose(region.id);
    this.app.zoomTo(region, 0.7, 32);
  }

  async useThem() {
    try {
      this.written = await this.saved.use();
      this.show();
    } catch (error) {
      this.app.say(error.message);
    }
  }

  // ------------------------------------------------------------------ over the images

  attend(pane) {
    attendTo(pane, {
      isOn: () => this.isOpen && Boolean(this.app.shown),
      draws: () => Boolean(this.drawing.tool),
      grab: (_, place, at) => this.grab(pane, place, at),
      click: (_, place) => this.click(pane, place),
      hover: (_, place) => this.drawing.corners.length && this.drawing.hover(place),
      twice: () => this.drawing.close(),
    });
  }

  // Whether the image of a pane is one that regions are drawn on; if not, it is said why.
  isPost(pane) {
    if (this.frameOf(pane) === "post") return true;
    this.drawing.problem = "Regions are px of the post-stain image: draw them on post, or on a layer in its frame.";
    this.showHint();
    return false;
  }

  frameOf(pane) {
    return this.app.layerAt(pane).frame;
  }

  grab(pane, place, at) {
    if (this.drawing.tool) return this.drawing.tool === "rectangle" && this.isPost(pane) ? this.drawing.grab(place) : null;
    const region = this.saved.get(this.chosen);
    if (!region || !region.isEditable || this.saved.refusal || this.frameOf(pane) !== "post") return null;
    const [outline] = region.polygons[0];
    const places = outline.map(([x, y]) => pane.screenAt(x, y));
    const far = places.map(([x, y]) => Math.hypot(x - at[0], y - at[1]));
    const corner = far.indexOf(Math.min(...far));
    return far[corner] <= NEAR ? this.grip(region, outline, corner) : null;
  }

  grip(region, outline, corner) {
    const before = outline[corner];
    return {
      move: (place) => {
        outline[corner] = place;
        region.path = region.box = null;
        this.app.redraw();
      },
      end: (isMoved) => {
        if (!isMoved) return;
        const corners = [...outline];
        outline[corner] = before; // undo
        this.saved.put(withCorners(region.feature, corners));
      },
    };
  }

  click(pane, place) {
    if (this.drawing.tool) {
      if (this.isPost(pane)) this.drawing.corner(place, pane.place().zoom);
      return;
    }
    if (this.frameOf(pane) !== "post") return;
    const hits = this.saved.all.filter((region) => region.path && contains(region, place));
    const [smallest] = hits.sort((a, b) => areaOf(a) - areaOf(b));
    this.choose(smallest ? smallest.id : "");
  }

  draw(pane, context, { inPost, kinds, width, height }) {
    const { app } = this;
    if (kinds.includes("regions") && (inPost || app.pair.matrix)) {
      drawRegions(context, this.saved.all, app.toScreen(pane), this.isOpen && inPost ? this.saved.get(this.chosen) : null, [width, height]);
    }
    if (this.drawing.tool && inPost && this.isOpen) this.drawing.draw(pane, context, width, height);
  }

  // ------------------------------------------------------------------ keys

  key(event, isOpen) {
    if (!isOpen) return false;
    const acts = this.drawing.tool ? this.keysOfDrawing(event) : this.keysOfRegions(event);
    const act = { r: () => this.start("rectangle"), d: () => this.start("polygon"), z: () => this.undo(), ...acts }[event.key];
    if (act) act();
    return Boolean(act);
  }

  keysOfDrawing() {
    const [pane] = this.app.panes;
    if (!pane.ready) return {};
    const { x, y } = pane.place();
    return {
      Escape: () => this.drawing.stop(), Backspace: () => this.drawing.back(), z: () => this.drawing.back(), Enter: () => this.drawing.close(),
      c: () => this.isPost(pane) && this.drawing.corner([x, y], pane.place().zoom),
    };
  }

  keysOfRegions() {
    return this.chosen ? { Delete: () => this.remove(this.chosen), Backspace: () => this.remove(this.chosen), Escape: () => this.choose("") } : {};
  }
}

function countText(word, { count, unit, density, density_ci95: ends }) {
  const of = { mm2: "mm²", Mpx: "megapixel" }[unit];
  if (!of) return count + " " + word;
  const [mean, low, high] = [density, ...ends].map((value) => String(+value.toPrecision(3)));
  return count + " " + word + ": " + mean + " (" + low + " to " + high + ") per " + of;
}
