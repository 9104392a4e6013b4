// The pairs: status and reasons, the numbers to believe or not, and pictures.

function pairsPart(model, view) {
  const part = section("pairs", "Pairs", counted(model.pairs.length, "pair") + (model.pairs.length ? "" : " yet"));
  if (!model.pairs.length) return part.made;
  const statuses = [...new Set(model.pairs.map((p) => p.status))];
  let status = null;
  let text = "";
  const list = el("div", { class: "pairs" });
  const rows = model.pairs.map((pair, n) => ({ pair, name: nameOf(pair), n, made: null }));
  const draw = () => {
    const fitting = rows.filter((r) => (status === null || r.pair.status === status) && r.name.toLowerCase().includes(text));
    fill(list, fitting.map((r) => (r.made = r.made || pairCard(r.pair, r.n, view))), fitting.length ? null : el("p", { class: "soft" }, "No pair fits."));
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

const nameOf = (pair) => ["sample", "dye", "registration", "subtraction"].map((k) => pair[k]).filter(Boolean).join(" ");

function range(low, high) {
  return low === undefined || low === null || low === "" ? "" : " (" + digits(low, 3) + " to " + digits(high, 3) + ")";
}

function pairCard(pair, n, view) {
  const share = (v) => (v === undefined || v === null || v === "" ? null : percent(Number(v)));
  const px = (key) => (digits(pair[key], 2) === null ? null : digits(pair[key], 2) + " px");
  const both = (a, b) => (px(a) === null ? null : px(a) + ", " + px(b));
  const numbers = facts([
    ["map", pair.model],
    ["map error, median and p95", both("error_median_px", "error_p95_px")],
    ["residuals, median and p95", both("residual_median_px", "residual_p95_px")],
    ["overlap", share(pair.overlap)],
    ["gain, " + (pair.method || ""), digits(pair.gain, 4) === null ? null : digits(pair.gain, 4) + range(pair.gain_low95, pair.gain_high95)],
    ["offset", digits(pair.offset, 3)],
    ["candidates", pair.candidates],
    ["false-discovery rate", share(pair.candidates_fdr)],
    ["by controls", share(pair.fdr_control)],
    ["density", digits(pair.density_per_mm2, 3) === null ? null : digits(pair.density_per_mm2, 3) + " per mm²" + range(pair.density_low95, pair.density_high95)],
  ]);
  return el("article", { class: "pair " + (pair.status || "") },
    el("h3", {}, nameOf(pair), " ", badge(pair.status), pair.control ? el("span", { class: "badge quiet" }, "control") : null),
    pair.reasons ? el("p", { class: "message" }, pair.reasons) : null,
    pair.notes ? el("p", { class: "message" }, pair.notes) : null,
    el("div", { class: "columns" }, numbers, el("div", {}, view.viewer.strip(n, nameOf(pair)))));
}

function summaryTable(pairs) {
  const names = [...new Set(pairs.flatMap((p) => Object.keys(p)))];
  const isNumber = (name) => pairs.every((p) => p[name] === undefined || p[name] === null || p[name] === "" || isFinite(Number(p[name])));
  return table(names.map((name) => {
    const number = isNumber(name) && name !== "sample";
    const of = (p) => (p[name] === undefined || p[name] === null || p[name] === "" ? null : number ? Number(p[name]) : p[name]);
    return { name, number, of, show: (p) => (number ? digits(p[name], 6) : p[name]) };
  }), pairs);
}
