// Step 5: the results of each pair with pictures, and the way into the viewer.

import { badge, el, fill, isKnown, nameOf, outdatedOf, reasonsOf, viewOf } from "./elements.js";
import { Step, counted } from "./parts.js";
import { ask } from "./server.js";

const AT_ONCE = 60;
const STATES = ["ok", "suspect", "failed", "skipped", "incomplete", "running", "waiting"];
const DONE = ["ok", "suspect"];
const SEEN = [...DONE, "failed"];

// A number with its interval.
function ranged(pair, key, of) {
  const [low, high] = ["_low95", "_high95"].map((end) => pair[of + end]);
  return isKnown(pair[key]) ? pair[key] + (isKnown(low) ? " (" + low + " to " + high + ")" : "") : null;
}

export class ResultsStep extends Step {
  constructor(app) {
    super("results", "5", "Results");
    this.app = app;
    this.cards = new Map();
    this.list = el("div", { class: "cards" });
    this.head = el("div", {});
    this.file = el("span", { class: "soft" });
    fill(this.body, this.head, this.list);
  }

  show(state) {
    this.showCommands(state.commands.view, state.commands.status);
    this.file.textContent = state.report && "The report as a file: " + state.report;
  }

  update(news) {
    const { pairs } = news;
    this.app.settings.advise(pairs);
    const counts = STATES.map((s) => [s, pairs.filter((p) => p.status === s).length]).filter(([, n]) => n);
    this.note.textContent = pairs.length ? counted(pairs.length, "pair") : "none yet";
    fill(this.head, counts.map(([s, n]) => [badge(s), " " + n + "  "]));
    const done = pairs.some((p) => DONE.includes(p.status));
    if (done) this.head.append(el("span", { class: "row" }, el("a", { href: "../view/" }, "Open the viewer"), el("a", { href: "../" }, "Report")), this.file);
    const shown = pairs.slice(0, AT_ONCE);
    fill(this.list, shown.map((pair) => this.card(pair)), pairs.length > AT_ONCE ? el("p", { class: "soft" }, "and " + (pairs.length - AT_ONCE) + " more on the live page") : null);
  }

  card(pair) {
    const name = nameOf(pair);
    const key = JSON.stringify(pair);
    const old = this.cards.get(name);
    if (old && old.key === key) return old.made;
    const picture = el("img", { alt: "difference of " + name, hidden: true });
    const numbers = [
      ["candidates", pair.candidates],
      ["false-discovery rate (95 %)", ranged(pair, "candidates_fdr", "fdr")],
      ["gain (95 %)", ranged(pair, "gain", "gain")],
    ].filter(([, value]) => isKnown(value));
    const made = el("article", { class: "card" },
      el("h3", {}, name, " ", badge(pair.status)),
      SEEN.includes(pair.status) ? el("a", { href: viewOf(pair, "../view/"), title: "Open " + name + " in the viewer" }, picture, el("span", {}, pair.status === "failed" ? "Look at its images" : "Look at it")) : null,
      outdatedOf(pair),
      el("dl", { class: "facts" }, numbers.map(([what, value]) => el("div", {}, el("dt", {}, what), el("dd", {}, String(value))))),
      reasonsOf(pair.reasons, pair.details, ([x, y]) => (pair.background_channel ? null : el("a", { href: viewOf(pair, "../view/") + "&x=" + x + "&y=" + y + "&zoom=1" }, "show me"))));
    this.cards.set(name, { key, made });
    if (DONE.includes(pair.status)) this.draw(name, picture);
    return made;
  }

  async draw(name, picture) {
    const pictures = await ask("../pictures?pair=" + encodeURIComponent(name) + "&small=1").catch(() => []);
    const first = pictures.find((p) => p.small || p.image);
    if (!first) return;
    picture.src = "data:image/jpeg;base64," + (first.image || first.small);
    picture.alt = first.name + " of " + name;
    picture.hidden = false;
  }
}
