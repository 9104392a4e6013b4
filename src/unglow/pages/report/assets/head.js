// The head line: the states of all pairs; and numbers of the last run, incidents, how it was run.

// The last names of the directory; of a workflow that is not unglow's, that of where it ran.
function placeOf(model) {
  const names = model.results.split("/");
  return model.foreign ? names[names.length - 3] || "runs" : names.slice(-2).join("/");
}

function headPart(model) {
  const run = model.runs[model.runs.length - 1];
  return el("header", { class: "head" },
    el("div", { class: "title" },
      el("h1", {}, "unglow ", el("span", { class: "place" }, placeOf(model))),
      (model.parts || []).includes("app") ? el("a", { href: "app/" }, "images, names, settings, run") : null,
      hasViewer(model) ? el("a", { href: "view/" }, "open the viewer") : null,
      el("span", { class: "soft made" }, (model.live ? "as of " : "report of ") + when(model.made))),
    verdict(model, run));
}

// Numbers of the last run that did something.
function tilesPart(model) {
  const run = model.runs[model.shown];
  if (!run) return el("div");
  const tile = (name, value, more) => el("div", { class: "tile" }, el("div", { class: "what" }, name), el("div", { class: "value" }, value), more ? el("div", { class: "more" }, more) : null);
  const { own, jobs, finished, failed, running } = jobCounts(model);
  const limit = run.budget_mb || run.machine_mb;
  const peak = run.lines && run.lines.peak.mb;
  const cpu = own.reduce((sum, a) => sum + (a.cpu_s || 0), 0);
  const moved = own.reduce((sum, a) => sum + (a.read || 0) + (a.written || 0), 0);
  return el("div", { class: "tiles" },
    tile("jobs", run.of ? run.done + " of " + run.of : String(jobs), counted(finished, "job") + " finished, " + (failed ? failed + " failed" : "none failed") + (running ? ", " + running + " running" : "")),
    tile("time", seconds(run.seconds) || "–", run.outcome === "running" && run.left ? run.left : run.recorded ? when(run.wall) : ""),
    run.lines ? tile("peak memory, all jobs", mb(peak), limit ? percent(peak / limit) + (run.budget_mb ? " of the limit, " : " of the machine, ") + mb(limit) : "") : null,
    cpu ? tile("processor time", seconds(cpu), run.cores ? percent(cpu / (run.seconds * run.cores)) + " of " + counted(run.cores, "core") : "") : null,
    moved ? tile("read and written", bytes(moved), run.seconds > 0 ? digits(moved / 1e6 / run.seconds, 3) + " MB/s" : "") : null);
}

// The attempts of the same run, and how many of its jobs finished, failed and run: their last attempts say it.
function jobCounts(model) {
  const own = model.attempts.filter((a) => a.run === model.shown);
  const last = [...new Map(own.map((a) => [a.id.replace(/\/\d+$/, ""), a])).values()];
  const running = last.filter((a) => a.outcome === "running").length;
  return { own, running, jobs: last.length, finished: last.length - running, failed: last.filter((a) => !went(a.outcome)).length };
}

function technicalNote(model) {
  const run = model.runs[model.shown];
  if (!run) return "no telemetry";
  const { jobs, failed } = jobCounts(model);
  return [counted(jobs, "job"), failed ? failed + " failed" : null, seconds(run.seconds), run.lines ? "peak memory " + mb(run.lines.peak.mb) : null].filter(Boolean).join(" · ");
}

const pairCounts = (model) => PAIR_ORDER.map((state) => [state, model.pairs.filter((pair) => pair.status === state).length]).filter(([, n]) => n);

// How many pairs are in which state; how the run ended only where that says more.
function verdict(model, run) {
  const counts = pairCounts(model);
  const bad = counts.some(([state]) => ["failed", "skipped", "incomplete"].includes(state));
  const explained = run && (run.outcome === "ok" ? model.pairs.length : run.outcome === "failed" && bad);
  return el("p", { class: "verdict" },
    run && !explained ? ["run ", badge(endOf(run)), " "] : null,
    counts.length ? [unitsOf(model.pairs) + ": ", counts.map(([state, n]) => badge(state, n))] : null);
}

const OPEN_AT_FIRST = 3;

function incidentsPart(incidents, model, view) {
  if (!incidents.length) return null;
  const part = section("incidents", "Incidents", counted(incidents.length, "incident") + " of jobs and runs");
  fill(part.body, incidents.map((i, n) => incident(i, n < OPEN_AT_FIRST, model, view)));
  return part.made;
}

function incident(i, open, model, view) {
  const n = i.numbers;
  const line = el("summary", {},
    badge(i.cause), " ", el("b", {}, i.title),
    el("span", { class: "soft" }, [i.wall === null ? "" : when(i.wall), n.number ? "attempt " + n.number : ""].filter(Boolean).join(" · ")));
  const numbers = facts([
    ["peak memory", mb(n.peak_mb)],
    ["declared", mb(n.declared_mb)],
    ["would need", mb(n.needed_mb)],
    [i.kind === "stall" ? "did nothing for" : "after", seconds(n.seconds)],
    ["signal", n.signal],
    ["log", i.log],
  ]);
  const known = i.attempt !== null && model.attempts.some((a) => a.id === i.attempt);
  return el("details", { class: "incident", open },
    line,
    i.message ? el("p", { class: "message" }, i.message) : null,
    i.remedy ? el("div", {}, el("span", { class: "soft" }, "What helps:"), commandLine(i.remedy, "the remedy")) : null,
    i.helps ? el("p", { class: "message" }, el("span", { class: "soft" }, "What helps: "), i.helps) : null,
    numbers.childElementCount ? numbers : null,
    i.tail ? el("details", { class: "tail", open: true }, el("summary", {}, "End of its log"), el("pre", { tabindex: "0" }, i.tail)) : null,
    known ? button("Show it in the charts", null, () => view.showAttempt(i.attempt)) : null);
}

function environmentPart(model) {
  const part = section("environment", "How it was run");
  const run = [...model.runs].reverse().find((r) => r.recorded);
  if (!run) {
    fill(part.body, el("p", { class: "soft" }, "No run has recorded its environment. Report by unglow " + model.unglow + "."));
    return part.made;
  }
  const e = run.environment;
  const flat = (value) => (Array.isArray(value) ? value.join(", ") : typeof value === "object" && value ? Object.entries(value).map(([k, v]) => k + " " + v).join(", ") : String(value));
  const names = {
    unglow: "unglow", snakemake: "Snakemake", python: "Python", packages: "packages", platform: "system", host: "machine", user: "user", executor: "executor",
    cores: "cores", resources: "limits of all jobs", machine_mb: "memory of the machine, MB", cgroup_mb: "limit of the container, MB",
    directory: "working directory", workflow: "workflow", results: "results", config_files: "configuration files",
  };
  fill(part.body,
    facts([...Object.entries(names).map(([key, name]) => [name, e[key] === undefined ? null : flat(e[key])]),
      ["clocks put right", Object.entries(run.shifts).map(([host, s]) => host + " by " + seconds(Math.abs(s)) + (s < 0 ? " back" : "")).join(", ")]]),
    el("h3", {}, "Run it again"),
    el("p", { class: "soft" }, "From the working directory. Finished results are kept."),
    commandLine((e.directory ? "cd " + quoted(e.directory) + " && " : "") + run.command),
    run.messages.length ? folded("Warnings and errors of Snakemake (" + run.messages.length + ")", () => el("div", {}, run.messages.map((m) => el("pre", {}, seconds(m.t) + " " + m.level + ": " + m.text)))) : null,
    run.config ? folded("Settings", () => table([{ name: "key", of: (r) => r[0] }, { name: "value", of: (r) => r[1] }], flatSettings(run.config, ""))) : null,
    folded("All runs (" + model.runs.length + ")", () => table([
      { name: "run", of: (r) => r.wall, show: nameOfRun },
      { name: "time", number: true, of: (r) => r.seconds, show: (r) => seconds(r.seconds) },
      { name: "jobs", number: true, of: (r) => r.done, show: (r) => (r.of ? r.done + " / " + r.of : null) },
      { name: "peak memory", number: true, of: (r) => (r.lines ? r.lines.peak.mb : null), show: (r) => (r.lines ? mb(r.lines.peak.mb) : null) },
      { name: "command", of: (r) => r.command },
    ], model.runs), { key: "runs" }));
  return part.made;
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\"'\"'") + "'");

function flatSettings(value, path) {
  const open = value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
  if (!open) return [[path, Array.isArray(value) || (value && typeof value === "object") ? JSON.stringify(value) : String(value)]];
  return Object.entries(value).flatMap(([key, inner]) => flatSettings(inner, path ? path + "." + key : key));
}
