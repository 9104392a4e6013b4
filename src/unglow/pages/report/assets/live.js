// The report while runs are active: it asks for updates, shows running jobs, progress and logs.

const ASK_MS = 1000;
const REST_MS = 5000;
const PAIRS_LISTED = 12;

class Live {
  constructor(view, model) {
    this.view = view;
    this.model = model;
    this.state = el("span", { class: "soft", role: "status" });
    this.places = el("span", { class: "places" });
    this.now = section("now", "Running now", "");
    this.stop = button("Stop the run", null, () => this.end(), { hidden: true });
    this.log = el("dialog", { class: "viewer log", "aria-label": "Log" });
    document.body.append(this.log);
    add(view.top, [el("div", { class: "live" }, this.places, this.state, " ", this.stop), this.now.made]);
    view.flames.asks = () => asked("flames").catch(() => null);
    view.logButton = (a) => (a.log ? button("Show its log", null, () => this.openLog(a.id)) : null);
    document.addEventListener("visibilitychange", () => document.hidden || this.ask());
    this.show();
    this.ask();
  }

  get running() {
    return this.model.runs.some((r) => r.outcome === "running");
  }

  async ask() {
    clearTimeout(this.timer);
    const news = await asked("news?since=" + this.model.version).catch(() => null);
    if (news && news.version !== this.model.version) {
      const attempts = this.model.attempts.slice(0, news.tried);
      for (const [n, attempt] of news.attempts || []) attempts[n] = attempt;
      this.model = { ...this.model, ...news, attempts };
      keepFocus(() => this.show());
    }
    const then = when(this.model.made);
    this.state.textContent = news ? (this.running ? "live" : "nothing runs") + " · as of " + then : "not live: the monitor does not answer (last news " + then + ")";
    this.state.classList.toggle("bad", !news);
    this.timer = setTimeout(() => this.ask(), this.running && !document.hidden ? ASK_MS : REST_MS);
  }

  async end() {
    if (!confirm("Stop the run? Running jobs finish, and no other job starts. `unglow resume` continues.")) return;
    const answer = await fetch("stop", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" }).catch(() => null);
    const said = answer && (await answer.json().catch(() => null));
    alert(said ? said.text || said.error : "The monitor does not answer: give `unglow stop` in a terminal.");
  }

  askLog(id) {
    return asked("log?attempt=" + encodeURIComponent(id)).catch(() => ({ name: "", text: "", note: "The monitor does not answer." }));
  }

  // The end of a log, read again as long as it is shown.
  async openLog(id) {
    const log = await this.askLog(id);
    const text = el("pre", { tabindex: "0" });
    fill(this.log, el("div", { class: "bar" }, el("span", {}, log.name), button("Close", null, () => this.log.close())), el("p", { class: "soft" }, log.note), text);
    if (!this.log.open) this.log.showModal();
    this.readLog(id, log, text);
  }

  // Follows its end, unless somebody reads above it.
  readLog(id, log, text) {
    const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 1;
    text.textContent = log.text;
    if (isAtEnd) text.scrollTop = text.scrollHeight;
    setTimeout(async () => text.isConnected && this.log.open && this.readLog(id, await this.askLog(id), text), 2 * ASK_MS);
  }

  show() {
    const { model } = this;
    const run = model.runs[model.shown];
    document.title = (run && run.of ? run.done + " of " + run.of + " · " : "") + "unglow monitor: " + placeOf(model);
    fill(this.places, model.places.length < 2 ? null : model.places.map((place, n) => el("a", { href: "../" + n + "/", "aria-current": place.shown ? "page" : null }, place.name, " ", badge(endOf(place)))));
    this.stop.hidden = !(this.running && (model.parts || []).includes("stop"));
    this.now.made.hidden = !model.now.length;
    this.now.note.textContent = model.now.map((now) => [now.done + " of " + counted(now.of, "job"), now.left].filter(Boolean).join(" · ")).join("; ");
    fill(this.now.body, model.now.map((now) => [progressTable(now), runningPart(now, (job) => job.id && this.openLog(job.id))]), pairsProgress(model));
    this.view.show(model);
  }
}

async function asked(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

function progressTable(now) {
  return table([
    { name: "rule", of: (r) => r.rule },
    { name: "jobs", of: (r) => r.done / r.of, show: (r) => [el("progress", { value: r.done, max: r.of }), " " + r.done + " of " + r.of] },
    { name: "", of: (r) => r.words },
  ], now.rules, { key: "progress" });
}

function runningPart(now, open) {
  const free = now.available_mb === null ? null : mb(now.available_mb) + " of " + (mb(now.machine_mb) || "?");
  const columns = [
    { name: "job", of: (j) => j.title, show: (j) => j.title + (j.number > 1 ? " (attempt " + j.number + ")" : "") },
    { name: "step", of: (j) => j.step, show: (j) => j.step + (j.share === null ? "" : " " + percent(j.share)) },
    { name: "time", number: true, of: (j) => j.seconds, show: (j) => seconds(j.seconds) },
    { name: "memory now", number: true, of: (j) => j.now_mb, show: (j) => mb(j.now_mb) },
    { name: "peak", number: true, of: (j) => j.peak_mb, show: (j) => mb(j.peak_mb) },
    { name: "declared", title: "Memory that was reserved for the job", number: true, of: (j) => j.declared_mb, show: (j) => mb(j.declared_mb) },
    { name: "memory so far", of: (j) => j.now_mb, show: (j) => (j.curve ? memoryCurve(j) : null) },
    { name: "used of declared", title: "Peak so far, divided by the memory that was reserved", number: true, of: (j) => j.peak_mb, show: (j) => meter(j.peak_mb, j.declared_mb) },
    { name: "CPU", number: true, of: (j) => j.cores, show: (j) => (j.cores === null ? null : percent(j.cores) + " of " + percent(j.threads)) },
    { name: "machine", of: (j) => j.host },
  ];
  return [
    facts([
      ["memory of the jobs", mb(now.used_mb)],
      ["declared", mb(now.declared_mb)],
      ["limit of all jobs", mb(now.budget_mb)],
      ["free memory of the machine", free],
    ]),
    now.jobs.length ? table(columns, now.jobs, { key: "now", nameOf: (j) => j.title, onrow: open }) : el("p", { class: "soft" }, "No job runs at this moment."),
  ];
}

// Memory of a running job so far, as blocks of text: full is what it declared, or its peak.
function memoryCurve(job) {
  const top = Math.max(job.declared_mb || 0, job.peak_mb || 0, 1);
  const every = Math.ceil(job.curve.length / 16);
  const levels = job.curve.filter((v, k) => k % every === 0).map((v) => " ▁▂▃▄▅▆▇█"[Math.round((8 * (v || 0)) / top)]);
  return el("span", { class: "curve", title: "memory over time; full height: " + mb(top) }, levels.join(""));
}

// The pairs that run or need attention, each with its progress: "register 45 %".
function pairsProgress(model) {
  const working = model.working || {};
  const rank = (pair) => PAIR_ORDER.indexOf(pair.status);
  const listed = model.pairs.filter((p) => ["failed", "skipped", "incomplete", "running"].includes(p.status)).sort((a, b) => rank(a) - rank(b));
  if (!listed.length) return null;
  const more = listed.length - PAIRS_LISTED;
  return el("ul", { class: "pairs-progress" }, listed.slice(0, PAIRS_LISTED).map((pair) => el("li", {}, badge(pair.status), " ", el("b", {}, nameOf(pair)), " ", el("span", { class: "soft" }, working[nameOf(pair)] || ""), " ", pair.reasons)),
    more > 0 ? el("li", { class: "soft" }, counted(more, "more pair") + " under Results") : null);
}
