// An image as a source of tiles for OpenSeadragon: values are read and blurred here, and coloured when they are drawn.

import { blurred, taps } from "./blur.js";
import { coloured } from "./colours.js";

export const TILE = 512;
// A blur narrower than this share of a px of a level is not worth the time.
const LEAST_BLUR = 0.2;

export function tileSource(image, trouble) {
  const most = image.levels.length - 1;
  const levelOf = (level) => most - level; // OpenSeadragon counts from the coarsest
  const size = (level) => {
    const [rows, cols] = image.levels[levelOf(level)].shape;
    return { cols, rows, step: 2 ** levelOf(level) };
  };
  const source = new OpenSeadragon.TileSource({ width: image.width, height: image.height, tileSize: TILE, minLevel: 0, maxLevel: most });
  Object.assign(source, {
    image,
    // without any overlap OpenSeadragon draws tiles larger by a px of the screen, so that no seams are seen
    tileOverlap: 1e-9,
    look: null,
    blur: 0,
    getLevelScale: (level) => 1 / size(level).step,
    getNumTiles: (level) => new OpenSeadragon.Point(Math.ceil(size(level).cols / TILE), Math.ceil(size(level).rows / TILE)),
    getTileBounds: (level, col, row, isSource) => {
      const { cols, rows, step } = size(level);
      const [width, height] = [Math.min(TILE, cols - col * TILE), Math.min(TILE, rows - row * TILE)];
      if (isSource) return new OpenSeadragon.Rect(0, 0, width, height);
      return new OpenSeadragon.Rect(col * TILE, row * TILE, width, height).times(step / image.width);
    },
    getTileAtPoint: (level, point) => {
      const { cols, rows, step } = size(level);
      const at = (share, limit) => Math.min(Math.max(Math.floor((share * image.width) / step / TILE), 0), Math.ceil(limit / TILE) - 1);
      return new OpenSeadragon.Point(at(point.x, cols), at(point.y, rows));
    },
    getTileUrl: (level, col, row) => image.url + "/" + levelOf(level) + "/" + col + "/" + row,
    getTileHashKey: (level, col, row) => image.url + "/" + levelOf(level) + "/" + col + "/" + row,
    hasTransparency: () => true,
    downloadTileStart: (job) => {
      const { level, x, y } = job.tile;
      const { cols, rows } = size(level);
      const part = new Part(source, levelOf(level), x * TILE, y * TILE, Math.min(TILE, cols - x * TILE), Math.min(TILE, rows - y * TILE));
      part.read().then(() => job.finish(part.painted(), null, "context2d"), (error) => {
        trouble(error);
        job.finish(part.failed(error), null, "context2d");
      });
    },
    downloadTileAbort: () => {},
  });
  return source;
}

// The values of one tile, and its picture as it was coloured last.
class Part {
  constructor(source, level, x, y, width, height) {
    Object.assign(this, { source, level, x, y, width, height, look: null, blur: -1 });
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    this.context = canvas.getContext("2d", { willReadFrequently: true });
    this.context.part = this;
  }

  async read() {
    const { blur, image } = this.source;
    const sigma = blur / 2 ** this.level;
    if (sigma < LEAST_BLUR) this.values = await image.read(this.level, this.x, this.y, this.width, this.height);
    else {
      const weights = taps(sigma), reach = (weights.length - 1) / 2;
      const [width, height] = [this.width + 2 * reach, this.height + 2 * reach];
      this.values = blurred(await image.read(this.level, this.x - reach, this.y - reach, width, height), width, height, weights);
    }
    this.look = null;
    this.blur = blur;
  }

  // Another blur is computed while the old one is still shown.
  async renew(redraw) {
    if (this.renewing || this.error) return;
    this.renewing = true;
    await this.read().catch(() => {});
    this.renewing = false;
    redraw();
  }

  painted() {
    const { look } = this.source;
    if (this.look !== look && look && this.values) {
      this.context.putImageData(new ImageData(coloured(this.values, look.colours, look.limits, look.clear), this.width, this.height), 0, 0);
      this.look = look;
    }
    return this.context;
  }

  // A tile with the reason why it has no image.
  failed(error) {
    this.error = error;
    const { context, width, height } = this;
    context.fillStyle = "#5a1a1e";
    context.fillRect(0, 0, width, height);
    context.fillStyle = "#ffd9d6";
    context.font = "14px sans-serif";
    wrapText(context, error.message, width - 24, /(?<=[\s/])/).forEach((line, n) => context.fillText(line, 12, 28 + 18 * n));
    return context;
  }
}

// A text as lines of a canvas; `parts` says where it may break.
export function wrapText(context, text, width, parts = /(?<= )/) {
  const lines = [""];
  for (const word of text.split(parts)) {
    const longer = lines[lines.length - 1] + word;
    if (context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
