// All pairs and slides with a small picture, state and number of candidates.

import { badge, el, fill, whenSeen } from "./elements.js";

export class PairsPanel {
  name = "pairs";
  title = "Pairs";
  keys = [[", .", "previous, next pair"]];

  constructor(app) {
    this.app = app;
    this.element = el("div", { class: "pair-list" });
  }

  isThere() {
    return Boolean(this.app.pairs && this.app.pairs.length > 1);
  }

  fill() {
    if (!this.element.childElementCount) fill(this.element, this.app.pairs.map((pair) => this.row(pair)));
    for (const row of this.element.children) row.setAttribute("aria-current", String(row.dataset.id === this.app.pair.id));
  }

  row({ id, title, status, outdated, reasons, candidates }) {
    const frame = el("span", { class: "thumb", "data-id": id });
    whenSeen(frame, () => this.picture(frame));
    const facts = candidates === null ? reasons.join(" ") : candidates + (candidates === 1 ? " candidate" : " candidates");
    return el("button", { type: "button", class: "pair-row", "data-id": id, title: reasons.join(" "), onclick: () => this.app.choose(id) }, frame,
      el("span", { class: "about-pair" }, el("b", {}, title), " ", status ? badge(status) : null, outdated ? [" ", badge("outdated", null, outdated)] : null, el("span", { class: "soft" }, facts)));
  }

  async picture(frame) {
    const response = await fetch(new URL("pair/" + frame.dataset.id + "/thumbnail.jpg", this.app.base)).catch(() => null);
    const image = response && response.ok ? await response.blob() : null; // empty where there is none
    if (image && image.size) fill(frame, el("img", { alt: "", src: URL.createObjectURL(image) }));
  }

  key({ key }) {
    const by = { ",": -1, ".": 1 }[key];
    const { app } = this;
    const next = by && app.pairs[app.pairs.findIndex(({ id }) => id === app.pair.id) + by];
    if (next) app.choose(next.id);
    return Boolean(by);
  }
}
