// Results of two sides compared pair by pair, and the cost of their runs, aligned at start.

Object.assign(OUTCOMES, {
  different: { word: "different", sign: "≠", kind: "bad", means: "differs by more than the errors of both sides" },
  unknown: { word: "not compared", sign: "?", kind: "suspect", means: "a side lacks a result" },
  equal: { word: "equal", sign: "≈", kind: "good", means: "equal within the errors of both sides" },
  identical: { word: "identical", sign: "=", kind: "quiet", means: "the same bytes" },
});
const VERDICTS = ["different", "unknown", "equal", "identical"]; // the worst first
const COMPARED = ["map", "gain", "candidates", "pixels", "status", "input"];

function comparePage(model) {
  const header = el("header", { class: "head" }, el("div", { class: "title" }, el("h1", {}, "unglow ", el("span", { class: "place" }, "compare")), el("span", { class: "soft made" }, when(model.made)), themeButton()));
  const cost = model.runs.length ? costPart(model) : null;
  document.getElementById("page").replaceChildren(el("main", {}, header, model.results.map(resultsPart), cost ? cost.made : []));
  const draw = cost ? cost.draw : () => {};
  draw();
  document.documentElement.addEventListener("themechange", draw);
  return { redraw: draw };
}

function resultsPart(result, n) {
  const part = section("results-" + n, "Results compared", result.summary);
  const points = result.pairs.flatMap((pair) => pair.findings.flatMap((f) => f.points.map(([side, x, y, snr]) => ({ pair: pair.name, side, x, y, snr }))));
  const more = result.pairs.flatMap((pair) => pair.findings).reduce((sum, f) => sum + f.more, 0);
  const text = (words) => el("p", { class: "message" }, words);
  fill(part.body,
    facts([["A", result.a], ["B", result.b]]), result.origins.map(text),
    result.pairs.length ? comparedPairs(result.pairs, n) : null,
    result.alone.length ? folded(counted(result.alone.length, "pair") + " on one side alone", () => el("div", {}, result.alone.map(text)), { key: "alone " + n, open: true }) : null,
    points.length ? folded("Candidates on one side alone", () => el("div", {}, table([
      { name: "pair", of: (p) => p.pair },
      { name: "", of: (p) => (p.side === "lost" ? "in A alone" : "in B alone") },
      ...[["x, px of post", "x", 1], ["y", "y", 1], ["signal-to-noise ratio", "snr", 2]].map(([name, key, places]) => ({ name, number: true, of: (p) => p[key], show: (p) => p[key].toFixed(places) })),
    ], points, { key: "points " + n }), more ? text("and " + more + " more: `unglow compare --table FILE` writes the places of all.") : null), { key: "points " + n }) : null);
  return part.made;
}

// A row for each pair, with the findings of each kind.
function comparedPairs(pairs, n) {
  const of = (pair, what) => pair.findings.filter((f) => f.what === what);
  const rank = (found) => Math.min(...found.map((f) => VERDICTS.indexOf(f.verdict)));
  const soft = (words) => el("div", { class: "soft" }, words);
  const cell = (f) => (f.verdict === "identical" ? soft(f.what === "status" ? f.text : f.verdict) : el("div", {}, badge(f.verdict), soft(f.text)));
  return table([
    { name: "pair", of: (pair) => pair.name, show: (pair) => [pair.name, pair.edited.map(soft)] },
    { name: "result", of: (pair) => rank([pair]), show: (pair) => [badge(pair.verdict), pair.partly ? soft("as far as compared") : null] },
    ...COMPARED.map((name) => ({ name, of: (pair) => rank(of(pair, name)), show: (pair) => of(pair, name).map(cell) })),
  ], pairs, { key: "compared " + n, stacked: true });
}

function costPart(model) {
  const names = model.runs.map((r) => r.name);
  const colours = model.runs.map((r, n) => PALETTE[n % PALETTE.length]);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  const longest = Math.max(...model.runs.map((r) => r.seconds), 1e-3);
  const part = section("compare", "Time and memory", "aligned at start");
  const draw = () => {
    looked.clear();
    const axis = new Axis(longest);
    axis.name = "compare";
    const charts = el("div", { class: "charts", tabindex: "0", "aria-label": "Charts over time. Plus and minus zoom, 0 shows everything, a and d move." });
    charts.addEventListener("keydown", (event) => axis.key(event));
    const change = names.length === 2 ? [{ name: "change", number: true, of: (row) => row.change }] : [];
    const columns = [{ name: "", of: (row) => row.name }, ...names.map((name, n) => ({ name, number: true, of: (row) => row.values[n], show: (row) => shownAs(row, row.values[n]) })), ...change];
    fill(part.body, table(columns, model.rows), charts, el("h3", {}, "By rule: time, and peak of declared memory"), table([{ name: "rule", of: (r) => r.rule }, ...names.flatMap((name, n) => [
      { name: name + ": time", number: true, of: (r) => r.seconds[n], show: (r) => seconds(r.seconds[n]) },
      { name: "peak", number: true, of: (r) => r.peak_mb[n], show: (r) => (r.peak_mb[n] === null ? null : mb(r.peak_mb[n]) + " of " + mb(r.declared_mb[n])) },
    ])], model.rules));
    for (const [key, title, shown] of [["hi", "Memory of all jobs", mb], ["done", "Finished jobs", (v) => String(Math.round(v))], ["cpu", "Processors at work", (v) => digits(v, 2)]]) {
      const host = el("div", { class: "plot" });
      charts.append(el("h3", {}, title), host);
      overlay(host, axis, model, key, shown, colours, dashes, longest);
      if (key !== "hi") continue;
      const rows = el("div", { class: "plot" });
      charts.append(el("h3", {}, "Stages, from the start of the first job to the end of the last"), rows);
      stages(rows, axis, model, colours, longest);
    }
  };
  return { made: part.made, draw };
}

function shownAs(row, value) {
  const show = { s: seconds, MB: mb, bytes, share: percent }[row.unit];
  return show ? show(value) : value;
}

// Each curve has bins of its own width; all are put on one axis.
function overlay(host, axis, model, key, shown, colours, dashes, longest) {
  const most = Math.max(...model.runs.map((r) => (r[key] || []).length), 1);
  const t = edges(most * 2, longest);
  const curves = model.runs.map((r) => {
    const values = r[key];
    return t.map((x) => (!values || x > r.seconds ? null : values[Math.min(values.length - 1, Math.floor((x / r.seconds) * values.length))]));
  });
  chart(host, axis, {
    height: key === "hi" ? 280 : 170,
    legend: true,
    scales: { y: { range: (u, min, max) => [0, 1.15 * (max || 1)] } },
    left: { values: tickTexts(shown) },
    series: [timeSeries(), ...model.runs.map((r, n) => stepSeries(r.name, colours[n], shown, { dash: dashes[n % dashes.length], width: 2 }))],
    hooks: key === "hi" ? { draw: [(u) => drawMemory(u, model.runs, colours)] } : {},
    renew: () => [t, ...curves],
  });
}

// Budgets, one line for runs with the same, and peaks.
function drawMemory(u, runs, colours) {
  const budgets = [...new Set(runs.map((r) => r.budget_mb).filter(Boolean))];
  const of = (budget) => runs.filter((r) => r.budget_mb === budget);
  drawLines(u, budgets.map((budget) => ["limit" + (budgets.length > 1 ? " of " + of(budget).map((r) => r.name).join(", ") : ""), budget, css("--budget")]));
  const taken = [];
  runs.forEach((r, n) => r.peak && drawPeak(u, r.peak, r.name + ":", colours[n], taken));
}

// A row for each rule, and in it a bar for each run.
function stages(host, axis, model, colours, longest) {
  const rules = [...new Set(model.runs.flatMap((r) => r.stages.map(([rule]) => rule)))];
  const bar = Math.max(4, 14 / model.runs.length);
  const row = bar * model.runs.length + 4;
  chart(host, axis, {
    height: rules.length * row + 44,
    scales: { y: { range: () => [0, rules.length || 1] } },
    left: { values: (u, ticks) => ticks.map(() => "") },
    series: [timeSeries(), stepSeries("", "transparent", String)],
    hooks: { draw: [(u) => drawStages(u, model.runs, rules, colours)] },
    renew: () => [[0, longest], [null, null]],
  });
}

function drawStages(u, runs, rules, colours) {
  const { left, top, width, height } = u.bbox;
  const row = height / rules.length;
  const bar = (0.85 * row) / runs.length;
  drawInside(u, (context) => rules.forEach((rule, k) => {
    const spans = runs.map((r) => r.stages.find(([name]) => name === rule));
    spans.forEach((span, n) => {
      if (!span) return;
      const [from, to] = [span[1], span[2]].map((t) => u.valToPos(t, "x", true));
      context.fillStyle = colours[n];
      context.fillRect(from, top + k * row + n * bar, Math.max(to - from, 1), Math.max(bar - 1, 1));
    });
    const end = Math.max(...spans.filter(Boolean).map((span) => u.valToPos(span[2], "x", true)));
    const fits = end + context.measureText(rule).width + 8 * devicePixelRatio < left + width;
    context.textAlign = fits ? "left" : "right";
    context.fillStyle = css("--ink");
    context.fillText(rule, fits ? end + 5 * devicePixelRatio : left + width - 5 * devicePixelRatio, top + (k + 0.5) * row);
  }));
}
