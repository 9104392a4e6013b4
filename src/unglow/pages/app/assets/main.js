// The page of a working directory: six steps, with the commands that do the same.

import { el, fill, keepFocus } from "./elements.js";
import { FolderStep } from "./folder.js";
import { NamesStep } from "./names.js";
import { ResultsStep } from "./results.js";
import { CheckStep, RunStep } from "./run.js";
import { News, ask } from "./server.js";
import { SettingsStep } from "./settings.js";

const RUNNING_MS = 1500;
const REST_MS = 5000;
const HIDDEN_MS = 20000;

class App {
  constructor(parent) {
    this.news = new News();
    this.folder = new FolderStep(this);
    this.names = new NamesStep(this);
    this.settings = new SettingsStep(this);
    this.check = new CheckStep(this);
    this.run = new RunStep(this);
    this.results = new ResultsStep(this);
    this.steps = [this.folder, this.names, this.check, this.run, this.results, this.settings];
    this.place = el("span", { class: "place" });
    this.status = el("span", { role: "status" });
    fill(parent,
      el("header", { class: "top" }, el("h1", {}, "unglow "), this.place, this.status),
      el("nav", { "aria-label": "Steps" }, this.steps.map((s) => el("a", { href: "#" + s.made.id }, s.made.getAttribute("aria-label"))), el("label", {}, el("input", { type: "checkbox", id: "commands" }), " show commands")),
      el("main", {}, this.steps.map((s) => s.made)));
    parent.addEventListener("conflict", () => this.load());
    document.addEventListener("visibilitychange", () => document.hidden || this.soon(0));
  }

  async start() {
    await this.load();
    await this.settings.load();
    this.settings.show(this.state);
    await this.look();
  }

  async load() {
    this.take(await ask("state.json"));
  }

  take(state) {
    this.state = state;
    this.place.textContent = state.directory;
    keepFocus(() => this.steps.forEach((step) => step.show(state)));
  }

  say(trouble) {
    this.status.textContent = trouble;
    this.status.className = "bad";
  }

  soon(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), wait);
  }

  // What other pages, editors and the run have done meanwhile.
  async look() {
    let running = false;
    try {
      const seen = await ask("watch.json");
      const changed = await this.news.read();
      running = seen.run.running;
      if (seen.version !== this.state.version) await this.load();
      keepFocus(() => this.run.watch(seen.run));
      if (changed || !this.shown) keepFocus(() => this.results.update(this.news));
      this.shown = true;
      this.say("");
    } catch (error) {
      this.say(error.message);
    }
    this.soon(document.hidden ? HIDDEN_MS : running ? RUNNING_MS : REST_MS);
  }
}

const app = new App(document.getElementById("app"));
window.unglow = app; // for people who want to look closer
app.start().then(() => document.documentElement.setAttribute("data-ready", "1"), (error) => {
  document.documentElement.setAttribute("data-failed", error.message);
  app.say(error.message);
});
