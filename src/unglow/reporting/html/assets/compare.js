// Runs side by side, all from t = 0.

function comparePage(model) {
  const names = model.runs.map((r) => r.name);
  const colours = model.runs.map((r, n) => PALETTE[n % PALETTE.length]);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  const longest = Math.max(...model.runs.map((r) => r.seconds), 1e-3);
  const part = section("compare", "Side by side", "all from their begin on");
  const main = el("main", {}, el("header", { class: "head" }, el("div", { class: "title" }, el("h1", {}, "unglow ", el("span", { class: "place" }, "compare")), el("span", { class: "soft made" }, when(model.made)), themeButton())), part.made);
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
    for (const [key, title, shown] of [["hi", "Memory of all jobs", mb], ["done", "Jobs that have ended", (v) => String(Math.round(v))], ["cpu", "Processors at work", (v) => digits(v, 2)]]) {
      const host = el("div", { class: "plot" });
      charts.append(el("h3", {}, title), host);
      overlay(host, axis, model, key, shown, colours, dashes, longest);
    }
  };
  document.getElementById("page").replaceChildren(main);
  draw();
  document.documentElement.addEventListener("themechange", draw);
  return { redraw: draw };
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
    hooks: key === "hi" ? { draw: [(u) => model.runs.forEach((r, n) => r.peak && drawPeak(u, r.peak, r.name + ":", colours[n]))] } : {},
    renew: () => [t, ...curves],
  });
}
