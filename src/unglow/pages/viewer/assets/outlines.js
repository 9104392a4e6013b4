// Regions of post as GeoJSON has them, and their outlines: px that count from the centre of the first one.
// In the file they count from its corner, as QuPath does.

const CORNER = 0.5;
const CLASSES = { exclude: "exclude", ignore: "exclude", "ignore*": "exclude", analyse: "analyse", analyze: "analyse", region: "analyse", "region*": "analyse" };

// A feature with its `polygons`: rings of [x, y], the first of each the outline, the others holes.
export function regionOf(feature) {
  const { geometry, properties } = feature;
  const shapes = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.type === "MultiPolygon" ? geometry.coordinates : [];
  const polygons = shapes.map((rings) => rings.map((ring) => opened(ring.map(([x, y]) => [x - CORNER, y - CORNER]))));
  const given = ((properties || {}).classification || {}).name || "";
  return {
    feature, polygons, id: feature.id, name: (properties || {}).name || "", kind: CLASSES[String(given).toLowerCase()] || "", given,
    isEditable: polygons.length === 1 && polygons[0].length === 1,
  };
}

// A new feature of one outline, or another outline or class or name of one that is there.
export function featureOf({ id, kind, name, corners }) {
  return {
    type: "Feature", id, geometry: polygon(corners),
    properties: { objectType: "annotation", classification: { name: kind }, name },
  };
}

export function withCorners(feature, corners) {
  return { ...feature, geometry: polygon(corners) };
}

export function withProperties(feature, changes) {
  return { ...feature, properties: { ...feature.properties, ...changes } };
}

function polygon(corners) {
  const ring = corners.map(([x, y]) => [rounded(x + CORNER), rounded(y + CORNER)]);
  return { type: "Polygon", coordinates: [[...ring, ring[0]]] };
}

function rounded(value) {
  return Math.round(value * 100) / 100;
}

function opened(ring) {
  const [first, last] = [ring[0], ring[ring.length - 1]];
  return ring.length > 1 && first[0] === last[0] && first[1] === last[1] ? ring.slice(0, -1) : ring;
}

export function rectangleOf([x0, y0], [x1, y1]) {
  return [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
}

// Whether two sides of an outline cross each other: then its inside is not defined.
export function crosses(corners) {
  const sides = corners.map((corner, n) => [corner, corners[(n + 1) % corners.length]]);
  return sides.some((one, n) => sides.slice(n + 1).some((other) => meet(...one, ...other)));
}

function meet(a, b, c, d) {
  const side = (p, q, r) => Math.sign((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]));
  return side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
}

// px^2, without the holes.
export function areaOf({ polygons }) {
  return polygons.reduce((sum, [outline, ...holes]) => sum + holes.reduce((rest, hole) => rest - ringArea(hole), ringArea(outline)), 0);
}

function ringArea(ring) {
  const sum = ring.reduce((total, [x, y], n) => {
    const [nextX, nextY] = ring[(n + 1) % ring.length];
    return total + x * nextY - nextX * y;
  }, 0);
  return Math.abs(sum) / 2;
}

export function boxOf({ polygons }) {
  const box = { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
  for (const [outline] of polygons) {
    for (const [x, y] of outline) Object.assign(box, { x0: Math.min(box.x0, x), y0: Math.min(box.y0, y), x1: Math.max(box.x1, x), y1: Math.max(box.y1, y) });
  }
  return box;
}

// The corner nearest to the upper left, for the name.
export function cornerOf({ polygons }) {
  return polygons.flatMap(([outline]) => outline).reduce((best, corner) => (corner[0] + corner[1] < best[0] + best[1] ? corner : best));
}

export function pathOf({ polygons }) {
  const path = new Path2D();
  for (const ring of polygons.flat()) {
    ring.forEach(([x, y], n) => (n ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }
  return path;
}

const measure = document.createElement("canvas").getContext("2d");

// Whether a place is in a region, whose box and path are kept.
export function contains(region, [x, y]) {
  const { x0, y0, x1, y1 } = (region.box ||= boxOf(region));
  return x >= x0 && x <= x1 && y >= y0 && y <= y1 && measure.isPointInPath((region.path ||= pathOf(region)), x, y, "evenodd");
}
