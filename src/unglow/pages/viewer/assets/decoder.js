// A worker that decompresses chunks, so that the page stays responsive.
//
// Blosc's module makes functions from text as it starts. The page's policy forbids that, and only this file's own
// allows it: nothing but compressed chunks comes in here.

import Blosc from "./vendor/blosc.min.js";

const MAGIC = 2, HEADER = 16;
// A chunk says itself how large it becomes; one that claims more than this is not decompressed, bytes.
const MOST = 1 << 28;
const codec = Blosc.fromConfig({ clevel: 1, cname: "zstd", shuffle: 2 });
codec.encode(new Uint8Array(HEADER)); // starts the module while the page still asks for chunks

self.addEventListener("message", async ({ data: { id, stored } }) => {
  try {
    const claimed = stored.byteLength < HEADER || stored[0] !== MAGIC ? Infinity : new DataView(stored.buffer, stored.byteOffset).getUint32(4, true);
    if (claimed > MOST) throw new Error("not a Blosc chunk of a plausible size");
    const chunk = await codec.decode(stored);
    const own = chunk.byteLength === chunk.buffer.byteLength ? chunk : chunk.slice();
    self.postMessage({ id, chunk: own }, [own.buffer]);
  } catch (error) {
    self.postMessage({ id, reason: error.message || String(error) });
  }
});
