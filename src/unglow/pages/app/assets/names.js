// Step 2: which images are a pair. What was recognised, and names by a pattern or by hand.

import { badge, button, el, fill, keepFocus, select } from "./elements.js";
import { Step, counted, notesOf, thumbnail } from "./parts.js";
import { send } from "./server.js";

const ROLES = [["", "not used"], ["pre", "pre"], ["post", "post"]];
const AT_ONCE = 200;

export class NamesStep extends Step {
  constructor(app) {
    super("names", "2", "Names");
    this.app = app;
    this.editor = null;
    this.chosen = [];
    this.together = el("div", { role: "status" });
  }

  show(state) {
    this.note.textContent = counted(state.pairs.length, "pair") + (state.slides.length ? ", " + counted(state.slides.length, "slide") : "") + (state.sheet ? " in " + state.sheet : "");
    this.showCommands(state.commands.init);
    if (this.editor) return; // what is being written stays
    const used = new Set(state.pairs.flatMap((p) => [p.pre, p.post]));
    const rest = state.images.filter((image) => !used.has(image.id));
    Object.assign(this, { chosen: [], choices: new Map() });
    fill(this.together);
    fill(this.body,
      state.mistake ? el("p", { class: "bad" }, state.mistake) : null,
      state.pairs.length ? this.pairs(state.pairs) : el("p", {}, state.images.length || !state.folders.length ? "No pair was recognised yet." : "Choose the folder of the images first."),
      state.problems.length ? [el("h3", {}, counted(state.problems.length, "problem")), notesOf(state.problems), el("p", {}, "Correct the files and look again, or name the images here.")] : null,
      rest.length && !state.slides.length ? [el("h3", {}, counted(rest.length, "image") + " not used"), el("p", { class: "soft" }, "Click two that are a pair: first the one before staining."), el("div", { class: "thumbs" }, rest.slice(0, AT_ONCE).map((image) => this.choice(image))), this.together] : null,
      el("div", { class: "row" },
        button("Name the images", "By a pattern, or by hand; it writes config/samples.tsv", () => this.edit(state), { disabled: Boolean(state.why_not) || !state.images.length }),
        state.sheet ? button("Forget the sheet", "Keep the sheet as samples.tsv.before", () => this.forget(), { disabled: Boolean(state.why_not) }) : null));
  }

  pairs(pairs) {
    const shown = pairs.slice(0, AT_ONCE);
    return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Pairs" }, el("table", {},
      el("thead", {}, el("tr", {}, ["sample", "dye", "pre", "post"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, shown.map((p) => el("tr", {}, el("td", {}, p.sample), el("td", {}, p.dye, p.control ? " (control)" : ""), el("td", {}, thumbnail(p.pre, p.names[0])), el("td", {}, thumbnail(p.post, p.names[1]))))),
    ), pairs.length > AT_ONCE ? el("p", { class: "soft" }, "and " + (pairs.length - AT_ONCE) + " more") : null);
  }

  // An image that is clicked, and the other one of its pair.
  choice(image) {
    const made = button(thumbnail(image.id, image.name), "Is one of a pair", () => {
      const isIn = this.chosen.includes(image);
      this.chosen = isIn ? this.chosen.filter((other) => other !== image) : [...this.chosen, image].slice(-2);
      for (const [other, choice] of this.choices) choice.setAttribute("aria-pressed", String(this.chosen.includes(other)));
      this.pair();
    }, { "aria-pressed": "false" });
    this.choices.set(image, made);
    return made;
  }

  pair() {
    const [first, second] = this.chosen;
    if (!second) return fill(this.together);
    const guess = (key) => (first[key] && second[key] && first[key] !== second[key] ? "" : first[key] || second[key]);
    const [[sample, sampleField], [dye, dyeField]] = [field("Sample", guess("sample")), field("Dye", guess("dye"))];
    const [pre, post] = first.role === "post" || second.role === "pre" ? [second, first] : [first, second];
    return fill(this.together, el("p", {}, "Before staining: ", el("b", {}, pre.name), ". After: ", el("b", {}, post.name), "."),
      el("form", { class: "pattern", onsubmit: (event) => { event.preventDefault(); this.add(pre, post, sample.value, dye.value); } },
        sampleField, dyeField, el("button", { type: "submit", class: "main" }, "These two are a pair")));
  }

  // The pair goes into the sample sheet, with those that were recognised.
  async add(pre, post, sample, dye) {
    const { version, pairs } = this.app.state;
    const rows = [...pairs, { pre: pre.id, post: post.id, sample, dye }].flatMap((p) => ["pre", "post"].map((role) => ({ id: p[role], role, sample: p.sample, dye: p.dye })));
    const state = await this.attempt(() => send("sheet", { version, rows }), "Writing …");
    if (state) this.app.take(state);
  }

  async forget() {
    const state = await this.attempt(() => send("names", { version: this.app.state.version }));
    if (state) this.app.take(state);
  }

  edit(state) {
    const of = new Map(state.pairs.flatMap((p) => [[p.pre, { ...p, role: "pre" }], [p.post, { ...p, role: "post" }]]));
    this.editor = new Editor(this, state, of);
    fill(this.body, this.editor.made);
    this.editor.pattern.focus();
    this.editor.pattern.select(); // what is typed replaces the example
  }

  close(state) {
    this.editor = null;
    this.say("");
    if (state) this.app.take(state);
    else keepFocus(() => this.show(this.app.state));
  }
}

function field(label, value, about) {
  const input = el("input", { type: "text", value, title: about, spellcheck: "false" });
  return [input, el("label", { class: "field" }, el("span", {}, label), input)];
}

class Editor {
  constructor(step, state, of) {
    this.step = step;
    this.version = state.version;
    const [pattern, patternField] = field("Pattern", "{sample}/*{prepost}_{dye}", "The path of an image in the folder, without its ending");
    const [pre, preField] = field("Words for pre", "pre, before", "separated by commas");
    const [post, postField] = field("Words for post", "post, after", "separated by commas");
    const [sample, sampleField] = field("Sample, if not in the names", "", "");
    const [dye, dyeField] = field("Dye, if not in the names", "", "");
    pattern.classList.add("wide");
    Object.assign(this, { pattern, pre, post, sample, dye });
    this.preview = el("div", { role: "status" });
    this.rows = state.images.map((image) => this.row(image, of.get(image.id) || image)); // a pair's, or what its name says
    this.made = el("div", {},
      el("form", { class: "pattern", onsubmit: (event) => { event.preventDefault(); this.read(); } },
        patternField, preField, postField, sampleField, dyeField, el("button", { type: "submit" }, "Read the names")),
      el("p", { class: "soft" }, "{sample}, {dye} and {prepost} stand for parts of the path, * for any letters. A pattern changes only the images that it fits; use several, or correct by hand."),
      el("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Images" }, el("table", {}, el("thead", {}, el("tr", {}, ["image", "is", "sample", "dye"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, this.rows.map((r) => r.made)))),
      this.preview,
      el("div", { class: "row" }, button("Write the sample sheet", "config/samples.tsv", () => this.write(), { class: "main" }), button("Back", null, () => step.close())));
    this.check();
  }

  row(image, known) {
    const row = { id: image.id };
    const changed = () => this.soon();
    row.role = select("What " + image.name + " is", ROLES, known.role, changed);
    row.sample = el("input", { type: "text", value: known.sample, "aria-label": "Sample of " + image.name, oninput: changed });
    row.dye = el("input", { type: "text", value: known.dye, "aria-label": "Dye of " + image.name, oninput: changed });
    row.made = el("tr", {}, el("td", {}, thumbnail(image.id, image.name)), el("td", {}, row.role), el("td", {}, row.sample), el("td", {}, row.dye));
    return row;
  }

  async read() {
    const content = { pattern: this.pattern.value, pre: this.pre.value, post: this.post.value, sample: this.sample.value, dye: this.dye.value };
    const found = await this.step.attempt(() => send("pattern", content));
    if (!found) return;
    const by = new Map(found.map((f) => [f.id, f]));
    for (const row of this.rows) {
      if (by.has(row.id)) this.set(row, by.get(row.id));
    }
    if (found.length) this.step.say("The pattern fits " + found.length + " of " + counted(this.rows.length, "image") + ".", "good");
    else this.step.say("The pattern fits no image: compare it with the names below.", "bad");
    this.check();
  }

  set(row, { role, sample, dye }) {
    row.role.value = role;
    row.sample.value = sample;
    row.dye.value = dye;
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), 400);
  }

  get content() {
    const named = this.rows.filter((r) => r.role.value);
    return { version: this.version, rows: named.map((r) => ({ id: r.id, role: r.role.value, sample: r.sample.value, dye: r.dye.value })) };
  }

  async check() {
    const { pairs, problems } = await send("pairs", this.content).catch((error) => ({ pairs: [], problems: [error.message] }));
    fill(this.preview,
      el("p", {}, pairs.length ? badge("ok") : null, " These names make " + counted(pairs.length, "pair") + (pairs.length ? ": " + pairs.slice(0, 8).map((p) => p.sample + " " + p.dye).join(", ") + (pairs.length > 8 ? ", …" : "") : "") + "."),
      problems.length ? el("ul", { class: "problems" }, problems.slice(0, 20).map((text) => el("li", {}, text))) : null);
  }

  async write() {
    const state = await this.step.attempt(() => send("sheet", this.content), "Writing …");
    if (state) this.step.close(state);
  }
}
