// What the other variants of a sweep have and a pair does not share: layers to compare with.

export async function layersOfVariants(app, pair) {
  const shared = new Set(pair.layers.map(({ place }) => place));
  const isOwn = ({ frame, kind, place }) => frame === "post" && kind !== "snr" && !shared.has(place);
  const others = await Promise.all(pair.variants.map((id) => app.read(id).catch(() => null)));
  return others.filter(Boolean).flatMap(({ id, title, layers }) => layers.filter(isOwn).map((layer) => (
    { ...layer, name: id + "/" + layer.name, title: layer.title + " of " + title.slice(pair.sample.length + pair.dye.length + 2), url: "../" + id + "/" + layer.url, default: false })));
}
