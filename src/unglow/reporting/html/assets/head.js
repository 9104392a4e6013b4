// What a reader sees first: how it went, and everything that did not go well.

function headPart(model) {
  const run = model.runs[model.runs.length - 1];
  const place = model.results.split("/").slice(-2).join("/");
  const tiles = [];
  const tile = (name, value, more) => tiles.push(el("div", { class: "tile" }, el("div", { class: "what" }, name), el("div", { class: "value" }, value), more ? el("div", { class: "more" }, more) : null));
  if (run) {
    const own = model.attempts.filter((a) => a.run === model.runs.length - 1);
    const bad = own.filter((a) => !went(a.outcome)).length;
    const going = own.filter((a) => a.outcome === "running").length;
    const ended = counted(own.length - going, "attempt") + " ended, " + (bad ? bad + " of them not well" : "all well");
    const jobs = run.of ? run.done + " of " + run.of : String(own.length);
    tile("jobs", jobs, ended + (going ? ", " + going + " running" : ""));
    const left = run.outcome === "running" ? run.left : "";
    tile("time", seconds(run.seconds) || "–", left || (run.recorded ? when(run.wall) : ""));
    if (run.lines) {
      const limit = run.budget_mb || run.machine_mb;
      const share = limit ? percent(run.lines.peak.mb / limit) + (run.budget_mb ? " of the budget, " : " of the machine, ") + mb(limit) : "";
      tile("peak memory, all jobs (PSS)", mb(run.lines.peak.mb), share);
    }
    const cpu = own.reduce((sum, a) => sum + (a.cpu_s || 0), 0);
    if (cpu) tile("processor time", seconds(cpu), run.cores ? percent(cpu / (run.seconds * run.cores)) + " of " + counted(run.cores, "core") : "");
    const moved = own.reduce((sum, a) => sum + (a.read || 0) + (a.written || 0), 0);
    if (moved) tile("read and written", bytes(moved), run.seconds > 0 ? digits(moved / 1e6 / run.seconds, 3) + " MB/s" : "");
  }
  return el("header", { class: "head" },
    el("div", { class: "title" },
      el("h1", {}, "unglow ", el("span", { class: "place" }, place)),
      verdict(model, run),
      hasViewer(model) ? el("a", { href: "view/" }, "look at the images") : null,
      el("span", { class: "soft made" }, (model.live ? "as of " : "report of ") + when(model.made)),
      themeButton()),
    el("div", { class: "tiles" }, tiles),
    run && run.command ? commandLine(run.command) : null);
}

const STATES = ["ok", "suspect", "failed", "skipped", "incomplete", "running", "waiting"];

// How many pairs are in which state; how the run ended only where that says more.
function verdict(model, run) {
  const counts = STATES.map((state) => [state, model.pairs.filter((pair) => pair.status === state).length]).filter(([, n]) => n);
  const bad = counts.some(([state]) => ["failed", "skipped", "incomplete"].includes(state));
  const explained = run && (run.outcome === "ok" ? counts.length : run.outcome === "failed" && bad);
  return [
    run && !explained ? badge(run.outcome) : null,
    counts.length ? el("span", { class: "verdict" }, unitsOf(model.pairs) + ": ", counts.map(([state, n]) => [badge(state, n), " "])) : null,
  ];
}

function themeButton() {
  const names = { "": "theme: as the system", light: "theme: light", dark: "theme: dark" };
  const root = document.documentElement;
  const button = el("button", { type: "button", class: "theme" }, names[root.dataset.theme || ""]);
  button.addEventListener("click", () => {
    const order = ["", "light", "dark"];
    const next = order[(order.indexOf(root.dataset.theme || "") + 1) % 3];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    button.textContent = names[next];
    root.dispatchEvent(new Event("themechange"));
  });
  return button;
}

const OPEN_AT_FIRST = 3;
const INCIDENTS_AT_ONCE = 50;

function incidentsPart(model, view) {
  const part = section("incidents", "Incidents", model.incidents.length ? counted(model.incidents.length, "incident") : "");
  if (!model.incidents.length) {
    const own = model.attempts.length ? "Every attempt of every run ended well, and nothing stalled." : "There is no telemetry; no pair failed.";
    fill(part.body, el("p", { class: "fine" }, "✓ " + own));
    return part.made;
  }
  const causes = new Map();
  for (const i of model.incidents) causes.set(i.cause, (causes.get(i.cause) || 0) + 1);
  let chosen = null;
  let shown = INCIDENTS_AT_ONCE;
  const list = el("div", { class: "incidents" });
  const buttons = el("div", { class: "filters" });
  const draw = () => {
    const fitting = model.incidents.filter((i) => chosen === null || i.cause === chosen);
    const more = fitting.length - shown;
    fill(list, fitting.slice(0, shown).map((i, n) => incident(i, n < OPEN_AT_FIRST && !i.mended, model, view)),
      more > 0 ? el("button", { type: "button", onclick: () => { shown += INCIDENTS_AT_ONCE; draw(); } }, counted(more, "more incident")) : null);
    const choices = [[null, "all", model.incidents.length], ...[...causes].map(([c, n]) => [c, word(c), n])];
    fill(buttons, causes.size > 1 ? choices.map(([c, name, n]) => el("button", { type: "button", "aria-pressed": String(chosen === c), onclick: () => { chosen = c; shown = INCIDENTS_AT_ONCE; draw(); } }, name + " " + n)) : null);
  };
  draw();
  fill(part.body, buttons, list);
  return part.made;
}

function incident(i, open, model, view) {
  const n = i.numbers;
  const later = i.mended ? { stall: "it went on and ended well", run: "a later run ended well" }[i.kind] || "a later attempt ended well" : "";
  const line = el("summary", {},
    badge(i.cause), " ", el("b", {}, i.title),
    el("span", { class: "soft" }, [i.wall === null ? "" : when(i.wall), n.number ? "attempt " + n.number : "", later].filter(Boolean).join(" · ")));
  const numbers = facts([
    ["peak memory", mb(n.peak_mb)],
    ["declared", mb(n.declared_mb)],
    ["would need", mb(n.needed_mb)],
    [i.kind === "stall" ? "did nothing for" : "after", seconds(n.seconds)],
    ["signal", n.signal],
    ["log", i.log],
  ]);
  const known = i.attempt !== null && model.attempts.some((a) => a.id === i.attempt);
  const link = known ? el("button", { type: "button", onclick: () => view.resources.open(i.attempt) }, "Show it in the charts") : null;
  return el("details", { class: "incident", open },
    line,
    i.message ? el("p", { class: "message" }, i.message) : null,
    i.remedy ? el("div", {}, el("span", { class: "soft" }, "What helps:"), commandLine(i.remedy, "the remedy")) : null,
    i.helps ? el("p", { class: "message" }, el("span", { class: "soft" }, "What helps: "), i.helps) : null,
    numbers.childElementCount ? numbers : null,
    i.tail ? logTail(i.tail) : null,
    link);
}

function logTail(text) {
  const lines = el("pre", { tabindex: "0" }, text);
  const watch = new ResizeObserver(() => {
    lines.scrollTop = lines.scrollHeight;
    if (lines.clientHeight) watch.disconnect();
  });
  watch.observe(lines);
  return el("details", { class: "tail", open: true }, el("summary", {}, "End of its log"), lines);
}

function environmentPart(model) {
  const part = section("environment", "How it was run");
  const run = [...model.runs].reverse().find((r) => r.recorded);
  if (!run) {
    fill(part.body, el("p", { class: "soft" }, "No run left a record of its environment. Made by unglow " + model.unglow + "."));
    return part.made;
  }
  const e = run.environment;
  const flat = (value) => (Array.isArray(value) ? value.join(", ") : typeof value === "object" && value ? Object.entries(value).map(([k, v]) => k + " " + v).join(", ") : String(value));
  const names = {
    unglow: "unglow", snakemake: "Snakemake", python: "Python", packages: "packages", platform: "system", host: "machine", user: "user", executor: "executor",
    cores: "cores", resources: "limits of all jobs", machine_mb: "memory of the machine, MB", cgroup_mb: "limit of the container, MB",
    directory: "working directory", workflow: "workflow", results: "results", config_files: "configuration files",
  };
  const commands = model.runs.filter((r) => r.command);
  fill(part.body,
    facts(Object.entries(names).map(([key, name]) => [name, e[key] === undefined ? null : flat(e[key])])),
    el("h3", {}, "Run it again"),
    el("p", { class: "soft" }, "From the working directory. What is finished is not made again."),
    commandLine((e.directory ? "cd " + quoted(e.directory) + " && " : "") + run.command),
    run.messages.length ? folded("Warnings and errors of Snakemake (" + run.messages.length + ")", () => el("div", {}, run.messages.map((m) => el("pre", {}, seconds(m.t) + " " + m.level + ": " + m.text)))) : null,
    run.config ? folded("Settings", () => table([{ name: "key", of: (r) => r[0] }, { name: "value", of: (r) => r[1] }], flatSettings(run.config, ""))) : null,
    folded("All runs (" + model.runs.length + ")", () => table([
      { name: "began", of: (r) => r.wall, show: (r) => when(r.wall) },
      { name: "outcome", of: (r) => r.outcome, show: (r) => badge(r.outcome) },
      { name: "time", number: true, of: (r) => r.seconds, show: (r) => seconds(r.seconds) },
      { name: "jobs", number: true, of: (r) => r.done, show: (r) => (r.of ? r.done + " / " + r.of : null) },
      { name: "peak memory (PSS)", number: true, of: (r) => (r.lines ? r.lines.peak.mb : null), show: (r) => (r.lines ? mb(r.lines.peak.mb) : null) },
      { name: "command", of: (r) => r.command },
    ], model.runs), { key: "runs", open: commands.length > 1 }));
  return part.made;
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\"'\"'") + "'");

function flatSettings(value, path) {
  const open = value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length;
  if (!open) return [[path, Array.isArray(value) || (value && typeof value === "object") ? JSON.stringify(value) : String(value)]];
  return Object.entries(value).flatMap(([key, inner]) => flatSettings(inner, path ? path + "." + key : key));
}
