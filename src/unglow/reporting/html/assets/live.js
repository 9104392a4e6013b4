// A page of results of active runs: polls for updates, shows running jobs and their logs.

const ASK_MS = 1000;
const REST_MS = 5000;
const HIDDEN_MS = 15000;

class Live {
  constructor(view, model) {
    this.view = view;
    this.model = model;
    this.version = model.version;
    this.state = el("span", { class: "soft", role: "status" });
    this.places = el("span", { class: "places" });
    this.now = section("now", "Running now", "choose a job to read its log");
    this.progress = new Progress();
    view.progress.append(this.progress.part.made);
    view.flames.asks = () => (this.running ? asked("flames").catch(() => undefined) : null);
    this.log = new LogView();
    this.stop = button("Stop the run", null, () => this.end(), { hidden: true });
    add(view.top, [el("div", { class: "live" }, this.places, this.state, " ", this.stop), this.now.made]);
    const choose = view.resources.choose.bind(view.resources);
    view.resources.choose = (a, reveal) => {
      choose(a, reveal);
      if (a && a.log) view.resources.panel.append(button("Show its log", null, () => this.openLog(a.id)));
    };
    document.addEventListener("visibilitychange", () => document.hidden || this.soon(0));
  }

  get running() {
    return this.model.runs.some((r) => r.outcome === "running");
  }

  soon(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), wait);
  }

  async ask() {
    const news = await asked("news?since=" + this.version).catch(() => null);
    if (news) this.take(news);
    const then = when(this.model.made);
    const known = (this.running ? "live" : "nothing runs") + " · as of " + then;
    this.state.textContent = news ? known : "not live: the monitor does not answer (last news " + then + ")";
    this.state.classList.toggle("bad", !news);
    this.soon(document.hidden ? HIDDEN_MS : this.running ? ASK_MS : REST_MS);
  }

  take(news) {
    const same = news.version === this.version && JSON.stringify(news.places) === JSON.stringify(this.model.places);
    this.version = news.version;
    this.model = merged(this.model, news);
    if (!same) this.show();
  }

  async end() {
    if (!confirm("Stop the run? Running jobs finish, and no other job starts. `unglow resume` continues.")) return;
    const answer = await fetch("stop", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" }).catch(() => null);
    const said = answer && (await answer.json().catch(() => null));
    alert(said ? said.text || said.error : "The monitor does not answer: give `unglow stop` in a terminal.");
  }

  openLog(id) {
    const a = this.model.attempts.find((attempt) => attempt.id === id);
    if (a && a.log) this.log.open(a);
  }

  show() {
    // curves of a large run come less often than its progress
    const newest = new Map(this.model.now.map(({ run: id, done, of, left }) => [id, { done, of, left }]));
    const runs = this.model.runs.map((r) => ({ ...r, ...newest.get(r.id) }));
    const run = runs[this.model.shown];
    const jobs = run && run.of ? run.done + " of " + run.of + " · " : "";
    document.title = jobs + "unglow monitor: " + placeOf(this.model);
    fill(this.places, placesPart(this.model.places));
    this.stop.hidden = !(this.running && (this.model.parts || []).includes("stop"));
    this.now.made.hidden = !this.model.now.length;
    fill(this.now.body, this.model.now.map((now) => runningPart(now, (job) => this.openLog(job.attempt))));
    this.progress.show(this.model);
    this.view.show({ ...this.model, runs });
  }
}

async function asked(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

// The model with an update: only changed runs, attempts and pairs are sent.
function merged(model, news) {
  const next = { ...model, ...news.top, made: news.made, places: news.places };
  for (const kind of ["runs", "attempts", "pairs"]) {
    const known = new Map(model[kind].map((item, n) => [kind === "pairs" ? n : item.id, item]));
    for (const [id, item] of news[kind].changed) known.set(id, item);
    const order = news[kind].order || known.keys(); // new ones come last
    next[kind] = [...order].map((id) => known.get(id));
  }
  return next;
}

function placesPart(places) {
  if (places.length < 2) return null;
  return places.map((place, n) => el("a", { href: "../" + n + "/", "aria-current": place.shown ? "page" : null }, place.name, " ", badge(endOf(place))));
}

function runningPart(now, open) {
  const free = now.available_mb === null ? null : mb(now.available_mb) + " of " + (mb(now.machine_mb) || "?");
  const columns = [
    { name: "job", of: (j) => j.title, show: (j) => j.title + (j.number > 1 ? " (attempt " + j.number + ")" : "") },
    { name: "at", of: (j) => j.step, show: (j) => j.step + (j.share === null ? "" : " " + percent(j.share)) },
    { name: "time", number: true, of: (j) => j.seconds, show: (j) => seconds(j.seconds) },
    { name: "memory now", number: true, of: (j) => j.now_mb, show: (j) => mb(j.now_mb) },
    { name: "peak", number: true, of: (j) => j.peak_mb, show: (j) => mb(j.peak_mb) },
    { name: "declared", number: true, of: (j) => j.declared_mb, show: (j) => mb(j.declared_mb) },
    { name: "memory so far, of declared", of: (j) => j.now_mb, show: (j) => (j.curve ? memoryCurve(j) : null) },
    { name: "peak of declared", number: true, of: (j) => j.peak_mb, show: (j) => meter(j.peak_mb, j.declared_mb) },
    { name: "CPU", number: true, of: (j) => j.cores, show: (j) => (j.cores === null ? null : percent(j.cores) + " of " + percent(j.threads)) },
    { name: "machine", of: (j) => j.host },
  ];
  return [
    facts([
      ["jobs take (PSS)", mb(now.used_mb)],
      ["declared", mb(now.declared_mb)],
      ["allowed for all jobs", mb(now.budget_mb)],
      ["free memory of the machine", free],
    ]),
    now.jobs.length ? table(columns, now.jobs, { onrow: open }) : el("p", { class: "soft" }, "No job runs at this moment."),
  ];
}

class LogView {
  constructor() {
    this.title = el("span");
    this.note = el("p", { class: "soft" });
    this.text = el("pre", { tabindex: "0" });
    const close = button("Close", null, () => this.dialog.close());
    this.dialog = el("dialog", { class: "viewer log", "aria-label": "Log" }, el("div", { class: "bar" }, this.title, close), this.note, this.text);
    this.dialog.addEventListener("close", () => clearTimeout(this.timer));
    document.body.append(this.dialog);
  }

  open(a) {
    this.id = a.id;
    this.title.textContent = a.title + ": " + a.log;
    this.note.textContent = "";
    this.text.textContent = "";
    this.dialog.showModal();
    this.read();
  }

  async read() {
    clearTimeout(this.timer);
    const { id } = this;
    try {
      const log = await asked("log?attempt=" + encodeURIComponent(id));
      if (id !== this.id) return;
      this.put(log);
    } catch {
      this.note.textContent = "The monitor does not answer.";
    }
    if (this.dialog.open) this.timer = setTimeout(() => this.read(), 2 * ASK_MS);
  }

  put(log) {
    this.note.textContent = log.note;
    if (this.text.textContent === log.text) return;
    const low = this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 30;
    this.text.textContent = log.text;
    if (low) this.text.scrollTop = this.text.scrollHeight;
  }
}

function follow(view, model) {
  const live = new Live(view, model);
  live.show();
  live.ask();
  return live;
}
