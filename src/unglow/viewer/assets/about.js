// What is known about the pair: its verdict, the map, gains and the search.

import { el, fill } from "./elements.js";
import { number } from "./status.js";

export class AboutPanel {
  name = "about";
  title = "About";

  constructor(app) {
    this.app = app;
    this.element = el("div", { class: "about" });
  }

  fill() {
    const { pair } = this.app;
    fill(this.element, el("h2", {}, pair.title), pair.reasons.map((reason) => el("p", {}, reason)), pair.help ? el("p", { class: "help" }, pair.help) : null,
      facts("Image", { size: pair.shape && pair.shape[1] + " × " + pair.shape[0] + " px", "pixel size": pair.pixel_size_um && pair.pixel_size_um.map(number).join(" × ") + " µm", unglow: pair.versions.unglow }),
      facts("Registration", pair.registration), Object.entries((pair.scale && pair.scale.methods) || {}).map(([name, method]) => facts("Scale: " + name, method)), facts("Search", pair.detection));
  }
}

// What is said above already.
const SAID = ["status", "reasons", "reason"];

function isThere(value) {
  if (Array.isArray(value)) return value.some(isThere);
  if (value && typeof value === "object") return Object.values(value).some(isThere);
  return value !== null && value !== undefined && value !== "";
}

function facts(title, values) {
  const rows = Object.entries(values || {}).filter(([key, value]) => !SAID.includes(key) && isThere(value));
  return rows.length ? [el("h3", {}, title), el("table", { class: "facts" }, rows.map(([key, value]) => el("tr", {}, el("th", {}, key.replaceAll("_", " ")), el("td", {}, shown(value)))))] : null;
}

function shown(value) {
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return value.map(shown).join(" to ");
  if (value && typeof value === "object") return Object.entries(value).filter(([, part]) => isThere(part)).map(([key, part]) => key.replaceAll("_", " ") + " " + shown(part)).join(", ");
  return String(value);
}
