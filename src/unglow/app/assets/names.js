// Step 2: which images are a pair. What was recognised, and names by a pattern or by hand.

import { button, el, fill, select } from "./elements.js";
import { Step, badge, counted, keepFocus, thumbnail } from "./parts.js";
import { ask, send } from "./server.js";

const ROLES = [["", "not used"], ["pre", "pre"], ["post", "post"]];
const AT_ONCE = 200;

export class NamesStep extends Step {
  constructor(app) {
    super("names", "2", "Names");
    this.app = app;
    this.editor = null;
  }

  show(state) {
    this.note.textContent = counted(state.pairs.length, "pair") + (state.slides.length ? ", " + counted(state.slides.length, "slide") : "") + (state.sheet ? " in " + state.sheet : "");
    this.showCommands(state.commands.init);
    if (this.editor) return; // what is being written stays
    const used = new Set(state.pairs.flatMap((p) => [p.pre, p.post]));
    const rest = state.images.filter((image) => !used.has(image.id));
    fill(this.body,
      state.mistake ? el("p", { class: "bad" }, state.mistake) : null,
      state.pairs.length ? this.pairs(state.pairs) : el("p", {}, state.images.length || !state.folders.length ? "No pair was recognised yet." : "Choose the folder of the images first."),
      state.problems.length ? el("details", { open: state.problems.length < 6 }, el("summary", {}, counted(state.problems.length, "problem")), el("ul", { class: "problems" }, state.problems.map((text) => el("li", {}, text))), el("p", {}, "Correct the files and look again, or name the images here.")) : null,
      rest.length && !state.slides.length ? el("details", { open: !state.pairs.length }, el("summary", {}, counted(rest.length, "image") + " not used"), el("div", { class: "thumbs" }, rest.slice(0, AT_ONCE).map((i) => thumbnail(i.id, i.name)))) : null,
      el("div", { class: "row" },
        button("Name the images", "By a pattern, or by hand; it writes config/samples.tsv", () => this.edit(state), { disabled: Boolean(state.why_not) || !state.images.length }),
        state.sheet ? button("Use the names of the files", "Keep the sheet as samples.tsv.before", () => this.forget(), { disabled: Boolean(state.why_not) }) : null,
        button("Look into the images", "Channels and values: what `unglow survey` finds", () => this.survey())),
      (this.found = el("div")));
  }

  pairs(pairs) {
    const shown = pairs.slice(0, AT_ONCE);
    return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Pairs" }, el("table", {},
      el("thead", {}, el("tr", {}, ["sample", "dye", "pre", "post", "recognised by"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, shown.map((p) => el("tr", {}, el("td", {}, p.sample), el("td", {}, p.dye, p.control ? " (control)" : ""), el("td", {}, thumbnail(p.pre, p.names[0])), el("td", {}, thumbnail(p.post, p.names[1])), el("td", { class: "soft" }, p.rule)))),
    ), pairs.length > AT_ONCE ? el("p", { class: "soft" }, "and " + (pairs.length - AT_ONCE) + " more") : null);
  }

  async survey() {
    const report = await this.attempt(() => ask("survey.json"), "Reading samples of all images …");
    if (!report) return;
    const chosen = report.pairs.map((p) => [p.sample + " " + p.dye, p.chosen ? p.chosen.reason : "cannot be processed"]);
    const notes = [...report.files.flatMap((f) => f.notes.map((note) => [f.path.split("/").pop(), note])), ...(report.notes || []).map((n) => ["", n])];
    fill(this.found,
      el("h3", {}, "What is in the images"),
      el("dl", { class: "facts" }, [...chosen, ...notes].map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
      report.problems.length ? el("ul", { class: "problems" }, report.problems.map((p) => el("li", {}, p.message))) : el("p", { class: "good" }, "No problems."));
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
  }

  close(state) {
    this.editor = null;
    this.say("");
    if (state) this.app.take(state);
    else keepFocus(() => this.show(this.app.state));
  }
}

class Editor {
  constructor(step, state, of) {
    this.step = step;
    this.version = state.version;
    const field = (label, value, about) => {
      const input = el("input", { type: "text", value, title: about, spellcheck: "false" });
      return [input, el("label", { class: "field" }, el("span", {}, label), input)];
    };
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
      el("div", { class: "row" }, button("Write the sample sheet", "config/samples.tsv", () => this.write(), { class: "main" }), button("Clear", "Use no image", () => this.clear()), button("Cancel", null, () => step.close())));
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

  clear() {
    for (const row of this.rows) this.set(row, { role: "", sample: "", dye: "" });
    this.check();
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
