// Which candidates are listed: limits, flags, decisions.

import { ALL, DECISIONS, FLAGS } from "./candidate_list.js";
import { button, el, fill } from "./elements.js";

const FIELDS = [["snr", "S/N ≥", "Least signal-to-noise ratio"], ["fdr", "FDR ≤", "Largest false-discovery rate"], ["flux", "flux ≥", "Least flux, grey levels"]];

export class Filters {
  constructor(changed) {
    this.changed = changed;
    this.value = { ...ALL, flags: {} };
    const onkeydown = ({ key, target }) => key === "Enter" && target.blur(); // then keys go to the table again
    this.inputs = FIELDS.map(([name, , title]) => el("input", { type: "number", step: "any", title, "aria-label": title, onkeydown, onchange: ({ target }) => this.set({ [name]: target.value === "" ? null : Number(target.value) }) }));
    this.text = el("input", { type: "text", class: "conditions", placeholder: "area_px>20 flags!=saturated", title: "Conditions on any column", "aria-label": "Conditions", onkeydown, onchange: ({ target }) => this.set({ text: target.value }) });
    this.decisions = el("div", { class: "group", role: "group", "aria-label": "Decisions that are listed" });
    this.flags = el("div", { class: "group", role: "group", "aria-label": "Flags" });
    this.more = el("details", {}, el("summary", {}, "Flags and other columns"), this.flags, this.text);
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.element = el("div", { class: "filters" }, this.decisions, el("div", { class: "group" }, FIELDS.map(([, text], n) => el("label", {}, text, " ", this.inputs[n]))), this.more, this.problem);
  }

  // For a list of another pair; filters stay, except flags that it does not have.
  fill(words) {
    this.words = words;
    this.value.flags = Object.fromEntries(Object.entries(this.value.flags).filter(([word]) => words.includes(word)));
    this.show();
  }

  set(changes) {
    Object.assign(this.value, changes);
    this.show();
    this.changed();
  }

  show() {
    const { value } = this;
    FIELDS.forEach(([name], n) => (this.inputs[n].value = value[name] ?? ""));
    this.text.value = value.text;
    fill(this.decisions, ["all", ...DECISIONS].map((decision) => button(decision, "List " + decision, () => this.set({ decision }), { "aria-pressed": String(value.decision === decision) })));
    fill(this.flags, (this.words || []).map((word) => {
      const wanted = value.flags[word];
      const sign = wanted === undefined ? "" : wanted ? "+ " : "− ";
      const title = word + (FLAGS[word] ? ": " + FLAGS[word] : "") + " (press: only those with it; again: without it; again: all)";
      return button(sign + word, title, () => this.turn(word), { "aria-pressed": String(wanted !== undefined) });
    }));
  }

  turn(word) {
    const flags = { ...this.value.flags };
    if (flags[word] === undefined) flags[word] = true;
    else if (flags[word]) flags[word] = false;
    else delete flags[word];
    this.set({ flags });
  }

  say(problem) {
    this.problem.hidden = !problem;
    this.problem.textContent = problem;
  }
}
