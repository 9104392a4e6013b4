// Post and pre side by side, each moved on its own, for as long as landmarks are clicked.

import { moved } from "./keys.js";

const NEAR_ZOOM = 4;

export class TwoViews {
  constructor(app) {
    Object.assign(this, { app, isOn: false, active: 0, before: null, places: null });
  }

  get areThere() {
    const { app } = this;
    return this.isOn && app.sides && app.panes.length === 2 && app.shown && app.shown.map(({ layer }) => layer.frame).join() === "post,pre";
  }

  // Show both; what was seen before is kept, to return to.
  async start() {
    const { app } = this, { address } = app;
    const look = { ...address.get("look"), pre: { own: true, ...address.get("look").pre } };
    const view = { mode: "side", a: "post", b: "pre", marks: "", look };
    const before = Object.fromEntries(Object.keys(view).map((key) => [key, address.get(key)]));
    if (!this.isOn) this.before = JSON.stringify(before) === JSON.stringify(view) ? null : before;
    Object.assign(this, { isOn: true, places: null });
    Object.assign(app, { unlinked: true, tried: null });
    address.set(view);
    while (this.isOn && !(this.areThere && app.isPlaced && app.panes.every((pane) => pane.ready))) await new Promise((resolve) => setTimeout(resolve, 20));
    if (!this.isOn) return;
    this.together(null, true); // start at the same place where a map is known
    this.activate(0);
  }

  end() {
    const { app } = this;
    const before = this.areThere && this.before;
    Object.assign(this, { isOn: false, before: null });
    Object.assign(app, { unlinked: false, tried: null });
    for (const pane of app.panes) pane.element.classList.remove("active");
    if (before) app.address.set(before);
  }

  // Move both together by a matrix from now on, or once by the pair's own map, or each alone.
  together(matrix, once) {
    const { app } = this;
    app.tried = matrix;
    app.unlinked = !matrix && !once;
    if (app.panes.length === 2) app.link(app.panes[0]);
    app.unlinked = !matrix;
  }

  activate(n) {
    this.active = n;
    this.app.panes.forEach((pane, k) => pane.element.classList.toggle("active", k === n));
  }

  get pane() {
    return this.app.panes[this.active] || this.app.panes[0];
  }

  frameOf(pane) {
    return this.app.layerAt(pane).frame;
  }

  paneOf(frame) {
    return this.app.panes.find((pane) => this.frameOf(pane) === frame);
  }

  // Very near in both, around the given places of their images, or as it was before.
  magnify(places) {
    const { panes } = this.app;
    const isNear = this.places !== null;
    const to = isNear ? this.places : panes.map((pane, n) => ({ x: pane.place().x, y: pane.place().y, ...places[n], zoom: NEAR_ZOOM }));
    this.places = isNear ? null : panes.map((pane) => pane.place());
    panes.forEach((pane, n) => pane.go(to[n]));
    this.app.redraw();
  }

  turn() {
    const pane = this.paneOf("pre");
    if (!pane) return;
    pane.go({ turn: ((pane.place().turn || 0) + 90) % 360 });
    this.app.redraw();
  }

  // Keys that move the image of the active pane.
  key(event) {
    return moved(this.pane, event);
  }
}
