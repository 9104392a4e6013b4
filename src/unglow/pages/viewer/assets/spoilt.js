// Spoilt places of post, which the search leaves out: a list, and hatched over the images; each says why and how strongly.

import { el, fill } from "./elements.js";
import { contains, regionOf } from "./outlines.js";
import { attendTo } from "./pointer.js";
import { drawRegions } from "./region_marks.js";
import { areaText, number, percent } from "./status.js";

// Number of places with a row: the largest ones.
const MOST_ROWS = 300;
const WHY = {
  "not stored": "post has the lowest value of the image there: the tile was not written",
  lost: "post is as dark as glass: tissue was torn off",
  moved: "structures are shifted against the map",
  debris: "post is brighter throughout: dust, a fold, or other tissue on top",
  "gain off": "post is brighter or darker in proportion to pre: bleaching, or uneven light",
  "out of focus": "structures are softer or sharper in post than in pre",
  "unlike pre": "the difference is rougher than noise explains",
  seam: "a straight line along a row or column, brighter or darker than both sides: the border of camera tiles",
};
const WRONG = "Wrongly excluded? Draw a region of class analyse over it, and use it in the workflow.";

export class SpoiltPanel {
  name = "spoilt";
  title = "Spoilt";

  constructor(app) {
    Object.assign(this, { app, all: [], merged: null, chosen: null, problem: "", home: "" });
    this.state = el("p", { class: "state", role: "status" });
    this.list = el("div", { class: "spoilt-places" });
    this.element = el("div", {}, this.state, this.list);
  }

  // Results of versions that did not look for spoilt places say nothing of them.
  isThere() {
    const { pair } = this.app;
    return Boolean(pair && pair.detection && pair.detection.spoilt);
  }

  async fill() {
    Object.assign(this, { all: [], merged: null, chosen: null, problem: "", home: this.app.home });
    if (!this.isThere()) return;
    this.show();
    const { home } = this;
    try {
      const { features } = await this.app.get(home + "artefacts.geojson");
      if (home === this.home) this.all = features.map(placeOf);
    } catch (error) {
      if (home === this.home) this.problem = error.message;
    }
    if (home === this.home) this.show();
  }

  get isOpen() {
    return this.app.panels.open === this;
  }

  // ------------------------------------------------------------------ the panel

  show() {
    fill(this.list, this.all.slice(0, MOST_ROWS).map((place) => this.row(place)));
    this.showCounts();
  }

  row(place) {
    return el("button", { type: "button", class: "spoilt-place", "data-id": place.id, title: "Show it", "aria-pressed": String(place === this.chosen), onclick: () => this.zoomTo(place) },
      el("i"), el("b", {}, place.reason), el("span", { class: "soft" }, (place.cycle ? "cycle " + place.cycle + ", " : "") + this.size(place) + ", strength " + number(place.strength)));
  }

  size(place) {
    return areaText(place.area_px, this.app.pair.pixel_size_um, 3);
  }

  showCounts() {
    fill(this.state, this.problem || (this.chosen ? this.about(this.chosen) : this.summary()));
    this.list.querySelectorAll(".spoilt-place").forEach((row) => row.setAttribute("aria-pressed", String(this.chosen !== null && row.dataset.id === this.chosen.id)));
    this.app.redraw();
  }

  about(place) {
    // lost or missing places may show dark px only
    const strength = place.strength > 0 ? "Strength: " + number(place.strength) + " times the scatter of the section. " : "";
    const why = place.cycle ? ofCycle(WHY[place.reason] || "", place.cycle) : WHY[place.reason];
    return [el("b", {}, place.reason), why ? ": " + why + ". " : ". ", strength, place.cycle ? null : el("span", { class: "soft" }, WRONG)];
  }

  summary() {
    const { spoilt, settings } = this.app.pair.detection;
    if (spoilt.cycles) return Object.entries(spoilt.cycles).map(([cycle, share]) => "Cycle " + cycle + ": " + percent(share) + " of the section is spoilt.").join(" ") + " Hatched where it is in a cycle that is shown.";
    if (settings && settings.spoilt === "never") return "Spoilt places were not looked for (detect.spoilt: never).";
    if (!spoilt.places) return "No spoilt place was found.";
    const share = percent(spoilt.share) + " of the section";
    const more = spoilt.places > MOST_ROWS ? " The list has the " + MOST_ROWS + " largest." : "";
    return share + " is spoilt and excluded from the search, in " + spoilt.places + (spoilt.places === 1 ? " place." : " places.") + more + " Click one, in the list or in the image, to see why.";
  }

  // ------------------------------------------------------------------ actions

  choose(place) {
    this.chosen = place;
    if (place) this.app.address.mark("spoilt");
    this.showCounts();
  }

  zoomTo(place) {
    this.choose(place);
    if (this.app.panes.length) this.app.zoomTo(place, 0.5, 8);
  }

  // ------------------------------------------------------------------ over the images

  attend(pane) {
    attendTo(pane, {
      isOn: () => this.isOpen && Boolean(this.app.shown),
      draws: () => false,
      grab: () => null,
      click: (_, place) => this.click(pane, place),
    });
  }

  click(pane, [x, y]) {
    const at = this.app.toPost(this.app.layerAt(pane), { x, y });
    this.choose(this.all.find((place) => contains(place, [at.x, at.y])) || null);
  }

  draw(pane, context, { inPost, kinds, width, height }) {
    const { app } = this;
    if (!kinds.includes("spoilt") || !this.all.length || !(inPost || app.pair.matrix)) return;
    // all of them as one: of an image that is unlike its pre everywhere there are many thousands
    const seen = app.panes.length > 1 ? [app.layerAt(pane)] : app.shown.map((one) => one.layer);
    const cycles = String(seen.map((one) => one.cycle));
    if (!this.merged || this.merged.cycles !== cycles) {
      const some = this.all.filter((place) => !place.cycle || seen.some((one) => one.cycle === place.cycle));
      this.merged = { polygons: some.flatMap(({ polygons }) => polygons), name: "", kind: "spoilt", cycles };
    }
    const named = this.chosen ? [{ ...this.chosen, name: this.chosen.reason }] : [];
    drawRegions(context, [this.merged, ...named], app.toScreen(pane), named[0], [width, height]);
  }
}

// Of a slide, a cycle is compared with the reference as post is with pre.
function ofCycle(text, cycle) {
  return text.replace(/\bpost\b/g, "cycle " + cycle).replace(/\bpre\b/g, "the reference");
}

// A place as regions are drawn: it cannot be changed.
function placeOf(feature, n) {
  const { reason, strength, area_px, cycle } = feature.properties;
  return { ...regionOf(feature), id: String(n), kind: "spoilt", reason, strength, area_px, cycle, isEditable: false };
}
