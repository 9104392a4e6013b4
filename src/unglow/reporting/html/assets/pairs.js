// The pairs: status and reasons, the numbers to believe or not, and pictures.

function pairsPart(model, view) {
  const part = section("pairs", "Pairs", counted(model.pairs.length, "pair") + (model.pairs.length ? "" : " yet"));
  if (!model.pairs.length) return part.made;
  const statuses = [...new Set(model.pairs.map((p) => p.status))];
  let status = null;
  let text = "";
  const list = el("div", { class: "pairs" });
  const rows = model.pairs.map((pair, n) => ({ pair, name: nameOf(pair), n, made: null, state: el("span") }));
  view.states = rows;
  const draw = () => {
    const fitting = rows.filter((r) => (status === null || r.pair.status === status) && r.name.toLowerCase().includes(text));
    fill(list, fitting.map((r) => (r.made = r.made || pairCard(r, view, hasViewer(model)))), fitting.length ? null : el("p", { class: "soft" }, "No pair fits."));
  };
  const search = el("input", { type: "search", placeholder: "name", "aria-label": "Show pairs whose name contains" });
  search.addEventListener("input", () => { text = search.value.toLowerCase(); draw(); });
  const choice = el("select", { "aria-label": "Show pairs with status" }, [null, ...statuses].map((s) => el("option", { value: s || "" }, s === null ? "every status" : s)));
  choice.addEventListener("change", () => { status = choice.value || null; draw(); });
  draw();
  fill(part.body, model.pairs.length > 6 ? el("div", { class: "controls" }, search, choice) : null, list,
    folded("All columns of summary.tsv", () => summaryTable(model.pairs)));
  return part.made;
}

const nameOf = (pair) => LEVELS.map((k) => pair[k]).filter(Boolean).join(" ");

// Whether the server shows images too.
const hasViewer = (model) => (model.parts || []).includes("view");

// The address of a pair's images, by the id that the viewer gives it.
function viewOf(pair) {
  const part = (name) => encodeURIComponent(name).replaceAll("~", "%7E");
  try {
    const id = LEVELS.map((k) => pair[k]).filter(Boolean).map(part).join("~");
    return "view/#pair=" + encodeURIComponent(id);
  } catch {
    return "view/"; // a name that is no text
  }
}

// The numbers of a pair come as summary.tsv has them: in as many digits as their errors leave.
function range(low, high) {
  return isKnown(low) ? " (" + low + " to " + high + ")" : "";
}

// How pairs stand that are not done, on cards that stay as they are.
function tellStates(rows, model) {
  for (const { pair, name, n, state } of rows) {
    const work = (model.working || {})[name];
    fill(state, badge((model.pairs[n] || pair).status), work ? [" ", el("span", { class: "soft working" }, work)] : null);
  }
}

// What cards are made of: whether a pair that is not done runs just now changes too often.
const settled = (pairs) => pairs.map((p) => (p.status === "running" ? { ...p, status: "waiting" } : p));

function pairCard({ pair, n, state }, view, canLook) {
  const share = (v) => (isKnown(v) ? percent(Number(v)) : null);
  const both = (a, b) => (isKnown(pair[a]) ? pair[a] + " px, " + pair[b] + " px" : null);
  const estimate = (key, low, high, unit) => (isKnown(pair[key]) ? pair[key] + range(pair[low], pair[high]) + (unit || "") : null);
  const numbers = facts([
    ["map", pair.model],
    ["map error, median and p95", both("error_median_px", "error_p95_px")],
    ["residuals, median and p95", both("residual_median_px", "residual_p95_px")],
    ["overlap", share(pair.overlap)],
    ["gain, " + (pair.method || ""), estimate("gain", "gain_low95", "gain_high95")],
    ["offset", pair.offset],
    ["candidates", pair.candidates],
    ["false-discovery rate", share(pair.candidates_fdr)],
    ["by controls", share(pair.fdr_control)],
    ["density", estimate("density_per_mm2", "density_low95", "density_high95", " per mm²")],
    ["accepted of reviewed", isKnown(pair.reviewed) ? pair.accepted + " of " + pair.reviewed : null],
    ["purity of the reviewed", estimate("purity", "purity_low95", "purity_high95")],
  ]);
  return el("article", { class: "pair " + (pair.status || "") },
    el("h3", {}, nameOf(pair), " ", state, pair.control ? el("span", { class: "badge quiet" }, "control") : null,
      canLook && pair.dye ? [" ", el("a", { class: "soft look", href: viewOf(pair) }, "look at the images")] : null),
    pair.reasons ? el("p", { class: "message" }, pair.reasons) : null,
    pair.notes ? el("p", { class: "message" }, pair.notes) : null,
    el("div", { class: "columns" }, numbers, el("div", {}, view.viewer.strip(n, nameOf(pair)))));
}

function summaryTable(pairs) {
  const names = [...new Set(pairs.flatMap((p) => Object.keys(p)))];
  const isNumber = (name) => pairs.every((p) => !isKnown(p[name]) || isFinite(Number(p[name])));
  return table(names.map((name) => {
    const number = isNumber(name) && name !== "sample";
    const of = (p) => (isKnown(p[name]) ? (number ? Number(p[name]) : p[name]) : null);
    return { name, number, of, show: (p) => p[name] };
  }), pairs);
}
