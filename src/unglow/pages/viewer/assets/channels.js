// The channels of a slide: which are added up in the composite, and in which colours.

import { button, el, fill } from "./elements.js";

export class ChannelsPanel {
  name = "channels";
  title = "Channels";

  constructor(app) {
    this.app = app;
    this.list = el("div", { class: "channels" });
    this.element = el("div", {}, el("p", { class: "soft" }, "Checked channels are added up in the composite. h shows their contrast."), button("None", "Take all channels out of the composite", () => app.address.set({ layers: "" })), this.list);
  }

  isThere() {
    return Boolean(this.app.pair && this.app.pair.is_slide);
  }

  fill() {
    const layers = this.app.pair.layers.filter(({ kind }) => kind === "channel").map((layer) => ({ layer, box: el("input", { type: "checkbox", onchange: ({ target }) => this.choose(layer.name, target) }), colour: el("input", { type: "color", "aria-label": "Colour of " + layer.title, onchange: ({ target }) => this.app.looks.change(layer, { map: target.value }) }) }));
    this.rows = layers;
    fill(this.list, layers.map(({ layer, box, colour }) => el("div", {}, el("label", {}, box, layer.title), el("span", { class: "soft" }, "cycle " + layer.cycle), colour)));
    this.update(["layers", "look"]);
  }

  update(keys) {
    if (!this.isThere() || !keys.some((key) => ["mode", "layers", "look"].includes(key))) return;
    const { app } = this, chosen = app.composite;
    for (const { layer, box, colour } of this.rows || []) {
      box.checked = chosen.includes(layer.name);
      const { map } = app.looks.settings(layer);
      colour.value = map.startsWith("#") ? map : "#ffffff";
    }
  }

  choose(name, box) {
    const { app } = this, others = app.composite.filter((other) => other !== name);
    app.address.set({ mode: "composite", layers: (box.checked ? [...others, name] : others).join(",") });
  }
}
