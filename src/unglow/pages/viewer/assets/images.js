// Images of a pair: OME-Zarr stores that are read chunk by chunk, straight from their files.

import { FetchStore, open, registry, root } from "./vendor/zarrita.min.js";

// Decoded chunks that are kept of all images together, bytes.
const KEPT_BYTES = 192e6;

// What the crc32c codec of Zarr says: Castagnoli's polynomial, bits reversed.
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let crc = n;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc >>> 0;
});

function crc32c(bytes) {
  let crc = 0xffffffff;
  for (let n = 0; n < bytes.length; n++) crc = CRC_TABLE[(crc ^ bytes[n]) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

// Zarrita leaves checksums out; a damaged chunk has to be an error here.
function checked(stored) {
  const end = stored.byteLength - 4;
  const content = new Uint8Array(stored.buffer, stored.byteOffset, end);
  const checksum = new DataView(stored.buffer, stored.byteOffset + end, 4).getUint32(0, true);
  if (crc32c(content) !== checksum) throw new Error("a chunk is damaged: its checksum is wrong");
  return content;
}

const codec = (decode, grows = 0) => () => ({ fromConfig: () => ({ kind: "bytes_to_bytes", decode, computeEncodedSize: (size) => size + grows }) });
registry.set("crc32c", codec(checked, 4));

const DECODERS = 2;

// Blosc, in workers, used one after another.
class Decoders {
  constructor() {
    this.waiting = new Map();
    this.count = 0;
    this.workers = Array.from({ length: DECODERS }, () => {
      const worker = new Worker(new URL("decoder.js", import.meta.url), { type: "module" });
      worker.addEventListener("message", ({ data }) => this.answered(data));
      worker.addEventListener("error", () => this.failed());
      return worker;
    });
  }

  decode(stored) {
    const own = stored.slice();
    return new Promise((resolve, reject) => {
      const id = this.count++;
      this.waiting.set(id, { resolve, reject });
      this.workers[id % DECODERS].postMessage({ id, stored: own }, [own.buffer]);
    });
  }

  answered({ id, chunk, reason }) {
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    if (chunk) resolve(chunk);
    else reject(new Error("a chunk is damaged: " + reason));
  }

  failed() {
    for (const { reject } of this.waiting.values()) reject(new Error("the decoder of this page could not start"));
    this.waiting.clear();
  }
}
const decoders = new Decoders();

registry.set("blosc", codec((stored) => decoders.decode(stored)));

// The sentence that a server gives as JSON, or what can be said without it.
export async function reasonOf(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text).error || text;
  } catch {
    return response.status === 404 ? "it is not there" : "the server answers " + response.status + " " + response.statusText;
  }
}

// Zarrita takes a missing file for fill values; here it is an error like any other.
async function fetched(request) {
  const response = await fetch(request);
  if (!response.ok) throw new Error(decodeURIComponent(new URL(request.url).pathname.split("/layers/").pop()) + ": " + (await reasonOf(response)));
  const range = request.headers.get("Range");
  return range && response.status === 200 ? part(response, range) : response;
}

// The part of a file that was asked for, from a server that knows no parts and sends all of it.
async function part(response, range) {
  const [, first, last] = range.match(/bytes=(\d*)-(\d*)/);
  const bytes = await response.arrayBuffer();
  return new Response(first ? bytes.slice(Number(first), Number(last) + 1) : bytes.slice(-Number(last)), { status: 206 });
}

class Chunks {
  constructor() {
    this.kept = new Map();
    this.bytes = 0;
  }

  get(key, read) {
    const known = this.kept.get(key);
    if (known) {
      this.kept.delete(key);
      this.kept.set(key, known);
      return known.chunk;
    }
    const entry = { bytes: 0, value: null };
    entry.chunk = read().then((chunk) => {
      entry.value = chunk;
      entry.bytes = chunk.data.byteLength;
      this.bytes += entry.bytes;
      this.drop();
      return chunk;
    }).catch((error) => {
      this.kept.delete(key);
      throw error;
    });
    this.kept.set(key, entry);
    return entry.chunk;
  }

  // A tile that is decoded already, or null.
  now(key) {
    const known = this.kept.get(key);
    return known ? known.value : null;
  }

  drop() {
    for (const [key, entry] of this.kept) {
      if (this.bytes <= KEPT_BYTES) return;
      if (!entry.value) continue;
      this.bytes -= entry.bytes;
      this.kept.delete(key);
    }
  }
}
const chunks = new Chunks();

// One image: `levels[k].shape` is [rows, cols] of a level of 2^k px.
export class Image {
  static async open(layer, base) {
    const url = new URL(layer.url, base).href;
    const store = new FetchStore(url, { useSuffixRequest: true, fetch: fetched });
    const group = await open.v3(root(store), { kind: "group" });
    const paths = group.attrs.ome.multiscales[0].datasets.map((dataset) => dataset.path);
    const levels = await Promise.all(paths.map((path) => open.v3(group.resolve(path), { kind: "array" })));
    const large = levels.find((level) => level.chunks[0] * level.chunks[1] > 1 << 24);
    if (large) throw new Error(layer.title + " has chunks of " + large.chunks.join(" x ") + " px, which are too large to look at");
    const { start, end } = group.attrs.ome.omero.channels[0].window;
    return new Image(layer, url, levels, [start, end]);
  }

  // `window` is the range that the store itself suggests to show.
  constructor(layer, url, levels, window) {
    this.layer = layer;
    this.window = window;
    this.url = url;
    this.levels = levels;
    [this.height, this.width] = levels[0].shape;
  }

  chunk(level, row, col) {
    return chunks.get(this.key(level, row, col), () => this.levels[level].getChunk([row, col]).catch((error) => {
      throw new Error(error.cause ? this.layer.title + ", level " + level + ", chunk " + row + "/" + col + ": " + error.cause.message : error.message);
    }));
  }

  key(level, row, col) {
    return this.url + "/" + level + "/" + row + "/" + col;
  }

  // A window of a level as float32, `width` x `height`; NaN outside the image.
  async read(level, x, y, width, height) {
    const array = this.levels[level];
    const [rows, cols] = array.shape;
    const [chunkRows, chunkCols] = array.chunks;
    const out = new Float32Array(width * height).fill(NaN);
    const x0 = Math.max(x, 0), y0 = Math.max(y, 0), x1 = Math.min(x + width, cols), y1 = Math.min(y + height, rows);
    const parts = [];
    for (let row = Math.floor(y0 / chunkRows); row * chunkRows < y1; row++) {
      for (let col = Math.floor(x0 / chunkCols); col * chunkCols < x1; col++) {
        parts.push(this.chunk(level, row, col).then(({ data }) => {
          const left = Math.max(x0, col * chunkCols), right = Math.min(x1, (col + 1) * chunkCols);
          const top = Math.max(y0, row * chunkRows), bottom = Math.min(y1, (row + 1) * chunkRows);
          for (let at = top; at < bottom; at++) {
            const from = (at - row * chunkRows) * chunkCols - col * chunkCols;
            out.set(data.subarray(from + left, from + right), (at - y) * width + left - x);
          }
        }));
      }
    }
    await Promise.all(parts);
    return out;
  }

  // The value of a px of a level, if its chunk has been read; else null.
  now(level, x, y) {
    const array = this.levels[level];
    const [rows, cols] = array.shape;
    if (x < 0 || y < 0 || x >= cols || y >= rows) return null;
    const [chunkRows, chunkCols] = array.chunks;
    const chunk = chunks.now(this.key(level, Math.floor(y / chunkRows), Math.floor(x / chunkCols)));
    return chunk ? chunk.data[(y % chunkRows) * chunkCols + (x % chunkCols)] : null;
  }

  // Some squares at full resolution: the noise of a difference, which means of coarse levels hide.
  async squares(side) {
    const shares = [1 / 3, 2 / 3];
    const parts = await Promise.all(shares.flatMap((down) => shares.map((right) => this.read(0, Math.floor(right * this.width - side / 2), Math.floor(down * this.height - side / 2), side, side))));
    const values = new Float32Array(parts.length * side * side);
    parts.forEach((part, n) => values.set(part, n * side * side));
    return values;
  }

  // All px of the finest level with at most `most` px: contrast follows from them.
  async overview(most) {
    const level = this.levels.findIndex((array) => array.shape[0] * array.shape[1] <= most);
    const at = level < 0 ? this.levels.length - 1 : level;
    const [rows, cols] = this.levels[at].shape;
    // the coarsest level of an image with few levels may be large: its middle is enough
    const side = Math.floor(Math.sqrt(most));
    const width = Math.min(cols, level < 0 ? side : cols), height = Math.min(rows, level < 0 ? side : rows);
    return this.read(at, (cols - width) >> 1, (rows - height) >> 1, width, height);
  }
}
