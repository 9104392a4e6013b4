// Plan and progress of current runs: bars of planned, running and done jobs, dependencies, pairs.

// States of jobs, in the order of their pieces of a bar.
const JOB_STATES = [
  ["done", "done"], ["failed", "failed"], ["running", "running"], ["submitted", "submitted"],
  ["ready", "ready"], ["waiting", "waiting for other jobs"], ["blocked", "blocked: a job before it failed"],
];
const PAIRS_NAMED = 3;

class Progress {
  constructor() {
    this.part = section("progress", "Progress");
    this.part.made.hidden = true;
  }

  show(model) {
    const runs = model.now || [];
    this.part.made.hidden = !runs.length;
    if (!runs.length) return;
    this.part.note.textContent = runs.map((now) => [now.done + " of " + counted(now.of, "job"), now.left].filter(Boolean).join(" · ")).join("; ");
    fill(this.part.body, runs.map((now) => (now.rules.length ? bars(now) : null)), pairsProgress(model));
  }
}

function bars(now) {
  const all = Object.fromEntries(JOB_STATES.map(([state]) => [state, now.rules.reduce((sum, r) => sum + r[state], 0)]));
  const legend = JOB_STATES.filter(([state]) => all[state]).map(([state, name]) =>
    el("span", { class: "item" }, el("span", { class: "key job-" + state }), all[state] + " " + name));
  const line = (rule) => el("tr", {}, el("th", { scope: "row" }, rule.rule), el("td", {}, stateBar(rule, rule.of)),
    el("td", { class: "number" }, rule.done + " of " + rule.of), el("td", { class: "words" }, rule.words));
  return [
    stateBar(all, now.rules.reduce((sum, r) => sum + r.of, 0), "tall"),
    el("div", { class: "legend" }, legend),
    el("div", { class: "scroll rules-progress" }, el("table", {}, el("tbody", {}, now.rules.map(line)))),
  ];
}

function stateBar(counts, of, kind) {
  const words = JOB_STATES.filter(([state]) => counts[state]).map(([state, name]) => counts[state] + " " + name).join(", ");
  const bar = el("div", { class: "states " + (kind || ""), role: "img", "aria-label": words, title: words });
  for (const [state] of JOB_STATES) {
    if (!counts[state]) continue;
    const piece = el("span", { class: "job-" + state, "data-jobs": counts[state] });
    piece.style.width = (100 * counts[state]) / of + "%";
    bar.append(piece);
  }
  return bar;
}

// The progress of a pair, in the words of the terminal: "register 45 %", or its status.
const farOf = (pair, working) => (pair.status === "running" && working ? working : word(pair.status) + (working ? " (" + working + ")" : ""));

function pairsProgress(model) {
  if (!model.pairs.length) return null;
  const working = model.working || {};
  const rank = (pair) => PAIR_ORDER.indexOf(pair.status);
  const counts = PAIR_ORDER.map((s) => [s, model.pairs.filter((p) => p.status === s).length]).filter(([, n]) => n);
  const cells = model.pairs.map((pair) => {
    const name = nameOf(pair);
    return el("span", { class: "cell pair-" + pair.status, title: name + ": " + farOf(pair, working[name]) });
  });
  const listed = together(model.pairs.filter((p) => ["failed", "skipped", "incomplete", "running"].includes(p.status)), working).sort((a, b) => rank(a) - rank(b));
  const bad = listed.filter((p) => p.status !== "running");
  const running = listed.filter((p) => p.status === "running");
  return [
    el("h3", {}, kindOf(model.pairs) + " ", el("span", { class: "note" }, counts.map(([s, n]) => n + " " + word(s)).join(", "))),
    el("div", { class: "cells", role: "img", "aria-label": counts.map(([s, n]) => n + " " + word(s)).join(", ") }, cells),
    el("ul", { class: "pairs-progress" }, [...bad.slice(0, PAIRS_NAMED), ...running].map((pair) => pairLine(pair, model)),
      bad.length > PAIRS_NAMED ? el("li", { class: "soft" }, counted(bad.length - PAIRS_NAMED, "more pair") + " failed, skipped or incomplete, under Results") : null),
  ];
}

// Markers of a slide in the same state, as they mostly are, share one line.
function together(pairs, working) {
  const lines = new Map();
  for (const pair of pairs) {
    const key = isMarker(pair) ? [pair.sample, pair.status, working[nameOf(pair)], pair.reasons].join("\n") : nameOf(pair);
    lines.set(key, [...(lines.get(key) || []), pair]);
  }
  return [...lines.values()].map(([first, ...others]) => (others.length ? { ...first, count: 1 + others.length } : first));
}

function pairLine(pair, model) {
  const name = pair.count ? pair.sample + ", " + counted(pair.count, "marker") : nameOf(pair);
  const work = (model.working || {})[nameOf(pair)];
  const own = model.incidents.find((i) => i.kind === "pair" && i.title === name);
  return el("li", {}, badge(pair.status), " ", el("b", {}, name), work ? el("span", { class: "soft" }, " " + work) : null,
    pair.reasons ? el("div", {}, pair.reasons) : null,
    own && own.helps ? el("div", {}, el("span", { class: "soft" }, "What helps: "), own.helps) : null);
}

// Memory of a running job so far, under what it declared.
function memoryCurve(job) {
  const [width, height] = [150, 30];
  const ratio = devicePixelRatio;
  const words = "memory over time: " + (mb(job.now_mb) || "–") + " now, peak " + (mb(job.peak_mb) || "–") + " of " + (mb(job.declared_mb) || "–") + " declared";
  const made = el("canvas", { class: "curve", width: width * ratio, height: height * ratio, role: "img", "aria-label": words, title: words });
  made.style.width = width + "px";
  made.style.height = height + "px";
  const values = job.curve;
  const top = 1.1 * Math.max(job.declared_mb || 0, job.peak_mb || 0, 1);
  const pen = made.getContext("2d");
  pen.scale(ratio, ratio);
  const y = (v) => height - (height * v) / top;
  pen.beginPath();
  pen.moveTo(0, height);
  let last = 0;
  values.forEach((v, k) => {
    last = v === null ? last : v;
    pen.lineTo((width * k) / values.length, y(last));
    pen.lineTo((width * (k + 1)) / values.length, y(last));
  });
  pen.lineTo(width, height);
  pen.fillStyle = css("--cpu-fill");
  pen.strokeStyle = css("--cpu");
  pen.fill();
  pen.stroke();
  if (job.declared_mb) {
    pen.beginPath();
    pen.setLineDash([5, 3]);
    pen.strokeStyle = css("--declared");
    pen.moveTo(0, y(job.declared_mb));
    pen.lineTo(width, y(job.declared_mb));
    pen.stroke();
  }
  return made;
}
