// Elements of the report and of the viewer. Text from outside always becomes text: nothing here takes markup.

// Whether there is a value to show.
export const isKnown = (value) => value !== null && value !== undefined && value !== "";

// What names a pair or a variant, the outermost directory first.
export const LEVELS = ["sample", "dye", "ingestion", "registration", "subtraction", "detection"];

const namesOf = (pair) => LEVELS.map((k) => pair[k]).filter(Boolean);

export const nameOf = (pair) => namesOf(pair).join(" ");

// The address of a pair's images, by the id that the viewer gives it.
export function viewOf(pair, viewer) {
  try {
    return viewer + "#pair=" + encodeURIComponent(namesOf(pair).map((name) => encodeURIComponent(name).replaceAll("~", "%7E")).join("~"));
  } catch {
    return viewer; // a name that is not text
  }
}

export function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  return add(made, children);
}

export function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (isKnown(child) && child !== false) parent.append(child);
  }
  return parent;
}

export function fill(parent, ...children) {
  parent.replaceChildren(add(document.createDocumentFragment(), children));
}

// Draw something again without losing the place of those who work with the keyboard.
export function keepFocus(draw) {
  const had = document.activeElement;
  const home = had && had.closest("section, aside, header, dialog");
  const similar = () => [...document.querySelectorAll(had.tagName)].filter((e) => !e.disabled && ["name", "value", "textContent", "ariaLabel"].every((key) => e[key] === had[key]));
  const n = home ? similar().indexOf(had) : -1;
  draw();
  if (!home || (document.activeElement === had && !had.disabled)) return;
  const same = (had.isConnected && !had.disabled && had) || (had.id && document.getElementById(had.id)) || similar()[n] || home;
  same.focus({ preventScroll: true });
}

const unseen = new Map();
const watch = new IntersectionObserver((entries) => entries.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => {
  watch.unobserve(target);
  unseen.get(target)();
  unseen.delete(target);
}), { rootMargin: "200px" });

// Do something once an element comes near to what is seen.
export function whenSeen(element, act) {
  unseen.set(element, act);
  watch.observe(element);
}

// States of pairs, runs and jobs, in words.
export const OUTCOMES = {
  ok: { word: "ok", sign: "✓", kind: "good", means: "a result without a reason to doubt it" },
  suspect: { word: "suspect", sign: "?", kind: "suspect", means: "a result with a reason to doubt it" },
  failed: { word: "failed", sign: "✕", kind: "bad", means: "no result" },
  finished: { word: "finished", sign: "•", kind: "quiet", means: "all its jobs ended; its pairs have states of their own" },
  skipped: { word: "skipped", sign: "–", kind: "quiet", means: "not started because of its input" },
  incomplete: { word: "incomplete", sign: "…", kind: "suspect", means: "a job of it failed for a technical reason" },
  waiting: { word: "waiting", sign: "·", kind: "quiet", means: "its jobs have not started" },
  outdated: { word: "outdated", sign: "!", kind: "suspect", means: "made with other settings, versions or inputs" },
  running: { word: "running", sign: "▶", kind: "busy", means: "in progress" },
  memory: { word: "memory", sign: "✕", kind: "bad", means: "took more memory than was declared, or got none" },
  oom_killed: { word: "killed for memory", sign: "✕", kind: "bad", means: "killed by the system, which had no memory left" },
  timeout: { word: "timeout", sign: "✕", kind: "bad", means: "took longer than its limit" },
  stalled: { word: "stalled", sign: "✕", kind: "bad", means: "ended while it did nothing" },
  stall: { word: "stall", sign: "!", kind: "suspect", means: "did nothing for a while" },
  leak: { word: "memory left behind", sign: "!", kind: "suspect", means: "finished jobs left files in memory or processes" },
  node_lost: { word: "machine lost", sign: "✕", kind: "bad", means: "its machine was restarted or does not answer" },
  bad_input: { word: "bad input", sign: "✕", kind: "bad", means: "a file cannot be used" },
  error: { word: "error", sign: "✕", kind: "bad", means: "a fault of the program" },
  killed: { word: "killed", sign: "✕", kind: "bad", means: "ended from outside" },
  interrupted: { word: "interrupted", sign: "✕", kind: "bad", means: "ended by Ctrl-C" },
  superseded: { word: "superseded", sign: "–", kind: "quiet", means: "left everything to a later attempt at the same job" },
  not_started: { word: "not started", sign: "✕", kind: "bad", means: "Snakemake could not start it" },
  run_killed: { word: "Snakemake killed", sign: "✕", kind: "bad", means: "Snakemake itself was killed" },
  "": { word: "not recorded", sign: "•", kind: "quiet", means: "Snakemake left no record of this run" },
};

export function badge(outcome, count, title) {
  const { word, sign, kind, means } = OUTCOMES[outcome] || { word: outcome, sign: "•", kind: "bad" };
  return el("span", { class: "badge " + kind, title: title || means || null }, el("span", { "aria-hidden": "true" }, sign), " ", isKnown(count) ? count + " " : null, word);
}

const REASONS_AT_ONCE = 2;

// A text of reasons: each sentence of `why` unfolds its numbers and what helps; `show` makes a link to its place, or nothing.
// The third one and those after it are folded.
export function reasonsOf(text, why, show) {
  let rest = text || "";
  const known = (why || []).filter(({ sentence }) => {
    const found = rest.includes(sentence);
    rest = rest.replace(sentence, " ");
    return found;
  });
  const parts = known.map(({ sentence, numbers, help, at }) => {
    const link = at && show ? [" ", show(at)] : null;
    if (!numbers && !help) return el("p", { class: "message reason" }, sentence, link);
    const helps = help ? el("p", {}, el("span", { class: "soft" }, "What helps: "), help) : null;
    return el("details", { class: "message reason" }, el("summary", {}, sentence, link), numbers ? el("p", {}, numbers) : null, helps);
  });
  const plain = rest.split(/ +/).filter(Boolean).join(" ");
  const others = parts.splice(REASONS_AT_ONCE);
  return [plain ? el("p", { class: "message" }, plain) : null, parts, others.length ? el("details", {}, el("summary", {}, others.length + " more"), others) : null];
}

// Which settings, versions or inputs of results are not those of now.
export function outdatedOf({ outdated }) {
  return outdated ? el("p", { class: "message outdated" }, "Outdated: " + outdated + ".") : null;
}

export function button(text, title, act, attributes) {
  return el("button", { type: "button", title, onclick: act, ...attributes }, text);
}

// `options` are [value, text].
export function select(label, options, value, change) {
  const made = el("select", { "aria-label": label, title: label, onchange: () => change(made.value) });
  return add(made, options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
}

// A command with a button that copies it; `words` may be elements.
export function commandLine(text, what = "the command", words = text) {
  return el("div", { class: "command" }, el("code", {}, words), copyButton(text, "Copy " + what));
}

function copyButton(text, title) {
  const made = button("Copy", title, async () => {
    made.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Select and copy by hand");
    setTimeout(() => (made.textContent = "Copy"), 2000);
  }, { class: "copy" });
  return made;
}
