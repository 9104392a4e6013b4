// A picture to move about in: one image, two that are compared, or several that are added up.

import { sortedSample } from "./colours.js";
import { tileSource } from "./tiles.js";

// A square of the checkerboard is about so wide on the screen, px.
const SQUARE = 120;
const MOST_TILES = 160;
// An image whose coarsest level is larger than this is computed only where somebody looks.
const WHOLE_PX = 4096, LEAST_SHARE = 0.5;

export class Pane {
  // `view` hears `framed(pane)` before each frame that is drawn, `hidden(pane)` when images come or go, and `trouble(error)` of tiles.
  constructor(parent, view) {
    this.view = view;
    this.items = [];
    this.hidden = [];
    this.width = 0;
    this.shown = { mode: "single", share: 0.5, front: 0 };
    this.element = document.createElement("div");
    this.element.className = "pane";
    parent.append(this.element);
    this.viewer = OpenSeadragon({
      element: this.element, drawer: "canvas", showNavigationControl: false, imageSmoothingEnabled: false, maxImageCacheCount: MOST_TILES,
      smoothTileEdgesMinZoom: Infinity, minZoomImageRatio: 0.5, maxZoomPixelRatio: 64, minPixelRatio: 0.5, visibilityRatio: 0.2, blendTime: 0, alwaysBlend: false,
      animationTime: 0.25, springStiffness: 10, immediateRender: true, imageLoaderLimit: 12, maxTilesPerFrame: 12, gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true },
      keyboardNavEnabled: false, silenceMultiImageWarnings: true, preserveViewport: true, preserveImageSizeOnResize: true, timeout: 120000, callTileLoadedWithCachedData: false,
    });
    this.viewer.innerTracker.keyHandler = null;
    this.viewer.addHandler("tile-drawing", ({ tile, rendered, tiledImage }) => this.paint(tile, rendered, tiledImage));
    this.viewer.addHandler("update-viewport", () => this.framed());
    this.viewer.addHandler("open-failed", ({ message }) => view.trouble(new Error(message)));
  }

  paint(tile, rendered, tiledImage) {
    if (!this.isSeen) performance.mark("first tile");
    this.isSeen = true;
    const { part } = rendered;
    if (!part || part.error) return;
    if (part.blur !== tiledImage.source.blur) part.renew(() => this.redraw());
    part.painted();
  }

  framed() {
    if (this.items.length) this.view.framed(this);
    if (this.ready && this.items.some(({ source }, n) => this.isHidden(source) !== this.hidden[n])) this.arrange();
  }

  isHidden({ image }) {
    const coarsest = image.levels[image.levels.length - 1].shape;
    return Math.max(...coarsest) > WHOLE_PX && this.place(false).zoom * 2 ** (image.levels.length - 1) < LEAST_SHARE;
  }

  redraw() {
    this.viewer.forceRedraw();
  }

  // Show images, the first at the back; each has `image`, `look` and `blur`.
  show(layers) {
    const same = layers.length === this.items.length && layers.every((layer, n) => layer.image === this.items[n].source.image);
    if (!same) this.replace(layers);
    layers.forEach(({ look, blur }, n) => Object.assign(this.items[n].source, { look, blur }));
    this.arrange();
    this.redraw();
  }

  replace(layers) {
    const place = this.place();
    const before = this.items;
    this.width = layers[0].image.width;
    this.items = [];
    const { world } = this.viewer;
    for (const { image, look, blur } of layers) {
      const source = tileSource(image, this.view.trouble);
      Object.assign(source, { look, blur });
      const width = image.width / this.width;
      this.viewer.addTiledImage({ tileSource: source, x: 0, y: 0, width, opacity: 1, preload: true, });
      this.items.push({ source, get item() {
        for (let n = 0; n < world.getItemCount(); n++) if (world.getItemAt(n).source === source) return world.getItemAt(n);
        return null;
      } });
    }
    before.forEach(({ item }) => item && world.removeItem(item));
    if (place) this.go(place);
  }

  get ready() {
    return this.items.length > 0 && this.items.every(({ item }) => item);
  }

  // Which of two images is seen where.
  arrange(changes) {
    Object.assign(this.shown, changes);
    if (!this.ready) {
      clearTimeout(this.arranging);
      this.arranging = setTimeout(() => this.arrange(), 10);
      return;
    }
    this.hidden = this.items.map(({ source }) => this.isHidden(source));
    this.items.forEach(({ item }, n) => item.setPreload(!this.hidden[n]));
    const [back, ...others] = this.items.map(({ item }) => item), [front] = others;
    back.setOpacity(this.hidden[0] ? 0 : 1);
    this.view.hidden(this);
    if (!front) return;
    const { mode, share, front: isFront } = this.shown;
    others.forEach((item, n) => {
      item.setOpacity((mode === "blink" && !isFront) || this.hidden[n + 1] ? 0 : 1);
      item.setCompositeOperation(["overlay", "composite"].includes(mode) ? "lighter" : null);
    });
    if (mode === "swipe") front.setCroppingPolygons([this.right(share)]);
    else if (mode === "checker") front.setCroppingPolygons(this.squares());
    else front.resetCroppingPolygons();
    this.redraw();
  }

  // The part of the picture to the right of a share of the pane, in px of the image.
  right(share) {
    const { x, y, width, height } = this.bounds();
    const from = x + share * width;
    return rectangle(from, y, x + width - from, height);
  }

  // Every other square, of a power of two of px; always at the same px.
  squares() {
    const { x, y, width, height } = this.bounds();
    const side = 2 ** Math.max(0, Math.round(Math.log2(SQUARE / this.place().zoom)));
    const squares = [];
    for (let row = Math.floor(y / side); row * side < y + height; row++) {
      for (let col = Math.floor(x / side); col * side < x + width; col++) {
        if ((row + col) % 2) squares.push(rectangle(col * side, row * side, side, side));
      }
    }
    return squares.length ? squares : [rectangle(x - 2, y - 2, 1, 1)];
  }

  // The visible window, in px of the image from its corner.
  bounds() {
    const { x, y, width, height } = this.viewer.viewport.getBounds(true);
    return { x: x * this.width, y: y * this.width, width: width * this.width, height: height * this.width };
  }

  // Values of an image that are seen, in order; null where it is not shown at this zoom.
  async sampleOf(image) {
    const n = this.items.findIndex(({ source }) => source.image === image);
    if (n < 0 || !this.ready || this.hidden[n]) return null;
    const level = Math.min(Math.max(0, Math.floor(Math.log2(1 / this.place(false).zoom) + 0.5)), image.levels.length - 1);
    const { x, y, width, height } = this.bounds(), [rows, cols] = image.levels[level].shape;
    const [left, right] = [x, x + width].map((edge) => Math.min(Math.max(Math.round(edge / 2 ** level), 0), cols));
    const [top, bottom] = [y, y + height].map((edge) => Math.min(Math.max(Math.round(edge / 2 ** level), 0), rows));
    return right > left && bottom > top ? sortedSample(await image.read(level, left, top, right - left, bottom - top)) : null;
  }

  // Where the middle of the pane is: px with centres at integers, screen px per px, degrees.
  place(current = true) {
    if (!this.width || !this.ready) return null;
    const { viewport } = this.viewer;
    const middle = viewport.getCenter(current);
    return {
      x: middle.x * this.width - 0.5, y: middle.y * this.width - 0.5,
      zoom: (viewport.getZoom(current) * viewport.getContainerSize().x) / this.width, turn: viewport.getRotation(current),
    };
  }

  go({ x, y, zoom, turn }) {
    const { viewport } = this.viewer;
    if (zoom) viewport.zoomTo((zoom * this.width) / viewport.getContainerSize().x, null, true);
    if (x !== null && x !== undefined) viewport.panTo(new OpenSeadragon.Point((x + 0.5) / this.width, (y + 0.5) / this.width), true);
    if (turn !== undefined) viewport.setRotation(turn, true);
  }

  // Show all of the first image.
  whole() {
    const { viewport } = this.viewer;
    const [{ source }] = this.items;
    viewport.fitBounds(new OpenSeadragon.Rect(0, 0, 1, source.image.height / this.width), true);
  }

  // Whether all of the first image is seen.
  get isWhole() {
    if (!this.ready) return false;
    const { x, y, width, height } = this.bounds(), [{ source }] = this.items;
    return x < 1 && y < 1 && x + width > this.width - 1 && y + height > source.image.height - 1;
  }

  // Whether it knows its size: a change of that is seen by OpenSeadragon, which then keeps place and scale.
  get isFitted() {
    const { x, y } = this.viewer.viewport.getContainerSize(), { clientWidth, clientHeight } = this.element;
    return Math.abs(x - clientWidth) < 1 && Math.abs(y - clientHeight) < 1;
  }

  // px of the image under a point of the pane, and back.
  pixelAt(left, top) {
    const point = this.viewer.viewport.viewerElementToViewportCoordinates(new OpenSeadragon.Point(left, top));
    return [point.x * this.width - 0.5, point.y * this.width - 0.5];
  }

  screenAt(x, y) {
    const point = this.viewer.viewport.pixelFromPoint(new OpenSeadragon.Point((x + 0.5) / this.width, (y + 0.5) / this.width), true);
    return [point.x, point.y];
  }

  // Whether all visible tiles are loaded.
  get settled() {
    return this.ready && this.items.every(({ item }) => item.getOpacity() === 0 || item.getFullyLoaded());
  }
}

// Cropping polygons are in px of the image from its corner.
function rectangle(x, y, width, height) {
  return [{ x, y }, { x: x + width, y }, { x: x + width, y: y + height }, { x, y: y + height }];
}
