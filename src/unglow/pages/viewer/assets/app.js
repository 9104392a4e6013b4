// The viewer: a pair, its layers in one or two panes, and panels next to them.

import { Address } from "./address.js";
import { Blinking } from "./blinking.js";
import { Contrast } from "./contrast.js";
import { el, fill } from "./elements.js";
import { Image, reasonOf } from "./images.js";
import { inverse, mapped } from "./matrices.js";
import { Looks } from "./looks.js";
import { boxOf } from "./outlines.js";
import { Overview } from "./overview.js";
import { Pane } from "./pane.js";
import { drawMarks } from "./marks.js";
import { Status } from "./status.js";
import { Toolbar } from "./toolbar.js";
import { Panels } from "./panels.js";
import { keyed, KeysDialog } from "./keys.js";
import { layersOfVariants } from "./variants.js";

// Tables come after the images, or after so long.
const PATIENCE_MS = 2000;

export class App {
  constructor(parent, base) {
    this.base = base;
    this.address = new Address();
    this.looks = new Looks(this);
    this.images = new Map();
    this.files = new Map();
    this.panes = [];
    this.message = el("div", { class: "message", role: "status", hidden: true });
    this.stage = el("div", { class: "stage" });
    this.blinking = new Blinking(this);
    this.contrast = new Contrast(this);
    this.overview = new Overview(this);
    this.keys = new KeysDialog(this);
    this.toolbar = new Toolbar(this);
    this.panels = new Panels(this);
    this.status = new Status(this);
    fill(parent, this.toolbar.element, el("div", { class: "middle" }, el("div", { class: "left" }, this.stage, this.contrast.element, this.overview.canvas, this.message), this.panels.element), this.status.element, this.keys.element);
    document.addEventListener("keydown", (event) => keyed(this, event));
    // after a click keys go to the view again; who came by keys stays
    parent.addEventListener("change", ({ target }) => target.matches("select, [type=checkbox]") && !target.matches(":focus-visible") && target.blur());
    this.address.listen((keys, jumped) => this.changed(keys, jumped));
  }

  // Fetch a file of the results; an error gives the reason.
  async get(path) {
    const response = await fetch(new URL(path, this.base), { cache: "no-cache" });
    if (!response.ok) throw new Error(path + ": " + (await reasonOf(response)));
    return response.json();
  }

  async post(path, body) {
    const response = await fetch(new URL(path, this.base), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(await reasonOf(response));
    return response.json();
  }

  async start() {
    const named = this.address.get("pair");
    // both are asked for at once: each way to a server far away takes time
    const pair = named ? this.read(named).catch(() => null) : null;
    const isSkipped = ({ status }) => status === "skipped";
    this.pairs = (await this.get("pairs.json")).sort((a, b) => isSkipped(a) - isSkipped(b));
    if (!this.pairs.length) throw new Error("no finished pair yet");
    const isThere = this.pairs.some(({ id }) => id === named);
    if (isThere) await this.open(named, await pair);
    else await this.openFirst();
  }

  // The first pair with images; the first of all where none has any.
  async openFirst() {
    for (const { id } of this.pairs) {
      const pair = await this.read(id).catch(() => null);
      if (pair && pair.layers.length) return this.open(id, pair);
    }
    return this.open(this.pairs[0].id);
  }

  // Show another pair.
  choose(id) {
    this.open(id).catch((error) => this.say(error.message));
  }

  read(id) {
    return this.get("pair/" + id + "/pair.json");
  }

  async open(id, known) {
    const turn = (this.opening = {});
    const pair = known || (await this.read(id));
    // only a link to layers of other variants waits for them
    const others = ["a", "b"].some((key) => this.address.get(key).includes("/"));
    if (others) pair.layers.push(...(await layersOfVariants(this, pair)));
    if (turn !== this.opening) return;
    this.home = "pair/" + id + "/";
    const before = this.pair;
    this.pair = pair;
    if (!before || before.sample !== pair.sample || before.dye !== pair.dye) this.clear();
    this.images.clear();
    this.files = new Map();
    this.looks.forget();
    const moved = before && !this.panes.length ? { x: null, y: null, zoom: null, source: "" } : {};
    this.address.set({ pair: id, ...this.names(), ...moved });
    this.hadPlace = this.isLinkOpened = this.address.get("x") !== null; // before the images are placed
    document.title = pair.title + " – unglow view";
    this.toolbar.fill();
    const panels = this.panels.fill();
    await this.show();
    await panels;
    if (!others) await this.addVariants(pair);
  }

  async addVariants(pair) {
    if (!pair.variants.length) return;
    await this.seen();
    pair.layers.push(...(await layersOfVariants(this, pair)));
    if (pair === this.pair) this.toolbar.update();
  }

  // A file of the pair as it was read, or null; it is read then, and drawn when it has come.
  known(name) {
    if (!this.files.has(name)) {
      this.files.set(name, null);
      const { files } = this;
      this.get(this.home + name).then((read) => {
        files.set(name, read);
        if (files === this.files) this.redraw();
      }, (error) => this.say(error.message));
    }
    return this.files.get(name);
  }

  // The layers that the address names, or others where the pair has no such; a pair without any leaves the address as it is. One that names nothing shows the difference next to post, or the first preset of a slide.
  names() {
    const { address, pair } = this;
    if (!pair.layers.length) return {};
    const first = (...names) => [...names, pair.layers[0].name].find((name) => this.layer(name));
    const [start] = pair.presets || [];
    const result = pair.layers.find((layer) => layer.default);
    const [mode, a, b] = ["mode", "a", "b"].map((key) => address.get(key));
    const opened = start || (result && ["", "side"].includes(mode) && { mode: "side", a: result.name, b: "post" }) || { mode: "single" };
    const isNew = !this.layer(a);
    return { mode: mode || (a ? "single" : opened.mode), a: first(isNew && opened.a, a, "post"), layers: this.composite.join(",") || (isNew && opened.layers) || "", b: first(isNew && opened.b, b, "aligned_pre", "pre", opened.b) };
  }

  // A preset says how images are shown, which, and of a composite in which colours.
  preset({ mode, colours, title, ...which }) {
    const look = { ...this.address.get("look") };
    for (const [name, map] of Object.entries(colours || {})) look[name] = { ...look[name], map };
    this.address.set({ mode, look, ...which });
  }

  // The layers that are added up in a composite.
  get composite() {
    return this.address.get("layers").split(",").filter((name) => this.layer(name));
  }

  layer(name) {
    return this.pair.layers.find((layer) => layer.name === name);
  }

  image(name) {
    if (!this.images.has(name)) this.images.set(name, Image.open(this.layer(name), new URL(this.home, this.base)));
    return this.images.get(name);
  }

  get sides() {
    return this.address.get("mode") === "side";
  }

  // The layers that are seen, each with its image and its look.
  async layers() {
    const { address } = this;
    const [a, b] = ["a", "b"].map((key) => address.get(key));
    const names = { single: [a], composite: this.composite.length ? this.composite : [a] }[address.get("mode")] || [a, b];
    return Promise.all(names.map(async (name, n) => {
      const layer = this.layer(name);
      const [image, look] = await Promise.all([this.image(name), this.looks.of(layer, n)]);
      return { layer, image, look, blur: address.get("blur") };
    }));
  }

  // Nothing is seen until the next images are there.
  clear() {
    this.setPanes(0);
    this.blinking.stop();
    this.shown = null;
    this.overview.draw();
    this.placing = false;
    this.toolbar.update();
  }

  async show() {
    this.busy = (this.busy || 0) + 1;
    try {
      await this.showNow();
    } finally {
      this.busy -= 1;
    }
  }

  // Wait until the images are drawn, but not forever: long tables keep the server busy.
  async seen() {
    const until = performance.now() + PATIENCE_MS;
    do await new Promise((resolve) => setTimeout(resolve, 20));
    while ((this.busy || (this.panes.length && !this.settled)) && performance.now() < until);
  }

  // Whether all that was asked for is seen.
  get settled() {
    return !this.busy && this.panes.length > 0 && this.panes.every((pane) => pane.settled);
  }

  async showNow() {
    const turn = (this.showing = {});
    if (!this.pair.layers.length) {
      this.clear();
      const { status, reasons } = this.pair;
      this.say([status === "skipped" ? "This pair was skipped, so it has no images." : "This pair has no images yet (" + (status || "not started") + ").", ...reasons].join(" "));
      return;
    }
    let layers;
    try {
      layers = await this.layers();
    } catch (error) {
      this.clear();
      this.say(error.message);
      return;
    }
    if (turn !== this.showing) return;
    this.say("");
    const wasWhole = !this.panes.length || this.panes.every((pane) => pane.isWhole);
    this.shown = layers;
    this.setPanes(this.sides ? 2 : 1);
    if (this.sides) layers.forEach((layer, n) => this.panes[n].show([layer]));
    else this.panes[0].show(layers);
    this.panes[0].arrange({ mode: this.sides ? "single" : this.address.get("mode"), share: this.address.get("at") });
    this.toolbar.update();
    await this.placed(wasWhole, () => turn !== this.showing);
    if (turn !== this.showing) return;
    this.blinking.start();
    this.redraw();
    this.overview.fill().catch(() => {}); // the image itself says what is damaged
  }

  // The pane that shows one of the layers.
  paneOf(shown) {
    return this.panes[this.sides ? this.shown.indexOf(shown) : 0];
  }

  // The cycle of a slide that overlays are of: the first that is shown in a pane and was registered; null if none was. Nothing of a pair.
  cycleOf(pane) {
    if (!this.pair.is_slide) return "";
    const layers = this.sides ? [this.shown[this.panes.indexOf(pane)]] : this.shown;
    const found = layers.find(({ layer }) => this.pair.cycles.includes(layer.cycle));
    return found ? found.layer.cycle : null;
  }

  setPanes(count) {
    while (this.panes.length > count) {
      const pane = this.panes.pop();
      pane.viewer.destroy();
      pane.element.remove();
    }
    while (this.panes.length < count) {
      const pane = new Pane(this.stage, this);
      this.panes.push(pane);
      pane.marks = el("canvas", { class: "marks" });
      pane.name = el("div", { class: "name" });
      pane.hint = el("div", { class: "hint", hidden: true });
      pane.element.append(pane.marks, pane.name, pane.hint);
      this.panels.attend(pane);
      this.status.attend(pane);
    }
    this.stage.classList.toggle("two", count === 2);
  }

  // Go where the address says, or show the entire image. Until then new sizes and images change nothing of the address.
  async placed(wasWhole, isLate) {
    const { address } = this;
    this.placing = true;
    while (!this.panes.every((pane) => pane.ready && pane.isFitted)) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (isLate()) return;
    }
    this.placing = false;
    const [first, second] = this.panes;
    for (const pane of this.panes) if (!pane.isPlaced) pane.whole();
    const isNew = second && !second.isPlaced;
    for (const pane of this.panes) pane.isPlaced = true;
    if (address.get("x") !== null && address.get("zoom")) this.go({ x: address.get("x"), y: address.get("y"), zoom: address.get("zoom") });
    if (isNew && !this.isMapped) this.equaliseScales(wasWhole && !this.isLinkOpened);
    this.isLinkOpened = false;
    this.link(first);
  }

  // Two images without a map between them share one scale: at which both fit, or that of the first.
  equaliseScales(isWhole) {
    if (isWhole) for (const pane of this.panes) pane.whole();
    const zooms = this.panes.map((pane) => pane.place(false).zoom);
    const zoom = isWhole ? Math.min(...zooms) : zooms[0];
    for (const pane of this.panes) pane.go({ zoom });
  }

  get isPlaced() {
    return this.panes.length > 0 && this.panes.every((pane) => pane.isPlaced);
  }

  // Show a place of post; `zoom` is kept if it is not given.
  go(place) {
    this.panes[0].go(this.fromPost(this.shown[0].layer, place));
    this.redraw();
  }

  // Show a region of post as large as a share of the first pane, at most `most` screen px per px.
  zoomTo(region, share, most) {
    const { x0, y0, x1, y1 } = boxOf(region), [{ element }] = this.panes;
    const zoom = share * Math.min(element.clientWidth / (x1 - x0), element.clientHeight / (y1 - y0));
    this.go({ x: (x0 + x1) / 2, y: (y0 + y1) / 2, zoom: Math.min(zoom, most) });
  }

  // The matrix from post to pre: one that is being tried, or that of the pair, or null.
  get map() {
    return this.tried || this.pair.matrix;
  }

  fromPost(layer, place) {
    return layer.frame === "pre" && this.map ? mapped(this.map, place) : place;
  }

  toPost(layer, place) {
    return layer.frame === "pre" && this.map ? mapped(inverse(this.map), place) : place;
  }

  layerAt(pane) {
    return this.shown[this.panes.indexOf(pane)].layer;
  }

  // What gives the place of px of post on the screen of a pane.
  toScreen(pane) {
    const layer = this.layerAt(pane);
    return (x, y) => {
      const place = this.fromPost(layer, { x, y });
      return pane.screenAt(place.x, place.y);
    };
  }

  // A pane has moved: the other one follows, by the map between their images.
  framed(pane) {
    if (!pane.ready) return;
    if (!this.following && this.panes.length === 2) this.link(pane);
    if (pane === this.panes[0]) {
      const place = pane.place(false);
      if (place && this.shown && !this.placing) {
        const { x, y, zoom } = this.toPost(this.shown[0].layer, place);
        if ([x, y, zoom].join() !== this.seenAt) this.contrast.countSoon();
        this.seenAt = [x, y, zoom].join();
        this.address.set({ x, y, zoom });
      }
      if (["swipe", "checker"].includes(pane.shown.mode)) this.arrangeSoon(pane);
      this.overview.draw();
    }
    this.draw(pane);
  }

  arrangeSoon(pane) {
    const { x, y, zoom } = pane.place();
    const key = [x, y, zoom].join();
    if (key === pane.arrangedFor) return;
    pane.arrangedFor = key;
    pane.arrange();
  }

  link(moved) {
    if (this.panes.length < 2 || !this.linked || !this.panes.every((pane) => pane.ready)) return;
    const n = this.panes.indexOf(moved), other = this.panes[1 - n];
    const place = this.fromPost(this.shown[1 - n].layer, this.toPost(this.shown[n].layer, moved.place()));
    this.following = true;
    other.go({ ...place, turn: place.turn || 0 });
    this.following = false;
    this.draw(other);
  }

  // Two views of a pair without a map are moved each on its own.
  get linked() {
    return this.unlinked !== true && this.isMapped;
  }

  get isMapped() {
    return this.map !== null || this.shown.every(({ layer }) => layer.frame === this.shown[0].layer.frame);
  }

  draw(pane) {
    drawMarks(this, pane);
  }

  redraw() {
    for (const pane of this.panes) if (pane.ready) this.draw(pane);
  }

  named() {
    const titles = this.shown.map(({ layer }) => layer.title);
    const mode = this.address.get("mode");
    this.panes.forEach((pane, n) => pane.viewer.canvas.setAttribute("aria-label", this.sides ? titles[n] : titles.join(", ")));
    if (this.sides) this.panes.forEach((pane, n) => fill(pane.name, titles[n]));
    else fill(this.panes[0].name, mode === "blink" ? titles[this.panes[0].shown.front] : { swipe: titles.join(" | "), overlay: titles[0] + " orange, " + titles[1] + " blue", composite: titles.join(" + ") }[mode] || titles.join(" / "));
  }

  changed(keys, jumped) {
    if (!this.pair) return; // the first one is being read
    if (jumped && this.address.get("pair") !== this.pair.id) {
      this.choose(this.address.get("pair"));
      return;
    }
    if (jumped) this.address.set(this.names());
    if (keys.some((key) => ["mode", "a", "b", "layers", "look", "blur"].includes(key)) || jumped) this.show();
    else if (keys.includes("hz") && this.shown) this.blinking.start();
    else if (keys.includes("at") && this.shown) this.panes[0].arrange({ share: this.address.get("at") });
    if (keys.includes("marks") || keys.includes("source")) this.redraw();
    if (keys.includes("marks")) this.overview.draw();
    this.toolbar.update();
    this.panels.update(keys);
  }

  // Say where to look for images that are not shown at this zoom.
  hidden(pane) {
    const first = this.panes.indexOf(pane);
    const far = this.shown.filter((_, n) => pane.hidden[this.sides ? 0 : n] && (!this.sides || n === first));
    fill(pane.hint, far.map(({ layer }) => layer.title + " is computed where you look: zoom in to see it (+, or the wheel)."));
    pane.hint.hidden = !far.length;
  }

  trouble = (error) => this.say(error.message);

  say(text) {
    this.message.hidden = !text;
    this.message.textContent = text;
  }
}
