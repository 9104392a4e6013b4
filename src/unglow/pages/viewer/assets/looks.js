// How layers look: one contrast for all layers of a kind, unless a layer has its own.

import { limitsOf, OVERLAY_MAPS, sortedSample, STANDARD, table } from "./colours.js";

const SAMPLE_PX = 1 << 20, SQUARE_PX = 192;
// The layer whose px set the limits of its kind.
const LEADING = { intensity: "post" };

export class Looks {
  constructor(app) {
    this.app = app;
    this.samples = new Map();
    this.made = new Map();
  }

  forget() {
    this.samples.clear();
    this.made.clear();
  }

  // Where a change of the contrast of a layer is kept in the address: by kind, or by the layer itself.
  keyOf(layer) {
    return this.hasOwn(layer) ? layer.name : layer.kind;
  }

  // Channels of a slide differ too much for one contrast.
  hasOwn(layer) {
    return layer.kind === "channel" || Boolean(this.app.address.get("look")[layer.name]);
  }

  settings(layer) {
    const changes = this.app.address.get("look");
    const own = layer.kind === "channel" ? { own: true, map: layer.colour } : {};
    return { ...STANDARD[layer.kind], ...own, ...changes[layer.kind], ...changes[layer.name] };
  }

  change(layer, changes) {
    const look = this.app.address.get("look"), key = this.keyOf(layer);
    this.app.address.set({ look: { ...look, [key]: { ...look[key], ...changes } } });
  }

  // Give layers a contrast of their own, or the one of their kind again.
  separate(layers, own) {
    const look = { ...this.app.address.get("look") };
    for (const layer of layers) {
      if (own) look[layer.name] = { ...this.settings(layer), own: true };
      else delete look[layer.name];
    }
    this.app.address.set({ look });
  }

  reset(layer) {
    const look = { ...this.app.address.get("look") };
    delete look[this.keyOf(layer)];
    this.app.address.set({ look });
  }

  // Values of the layer that sets the limits, in order.
  async sample(layer) {
    const own = this.hasOwn(layer);
    const leading = own ? null : this.app.pair.layers.find((other) => other.name === LEADING[layer.kind]);
    const of = leading || (own ? layer : this.app.pair.layers.find((other) => other.kind === layer.kind && other.default)) || layer;
    if (!this.samples.has(of.name)) {
      const image = await this.app.image(of.name);
      // where a part of the overview is damaged, the rest can still be looked at
      const values = of.kind === "difference" ? image.squares(SQUARE_PX) : image.overview(SAMPLE_PX);
      const sample = await values.then(sortedSample, () => Float32Array.from(image.window));
      this.samples.set(of.name, sample);
    }
    return this.samples.get(of.name);
  }

  // Colours and limits of a layer; those of an overlay are the two halves of white.
  async of(layer, place) {
    const settings = this.settings(layer);
    const limits = settings.limits || limitsOf(await this.sample(layer), settings);
    const mode = this.app.address.get("mode");
    const map = mode === "overlay" ? OVERLAY_MAPS[place] : settings.map;
    const clear = ["overlay", "composite"].includes(mode);
    const key = JSON.stringify([settings, limits, map, clear]);
    if (!this.made.has(key)) {
      const symmetric = settings.symmetric && limits[0] === -limits[1];
      const colours = table({ ...settings, limits, map, symmetric });
      this.made.set(key, { ...settings, map, limits, symmetric, colours, clear });
    }
    return this.made.get(key);
  }
}
