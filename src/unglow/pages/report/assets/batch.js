// Many pairs: a row each, worst first; a row opens as a card.

// Order of rows: failed, unfinished and suspect pairs, those with outlying values, the rest.
const NEEDS = { failed: 0, skipped: 0, incomplete: 1, suspect: 2 };
const needOf = (r) => NEEDS[r.pair.status] ?? (r.outlier.length ? 4 - Math.abs(r.outlier[0][1]) / 1e6 : 5);

const px = (v) => (isKnown(v) ? String(v) : null);
const share = (v) => (isKnown(v) ? percent(Number(v)) : null);
const NUMBERS = [
  { key: "residual_median_px", minor: true, name: "residual", unit: "px", show: px, title: "Distance of sample blocks from where the map puts them, median" },
  { key: "error_median_px", name: "map error", unit: "px", show: px, title: "Estimated error of the map, median" },
  { key: "gain", name: "gain", show: px, title: "Brightness of the background in post, divided by that in pre", ends: ["gain_low95", "gain_high95"] },
  { key: "expected_gain", name: "expected gain", show: px, title: "Gain expected from exposure times" },
  { key: "residual_shift_px", name: "remaining shift", unit: "px", show: px, title: "Distance of the aligned background from the marker" },
  { key: "clipped", name: "clipped", show: share, title: "Share of the pixels that are below 0 or above the largest value, and were set to it" },
  { key: "background", minor: true, name: "background left", unit: "times its scatter", show: (v) => digits(v, 2), title: "Background that is left in the difference: its median, divided by its scatter" },
  { key: "candidates", name: "candidates", show: px },
  { key: "candidates_fdr", name: "FDR", show: share, title: "False-discovery rate: estimated share of false candidates", ends: ["fdr_low95", "fdr_high95"] },
  { key: "density_per_mm2", name: "density", show: px, ends: ["density_low95", "density_high95"], title: "Candidates per mm²" },
  { key: "spoilt_share", minor: true, name: "spoilt", show: share, title: "Share of the section that is spoilt and excluded" },
  { key: "seconds", minor: true, name: "time", show: seconds, title: "Sum over the jobs of the pair, or of the slide of a marker" },
  { key: "peak_mb", minor: true, name: "memory", show: mb, title: "Peak of the largest job" },
];

function outlyingText(outlier, pair) {
  return outlier.map(([key, z]) => {
    const { name, show, unit } = NUMBERS.find((c) => c.key === key);
    return name + " " + show(pair[key]) + (unit ? " " + unit : "") + " (" + Math.abs(z) + " times the usual scatter " + (z > 0 ? "above" : "below") + " the others)";
  }).join(", ");
}

const markOf = ({ outdated }) => (outdated ? "Outdated: " + outdated + "." : "");
// Folders of files would fill the column.
const whyOf = (r) => [markOf(r.pair), (r.pair.reasons || "").replace(/'[^']*\/([^/']+)'/g, "'$1'"), outlyingText(r.outlier, r.pair)].filter(Boolean).join(" ");

const ANY_REASON = "any spoilt place";
const UNUSUAL = "outlying values";

// What is shown of a batch: a text in name or reason, and the value of each list of choices.
const sought = { text: "" };

function batchParts(rows, view, model) {
  const count = el("span", { class: "soft", role: "status" });
  const box = el("div", { class: "batch" });
  const draw = () => {
    const fitting = rows.filter((r) => fits(r));
    count.textContent = fitting.length + " of " + counted(rows.length, rows.some((r) => isMarker(r.pair)) ? "row" : "pair");
    fill(box, batchTable(fitting, view, model, { detail: (r) => containedCard({ ...r, state: el("span") }, view, hasViewer(model)) }));
  };
  draw();
  return [batchControls(rows, model, draw, count), box];
}

// A row for each pair, those that need a look first.
function batchTable(rows, view, model, opens) {
  return table(batchColumns(rows, view, model), [...rows].sort((a, b) => needOf(a) - needOf(b)), { key: "batch", nameOf: (r) => r.name, ...opens });
}

function batchColumns(rows, view, model) {
  const { groups } = model.batch;
  const named = (r) => {
    const [first, ...rest] = [...(isMarker(r.pair) ? ["dye", "sample"] : LEVELS), ...groups].map((key) => r.pair[key]);
    return el("div", { class: "named" }, view.viewer.small(r.n, r.name), el("div", {}, el("b", {}, first), el("small", {}, [...rest, r.pair.control ? "control" : ""].filter(Boolean).join(" · "))));
  };
  const numbers = NUMBERS.filter((c) => rows.some((r) => isKnown(r.pair[c.key]))).map(({ key, ends, show, ...c }) => ({
    ...c, number: true,
    of: (r) => (isKnown(r.pair[key]) ? Number(r.pair[key]) : null),
    show: (r) => (isKnown(r.pair[key]) ? [show(r.pair[key]), ends && isKnown(r.pair[ends[0]]) ? el("small", {}, ends.map((end) => show(r.pair[end])).join(" to ")) : null] : null),
    cls: (r) => (r.outlier.some(([odd]) => odd === key) ? "odd" : ""),
  }));
  return [
    { name: "state", of: needOf, show: (r) => r.state, title: "Failed first, then suspect, then pairs with outlying values" },
    { name: "pair", of: (r) => r.name, show: named },
    { name: "why", of: (r) => whyOf(r) || null, show: (r) => el("span", { class: "why" }, whyOf(r)) },
    ...numbers,
  ];
}

function batchControls(rows, model, draw, count) {
  const search = el("input", { type: "search", placeholder: "name or reason", "aria-label": "Show pairs whose name or reason contains", value: sought.text });
  search.addEventListener("input", () => { sought.text = search.value.toLowerCase(); draw(); });
  const choose = (label, key, values) => values.length > 1 && select("Show pairs: " + label, [["", "every " + label], ...values.map((v) => [v, v])], sought[key] || "", (value) => { sought[key] = value; draw(); });
  const known = (of) => [...new Set(rows.flatMap(of).filter(isKnown))];
  const reasons = known((r) => spoiltParts(r.pair).map(([reason]) => reason));
  return el("div", { class: "controls" }, search,
    choose("status", "status", [...known((r) => r.pair.status), UNUSUAL]),
    [...(model.slides ? ["sample"] : []), "dye", ...model.batch.groups].map((key) => choose(key, key, known((r) => r.pair[key]).sort())),
    choose("spoilt place", "spoilt", reasons.length ? [ANY_REASON, ...reasons.sort()] : []),
    count);
}

function fits(r) {
  const { text, status, spoilt, ...groups } = sought;
  const parts = spoiltParts(r.pair);
  return (!status || r.pair.status === status || (status === UNUSUAL && r.outlier.length > 0))
    && (!spoilt || (spoilt === ANY_REASON ? parts.length > 0 : parts.some(([reason]) => reason === spoilt)))
    && Object.entries(groups).every(([key, value]) => !value || r.pair[key] === value)
    && (r.name + " " + whyOf(r)).toLowerCase().includes(text);
}
