// The chosen candidate: its stamps, measurements and decision.

import { COLUMNS, FLAGS } from "./candidate_list.js";
import { button, el, fill } from "./elements.js";
import { Stamps } from "./stamps.js";

const DECIDE = [["accepted", "Accept", "a"], ["rejected", "Reject", "r"], ["unsure", "Unsure", "u"], ["", "Clear", "c"]];
const WITH_ERROR = { x: "x_err", y: "y_err", flux: "flux_err" };
const SHAPE = "standard deviations along and across";
const SHOWN = ["x", "y", "snr", "fdr", "flux", "peak", "post", "pre", "area_px", "shape", "error_px", "edge_px", "fdr_control", "fdr_control_high95"];

export class Chosen {
  // `acts.decide(decision)`, `acts.note(text)`, `acts.undo()`, `acts.redo()`, `acts.retry()`.
  constructor(app, acts) {
    this.stamps = new Stamps(app);
    this.facts = el("dl", { class: "values" });
    this.flags = el("p", { class: "flags" });
    this.buttons = DECIDE.map(([decision, title, key]) => button(title, title + " (" + key + ")", () => acts.decide(decision), { "data-decision": decision, "aria-pressed": "false" }));
    this.undo = button("↶", "Undo (z)", acts.undo, { "aria-label": "Undo" });
    this.redo = button("↷", "Do again (Shift-z)", acts.redo, { "aria-label": "Do again" });
    this.onward = el("input", { type: "checkbox", checked: true });
    this.note = el("input", { type: "text", class: "note", maxlength: 10000, placeholder: "note (m)", "aria-label": "Note", onchange: ({ target }) => acts.note(target.value), onkeydown: (event) => this.typed(event) });
    this.trouble = el("p", { role: "alert", hidden: true });
    this.retry = button("try again", "Save what is not saved", acts.retry);
    this.hint = el("p", {}, "Press n, a row of the table or a mark to look at a candidate.");
    this.element = el("section", { class: "chosen" }, this.hint, this.stamps.element,
      el("div", { class: "group", role: "group", "aria-label": "Decision" }, this.buttons, this.undo, this.redo),
      el("div", { class: "deciding" }, this.note, el("label", { title: "After a decision, show the next candidate" }, this.onward, "next after deciding")), this.trouble, this.facts, this.flags);
  }

  typed(event) {
    if (event.key === "Escape") event.target.value = this.text;
    if (event.key === "Escape" || event.key === "Enter") event.target.blur();
    event.stopPropagation();
  }

  // The candidate in a row of the list, -1 for none.
  show(list, row, review) {
    const isThere = list && row >= 0;
    const { decision, note } = isThere ? review.of(list.values.id[row]) : { decision: "", note: "" };
    const reason = !review || !review.writable ? (review && review.why) || "Nothing can be saved here." : "";
    this.hint.hidden = isThere;
    this.stamps.element.hidden = !isThere;
    const isOff = !isThere || Boolean(reason);
    for (const one of this.buttons) {
      one.setAttribute("aria-pressed", String(isThere && decision !== "" && one.dataset.decision === decision));
      one.disabled = isOff;
    }
    this.undo.disabled = Boolean(reason) || !review.done.length;
    this.redo.disabled = Boolean(reason) || !review.undone.length;
    this.note.disabled = isOff;
    this.text = note;
    if (document.activeElement !== this.note) this.note.value = note;
    this.showReview(review, reason);
    if (this.list === list && this.row === row) return;
    Object.assign(this, { list, row });
    this.measured();
  }

  showReview(review, reason) {
    const lost = review && review.problem ? "Not saved (" + review.waiting.size + "): " + review.problem : "";
    const kept = review && review.done.length && !review.sending && !review.waiting.size ? "Saved." : "";
    this.trouble.hidden = !(lost || reason || kept);
    this.trouble.className = lost ? "problem" : "soft";
    fill(this.trouble, lost || reason || kept, lost ? " " : null, lost ? this.retry : null);
  }

  measured() {
    const { list, row } = this;
    const isThere = list && row >= 0;
    this.stamps.show(isThere ? { x: list.values.x[row], y: list.values.y[row] } : null);
    const shown = isThere ? SHOWN.map((name) => [name, value(list, row, name)]).filter(([, text]) => text) : [];
    fill(this.facts, shown.map(([name, text]) => el("div", { title: name === "shape" ? SHAPE : COLUMNS[name][2] }, el("dt", {}, name === "shape" ? name : COLUMNS[name][0]), el("dd", {}, text))));
    const words = isThere && list.flags[row] ? list.flags[row].split("+") : [];
    fill(this.flags, words.map((word) => el("span", {}, el("b", {}, word), FLAGS[word] ? ": " + FLAGS[word] + ". " : " ")));
  }
}

function value(list, row, name) {
  const { values } = list;
  if (name === "shape") return values.a && values.b ? list.text(row, "a", 3) + " × " + list.text(row, "b", 3) + " px" : "";
  if (!values[name] || !list.text(row, name)) return "";
  const unit = COLUMNS[name][1] === "grey levels" ? "" : " " + COLUMNS[name][1];
  const error = WITH_ERROR[name] && values[WITH_ERROR[name]] ? values[WITH_ERROR[name]][row] : NaN;
  if (!(error > 0)) return list.text(row, name) + unit;
  const digits = Math.min(Math.max(1 - Math.floor(Math.log10(error)), 0), 3); // two of the error
  return values[name][row].toFixed(digits) + " ± " + error.toFixed(digits) + unit;
}
