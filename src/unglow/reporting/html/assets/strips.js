// Small plots of numbers across pairs: how they spread, and which pairs are outliers.

const PLOT = { width: 320, left: 10, right: 10, lane: 26, axis: 18 };
const LANES = 8;
const NAMED = 3; // outliers named in a plot
const FEW = 8; // positions on an x axis that are named

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (isKnown(value)) made.setAttribute(key, value);
  }
  add(made, children);
  return made;
}

// All plots of these rows; choose(n) is called with the pair that was clicked.
function batchPlots(rows, model, choose) {
  const tip = el("div", { class: "tip", hidden: true });
  const dyes = [...new Set(model.pairs.map((p) => seriesOf(p)))];
  const colours = new Map(dyes.map((dye, k) => [dye, PALETTE[k % PALETTE.length]]));
  const about = { tip, choose, colours, dyes: dyes.filter((dye) => rows.some((r) => seriesOf(r.pair) === dye)) };
  const shown = NUMBERS.filter((c) => rows.some((r) => number(r, c.key) !== null));
  const density = NUMBERS.find((c) => c.key === "density_per_mm2");
  const plots = [
    ...shown.map((c) => stripPlot(c, rows, about)),
    seriesPlot(NUMBERS.find((c) => c.key === "gain"), rows, about),
    seriesPlot(shown.includes(density) ? density : NUMBERS.find((c) => c.key === "candidates"), rows, about, "sample"),
    ...model.batch.groups.map((column) => groupPlot(column, rows, model, about)),
  ];
  const legend = about.dyes.length > 1 ? el("div", { class: "legend" }, about.dyes.map((dye) => el("span", { class: "item" }, dot(colours.get(dye)), dye))) : null;
  return [legend, el("div", { class: "strips" }, plots), tip];
}

function dot(colour) {
  const key = el("span", { class: "key" });
  key.style.background = colour;
  return key;
}

// A scale from values to px: by their logarithm if positive and over a wide range, unless `even`.
function scaleOf(values, from, to, even) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const log = !even && low > 0 && high / low > 20;
  const on = log ? Math.log : (v) => v;
  const space = (on(high) - on(low)) * 0.04 || Math.abs(on(high)) * 0.02 || 0.5;
  [low, high] = [on(low) - space, on(high) + space];
  const at = (v) => from + ((on(v) - low) / (high - low)) * (to - from);
  return { at, ticks: log ? logTicks(Math.exp(low), Math.exp(high)) : evenTicks(low, high) };
}

function evenTicks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

function logTicks(low, high) {
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) all.push(...[1, 2, 5].map((k) => Number((k * 10 ** power).toPrecision(3))));
  const inside = all.filter((v) => v >= low && v <= high);
  return inside.length > 6 ? inside.filter((v) => String(v).match(/^[0.]*1/)) : inside;
}

function plotFrame(title, unit, height, drawn, label, wide) {
  const plot = svg("svg", { viewBox: "0 0 " + (wide ? 2 * PLOT.width + 16 : PLOT.width) + " " + height, role: "img", "aria-label": label });
  add(plot, drawn);
  return el("figure", { class: wide ? "strip-plot wide" : "strip-plot" }, el("figcaption", {}, title, unit ? el("small", {}, " " + unit) : null), plot);
}

function xAxis(scale, y, width, show) {
  return [svg("line", { class: "axis", x1: PLOT.left, x2: width - PLOT.right, y1: y, y2: y }),
    scale.ticks.map((v) => [svg("line", { class: "axis", x1: scale.at(v), x2: scale.at(v), y1: y, y2: y + 3 }), svg("text", { class: "tick", x: scale.at(v), y: y + 14, "text-anchor": "middle" }, show(v))])];
}

// The point of a pair: a tip describes it, a click opens its row.
function point(r, x, y, text, about, odd) {
  const made = svg("circle", { class: odd ? "pt odd" : "pt", cx: x.toFixed(1), cy: y.toFixed(1), r: odd ? 4 : 2.6, fill: about.colours.get(seriesOf(r.pair)), "data-n": r.n });
  made.addEventListener("click", () => about.choose(r.n));
  made.addEventListener("pointerenter", (event) => {
    const { tip } = about;
    tip.hidden = false;
    tip.textContent = r.name + " · " + text;
    const box = tip.offsetParent.getBoundingClientRect();
    tip.style.left = Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 4) + "px";
    tip.style.top = event.clientY - box.top + 14 + "px";
  });
  made.addEventListener("pointerleave", () => (about.tip.hidden = true));
  return made;
}

const describe = (c, r) => c.name + " " + c.show(r.pair[c.key]) + (c.ends && isKnown(r.pair[c.ends[0]]) ? range(r.pair[c.ends[0]], r.pair[c.ends[1]]) : "") + (c.unit ? " " + c.unit : "");
const isOdd = (c, r) => r.outlier.some(([key]) => key === c.key);
const middle = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

// Points of one lane: they move aside where there are many.
function lanePoints(c, rows, y, scale, about) {
  const taken = new Map();
  const ordered = [...rows].sort((a, b) => isOdd(c, a) - isOdd(c, b));
  return ordered.map((r) => {
    const x = scale.at(number(r, c.key));
    const place = Math.round(x / 5);
    const k = taken.get(place) || 0;
    taken.set(place, k + 1);
    const aside = Math.min(9, Math.ceil(k / 2) * 2.4) * (k % 2 ? 1 : -1);
    return point(r, x, y + aside, describe(c, r), about, isOdd(c, r));
  });
}

// Names of the strongest outliers next to their points, where there is space.
function oddNames(c, rows, place, width) {
  const z = (r) => Math.abs(r.outlier.find(([key]) => key === c.key)[1]);
  const named = [];
  return rows.filter((r) => isOdd(c, r)).sort((a, b) => z(b) - z(a)).slice(0, NAMED).map((r) => {
    const [x, y] = place(r);
    if (named.some(([x1, y1]) => Math.abs(x - x1) < 100 && Math.abs(y - y1) < 12)) return null;
    named.push([x, y]);
    const left = x > width / 2;
    return svg("text", { class: "odd-name", x: x + (left ? -6 : 6), y: y - 5, "text-anchor": left ? "end" : "start" }, r.name.length > 22 ? r.name.slice(0, 21) + "…" : r.name);
  });
}

function stripPlot(c, all, about) {
  const rows = all.filter((r) => number(r, c.key) !== null);
  const dyes = about.dyes.length <= LANES ? about.dyes : [null];
  const lanes = dyes.map((dye) => rows.filter((r) => dye === null || seriesOf(r.pair) === dye));
  const scale = scaleOf(rows.map((r) => number(r, c.key)), PLOT.left, PLOT.width - PLOT.right);
  const y = (k) => 8 + PLOT.lane * (k + 0.5);
  const laneOf = (r) => Math.max(0, dyes.indexOf(seriesOf(r.pair)));
  const bottom = 8 + PLOT.lane * lanes.length + 4;
  const drawn = lanes.map((members, k) => {
    if (!members.length) return null;
    const x = scale.at(middle(members.map((r) => number(r, c.key))));
    return [svg("line", { class: "median", x1: x, x2: x, y1: y(k) - 12, y2: y(k) + 12 }), lanePoints(c, members, y(k), scale, about)];
  });
  const odd = rows.filter((r) => isOdd(c, r)).map((r) => r.name);
  const label = c.name + " of " + counted(rows.length, "pair") + (odd.length ? "; outlying: " + odd.join(", ") : "");
  return plotFrame(c.name, c.unit, bottom + PLOT.axis, [xAxis(scale, bottom, PLOT.width, (v) => c.show(v)), drawn, oddNames(c, rows, (r) => [scale.at(number(r, c.key)), y(laneOf(r))], PLOT.width)], label);
}

// Positions of pairs or samples on an x axis, with their names if they are few.
function placesOf(rows, nameOf) {
  const names = [...new Set(rows.map(nameOf))];
  const places = new Map(names.map((name, k) => [name, k + 1]));
  const few = names.length <= FEW;
  const short = (name) => (name.length > 11 ? name.slice(0, 10) + "…" : name);
  return { of: (r) => places.get(nameOf(r)), show: (v) => (few ? short(names[v - 1]) : String(v)), ticks: few ? [...places.values()] : null };
}

// The x axis of a series of pairs: date, else order, else position in the list.
function alongOf(rows) {
  const date = (r) => Date.parse((r.pair.date || "").replace(" ", "T"));
  if (rows.some((r) => isKnown(r.pair.date))) return { name: "date", of: date, show: (t) => when(t / 1000).slice(0, 10) };
  if (rows.some((r) => isKnown(r.pair.order))) return { name: "order", of: (r) => (isKnown(r.pair.order) ? Number(r.pair.order) : NaN), show: String };
  return { name: "pairs", ...placesOf(rows, (r) => r.name) };
}

// A number with its interval along date or order; along samples if asked for.
function seriesPlot(c, all, about, along) {
  const known = all.filter((r) => number(r, c.key) !== null);
  const by = along ? { name: "samples", ...placesOf(known, (r) => r.pair.sample) } : alongOf(known);
  const rows = known.filter((r) => isFinite(by.of(r)));
  if (rows.length < 2) return null;
  const [width, height] = [2 * PLOT.width + 16, 170];
  const end = (r, k) => (c.ends ? number(r, c.ends[k]) : null) ?? number(r, c.key);
  const x = scaleOf(rows.map(by.of), 48, width - PLOT.right, true);
  const even = { ...x, ticks: by.ticks || (by.name === "date" ? x.ticks : x.ticks.filter(Number.isInteger)) };
  const ys = scaleOf(rows.flatMap((r) => [end(r, 0), end(r, 1)]).filter((v) => v > 0 || !c.ends), height - 6, 10);
  const floor = (v) => Math.min(height - 6, ys.at(v));
  const drawn = rows.map((r) => [
    svg("line", { class: "error", x1: x.at(by.of(r)).toFixed(1), x2: x.at(by.of(r)).toFixed(1), y1: floor(end(r, 0)).toFixed(1), y2: floor(end(r, 1)).toFixed(1), stroke: about.colours.get(seriesOf(r.pair)) }),
    point(r, x.at(by.of(r)), floor(number(r, c.key)), describe(c, r), about, isOdd(c, r)),
  ]);
  const left = ys.ticks.map((v) => [svg("line", { class: "axis", x1: 44, x2: width - PLOT.right, y1: ys.at(v), y2: ys.at(v), "stroke-dasharray": "1 4" }), svg("text", { class: "tick", x: 40, y: ys.at(v) + 4, "text-anchor": "end" }, digits(v, 3))]);
  const title = c.name + (along ? " by sample and dye" : " along " + by.name);
  return plotFrame(title, c.unit, height + PLOT.axis, [left, xAxis(even, height, width, by.show), drawn, oddNames(c, rows, (r) => [x.at(by.of(r)), floor(number(r, c.key))], width)], title + ", " + counted(rows.length, "pair"), true);
}

// Densities (or counts) of the pairs of each group and dye, and their pooled value with its interval.
function groupPlot(column, all, model, about) {
  const c = NUMBERS.find((one) => one.key === (all.some((r) => number(r, "density_per_mm2") !== null) ? "density_per_mm2" : "candidates"));
  const rows = all.filter((r) => number(r, c.key) !== null && isKnown(r.pair[column]));
  const lanes = [...new Set(rows.map((r) => r.pair[column] + "\u0000" + seriesOf(r.pair)))].sort().map((key) => key.split("\u0000"));
  if (!rows.length || lanes.length > 5 * LANES) return null;
  const pooled = model.batch.pooled.filter((p) => p.by === column && p.unit === "mm2" && c.ends && !p.control && LEVELS.slice(2).every((level) => !p[level]));
  const poolOf = ([group, dye]) => pooled.find((p) => p.group === group && seriesOf(p) === dye);
  const width = 2 * PLOT.width + 16;
  const ends = pooled.flatMap((p) => [Number(p.density_low95), Number(p.density_high95)]).filter((v) => v > 0);
  const scale = scaleOf([...rows.map((r) => number(r, c.key)), ...ends], 150, width - PLOT.right);
  const bottom = 8 + PLOT.lane * lanes.length + 4;
  const drawn = lanes.map((lane, k) => {
    const y = 8 + PLOT.lane * (k + 0.5);
    const members = rows.filter((r) => r.pair[column] === lane[0] && seriesOf(r.pair) === lane[1]);
    const p = poolOf(lane);
    const name = lane.join(" ");
    const at = (v) => Math.max(140, scale.at(Number(v)));
    return [
      svg("text", { class: "tick", x: 140, y: y + 4, "text-anchor": "end" }, name.length > 22 ? name.slice(0, 21) + "…" : name),
      lanePoints(c, members, y, scale, about),
      p && Number(p.density) > 0 ? [svg("line", { class: "pooled", x1: at(p.density_low95), x2: at(p.density_high95), y1: y, y2: y }), svg("line", { class: "pooled", x1: at(p.density), x2: at(p.density), y1: y - 8, y2: y + 8 })] : null,
    ];
  });
  const title = c.name + " by " + column + " and dye" + (pooled.length ? ", pooled with 95 % intervals (groups.tsv)" : "");
  return plotFrame(title, c.unit, bottom + PLOT.axis, [xAxis(scale, bottom, width, (v) => c.show(v)), drawn], title, true);
}
