// Step 6: settings of the science, as a form of the schema.

import { button, el, fill, keepFocus, select } from "./elements.js";
import { Step, counted } from "./parts.js";
import { ask, send } from "./server.js";

const TITLES = { "": "General", plane: "Planes of stacks", register: "Registration", scale: "Gain", detect: "Candidates", multiplexed: "Slides", exports: "Exports" };
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const sectionOf = (key) => (key.name.includes(".") ? key.name.split(".")[0] : "");

export class SettingsStep extends Step {
  constructor(app) {
    super("settings", "6", "Settings");
    this.app = app;
    this.fields = [];
    this.hint = el("div");
  }

  // Once there are results: that spots have another width than the one that was searched.
  advise(pairs) {
    if (this.folded && pairs.some((p) => ["ok", "suspect"].includes(p.status)) && !this.advised) this.folded.open = this.advised = true;
    const pair = pairs.find((p) => (p.details || []).some(({ key }) => key === "spot_width"));
    const field = this.fields.find((f) => f.key.name === "detect.fwhm_px");
    if (!pair || !field) return fill(this.hint);
    const width = Number(Number(pair.spot_width_px).toPrecision(2));
    const use = button("Use " + width, "Search spots of this width", () => { field.set(width); this.mark(); }, { disabled: field.value() === width });
    return fill(this.hint, el("p", { class: "row" }, "Spots are about " + width + " px wide, but " + pair.searched_width_px + " px were searched.", use));
  }

  get changed() {
    return this.fields.filter((f) => f.wrong || !same(f.value(), f.key.value));
  }

  async load() {
    const form = await this.attempt(() => ask("settings.json"));
    if (form) this.take(form);
  }

  // What others changed; fields that somebody may be writing into stay, unless they differ.
  async follow() {
    const form = await ask("settings.json").catch(() => null);
    if (form && same(form.keys, this.fields.map((f) => f.key))) this.version = form.version;
    else if (form && !this.changed.length) keepFocus(() => this.take(form));
  }

  take(form) {
    this.version = form.version;
    this.fields = form.keys.map((key) => new Field(key, () => this.mark()));
    const rest = this.fields.filter((f) => !f.key.first);
    const sections = [...new Set(rest.map((f) => sectionOf(f.key)))];
    this.save = button("Save", "Write config/config.yaml", () => this.write(), { class: "main" });
    this.cancel = button("Discard", null, () => this.load());
    const isOpen = Boolean(this.folded && this.folded.open);
    const first = this.fields.filter((f) => f.key.first);
    fill(this.body, this.hint, (this.folded = el("details", { open: isOpen }, el("summary", {}, first.slice(0, 2).map((f) => f.key.title + ": " + f.key.value).join(", ") + " – change"),
      el("p", { class: "soft" }, "The first run needs no change. What you change is computed again by the next run."),
      el("div", { class: "form" }, first.map((f) => f.made)),
      el("details", { class: "more" }, el("summary", {}, "All other settings (" + rest.length + ")"),
        sections.map((name) => [el("h3", {}, TITLES[name] || name), el("div", { class: "form" }, rest.filter((f) => sectionOf(f.key) === name).map((f) => f.made))])),
      el("div", { class: "row" }, this.save, this.cancel))));
    this.mark();
  }

  mark() {
    const n = this.changed.length;
    const set = this.fields.filter((f) => f.key.set && !same(f.key.value, f.key.default)).length;
    this.note.textContent = n ? counted(n, "change") + " not saved" : set ? counted(set, "setting") + " changed from the default" : "all defaults";
    this.save.disabled = !n || Boolean(this.app.state.why_not);
    this.cancel.disabled = !n;
  }

  async write() {
    const wrong = this.fields.find((f) => f.wrong);
    if (wrong) return this.say(wrong.key.name + ": " + wrong.wrong, "bad");
    const put = {};
    const reset = [];
    for (const f of this.changed) {
      if (same(f.value(), f.key.default)) reset.push(f.key.name);
      else put[f.key.name] = f.value();
    }
    const form = await this.attempt(() => send("settings", { version: this.version, put, reset }), "Writing …");
    if (form) {
      this.take(form);
      this.say("Saved in config/config.yaml.", "good");
      this.app.load();
    }
    return undefined;
  }

  show(state) {
    const text = this.fields.filter((f) => f.key.set).map((f) => f.key.name);
    this.showCommands(state.commands.run + " --config " + (text.length ? "'" + nested(this.fields) + "'" : "'detect={fdr: 0.1}'"));
    if (this.version && this.version !== state.version) this.follow();
  }
}

function nested(fields) {
  const f = fields.find((one) => one.key.set);
  const [section, key] = f.key.name.includes(".") ? f.key.name.split(".") : ["", f.key.name];
  const value = JSON.stringify(f.key.value);
  return section ? section + "={" + key + ": " + value + "}" : key + "=" + value;
}

class Field {
  constructor(key, change) {
    this.key = key;
    this.wrong = "";
    const id = "key-" + key.name;
    const shownDefault = key.default === null ? "none" : Array.isArray(key.default) ? key.default.join(", ") || "none" : String(key.default);
    const control = this.control(id, change);
    this.made = el("div", { class: "setting" + (key.set ? " set" : "") },
      el("label", { for: id }, key.title ? [key.title, " "] : null, el("code", {}, key.name)), control,
      el("p", { class: "soft" }, key.about, " Default: " + shownDefault + "."));
  }

  control(id, change) {
    const { key } = this;
    const list = key.types.includes("array");
    if (list && key.items && key.items.enum && !key.types.includes("string")) {
      const boxes = key.items.enum.map((name) => el("input", { type: "checkbox", value: name, checked: (key.value || []).includes(name), onchange: change }));
      this.value = () => {
        const now = boxes.filter((b) => b.checked).map((b) => b.value);
        const kept = (key.value || []).filter((name) => now.includes(name));
        return [...kept, ...now.filter((name) => !kept.includes(name))];
      };
      return el("span", { class: "boxes", id, role: "group", "aria-label": key.name }, boxes.map((box) => el("label", {}, box, " " + box.value)));
    }
    if (key.enum) {
      const options = key.enum.map((value) => [JSON.stringify(value), value === null ? "(the default)" : String(value)]);
      const made = select(key.name, options, JSON.stringify(key.value), change);
      made.id = id;
      this.value = () => JSON.parse(made.value);
      return made;
    }
    if (key.types.includes("boolean")) {
      const box = el("input", { type: "checkbox", id, checked: key.value, onchange: change });
      this.value = () => box.checked;
      return box;
    }
    const text = key.value === null ? "" : Array.isArray(key.value) ? key.value.join(", ") : String(key.value);
    const input = el("input", { type: "text", id, value: text, spellcheck: "false", inputmode: key.types.some((t) => t === "number" || t === "integer") ? "decimal" : null, oninput: change });
    this.value = () => this.read(input.value.trim());
    this.set = (value) => (input.value = String(value));
    return input;
  }

  // What was written, as one of the types of the key.
  read(text) {
    const { types } = this.key;
    this.wrong = "";
    if (text === "" && types.includes("null")) return null;
    if (types.includes("array")) {
      const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
      return types.includes("string") && parts.length === 1 && parts[0] === "all" ? "all" : parts;
    }
    const number = Number(text.replace(",", "."));
    if ((types.includes("number") || types.includes("integer")) && text !== "" && Number.isFinite(number)) return number;
    if (types.includes("string")) return text;
    this.wrong = "this has to be a number.";
    return this.key.value;
  }
}
