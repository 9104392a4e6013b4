// Steps 3 and 4: whether a run fits this machine, and the run itself.

import { badge, button, el, fill, keepFocus } from "./elements.js";
import { Step, counted } from "./parts.js";
import { ask, send } from "./server.js";

export class CheckStep extends Step {
  constructor(app) {
    super("check", "3", "Check");
    this.app = app;
    this.text = el("pre", { tabindex: "0", hidden: true });
    this.button = button("Check", "Memory, disk and time of a run", () => this.check());
    fill(this.body, el("p", { class: "soft" }, "What would run, and whether it fits the memory and the disk of this machine. It starts nothing."), el("div", { class: "row" }, this.button), this.text);
  }

  async check() {
    const cores = this.app.run.cores;
    const found = await this.attempt(() => ask("preflight.json" + (cores === null ? "" : "?cores=" + cores)), "Reading the headers of all images …");
    if (!found) return;
    this.text.hidden = false;
    this.text.textContent = found.text;
    fill(this.note, found.refused ? [badge("failed"), " a run would be refused"] : [badge("ok"), " a run would start"]);
  }

  show(state) {
    this.showCommands(state.commands.preflight);
    if (this.version === state.version) return;
    this.version = state.version; // what was found is of other settings or pairs
    this.text.hidden = true;
    fill(this.note);
  }
}

export class RunStep extends Step {
  constructor(app) {
    super("run", "4", "Run");
    this.app = app;
    this.start = button("Run", "Start the workflow", () => this.begin(), { class: "main" });
    this.stop = button("Stop", "Asks whether running jobs may finish", () => this.question.showModal());
    this.question = el("dialog", { "aria-label": "Stop" }, el("form", { method: "dialog" }, el("p", {}, "Let running jobs finish, or end them now? Finished jobs are kept, and Run continues."),
      el("div", { class: "row" }, el("button", { class: "main", onclick: () => this.end(false) }, "Let them finish"), el("button", { onclick: () => this.end(true) }, "End them now"), el("button", {}, "Back"))));
    this.input = el("input", { type: "number", min: "1", id: "cores", placeholder: "all" });
    this.bar = el("progress", { max: "1", value: "0", "aria-label": "Jobs that are done", hidden: true });
    this.words = el("p", { role: "status" });
    this.output = el("pre", { tabindex: "0" });
    this.folded = el("details", {}, el("summary", {}, "What the run prints"), this.output);
    fill(this.body,
      el("p", { class: "soft" }, "The run continues when this page or the server is closed, or the connection is lost."),
      el("div", { class: "row" }, el("label", { for: "cores" }, "Cores "), this.input, this.start, this.stop, el("a", { href: "../" }, "Live page")),
      this.bar, this.words, this.folded, this.question);
  }

  get cores() {
    return this.input.value === "" ? null : Number(this.input.value);
  }

  async begin() {
    const state = await this.attempt(() => send("run", { cores: this.cores, version: this.app.state.version }), "Starting …");
    if (state) keepFocus(() => this.watch(state));
    this.app.soon(500);
  }

  async end(now) {
    const said = await this.attempt(() => send("stop", { now }), now ? "Ending the jobs …" : "");
    if (said) this.say(said.text, "good");
    this.app.soon(500);
  }

  show(state) {
    this.input.max = String(state.cores);
    this.showCommands(state.commands.run + " --cores " + (this.cores || "all"), state.commands.stop, state.commands.monitor);
    this.watch(state.run);
  }

  watch(run) {
    const { state } = this.app;
    this.running = run.running;
    this.start.disabled = run.running || Boolean(state.why_not) || !(state.pairs.length || state.slides.length);
    this.stop.disabled = !run.running || Boolean(run.why);
    const failed = !run.running && run.code;
    if (failed && !this.wasFailed) this.folded.open = true;
    this.wasFailed = failed;
    this.folded.hidden = !run.output;
    if (this.output.textContent !== run.output) {
      this.output.textContent = run.output;
      this.output.scrollTop = this.output.scrollHeight;
    }
    if (run.why) this.say(run.why, "bad");
    this.progress(run);
  }

  progress(run) {
    const { news } = this.app;
    const now = news.now[0];
    const last = news.last;
    this.bar.hidden = !(run.running && now && now.of);
    if (run.running && now && now.of) {
      this.bar.max = now.of;
      this.bar.value = now.done;
      this.words.textContent = now.done + " of " + counted(now.of, "job") + (now.left ? ", " + now.left : "") + (now.jobs.length ? ". Now: " + now.jobs.map((j) => j.title).join(", ") : "");
    } else if (run.running) {
      this.words.textContent = "The run is starting …";
    } else {
      this.words.textContent = last ? "" : "No run yet.";
    }
    const partly = run.code && last && last.outcome === "ok" ? " without some pairs, as said below" : "";
    fill(this.note, run.running ? badge("running") : last ? ["last run: ", badge(run.code && last.outcome === "running" ? "failed" : last.outcome), partly] : null);
  }
}
