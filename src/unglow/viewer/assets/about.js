// Facts about the pair: its state, map, gains and search.

import { el, fill, isKnown } from "./elements.js";
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
      facts("Registration", pair.registration), Object.entries((pair.scale && pair.scale.methods) || {}).map(([name, method]) => facts("Scale: " + name, method)), pair.is_slide ? null : facts("Search", pair.detection), Object.entries(pair.facts || {}).map(([name, values]) => facts(name, values)));
  }
}

// Keys that are shown above, or mean nothing to people.
const HIDDEN = ["status", "reasons", "reason", "version", "path", "sha256", "largest", "widths", "below_share"];
// Significant digits where three say too little: a scale is near 1.
const DIGITS = { scale: 6 };

function isThere([key, value]) {
  if (HIDDEN.includes(key)) return false;
  if (value && typeof value === "object") return Object.entries(value).some(isThere);
  return isKnown(value);
}

function facts(title, values) {
  const rows = Object.entries(values || {}).filter(isThere);
  return rows.length ? [el("h3", {}, title), el("table", { class: "facts" }, rows.map(([key, value]) => el("tr", {}, el("th", {}, worded(key)), el("td", {}, shown(key, value)))))] : null;
}

function worded(key) {
  return key.replaceAll("_", " ");
}

function shown(key, value) {
  if (typeof value === "number") return rounded(key, value);
  if (Array.isArray(value)) return list(key, value.map((part) => (part === null ? "?" : shown(key, part))));
  if (value && typeof value === "object") return Object.entries(value).filter(isThere).map(([part, of]) => worded(part) + " " + shown(part, of)).join(", ");
  return String(value);
}

// Two ends of an interval, a size (stored as rows and columns), a vector, or any other list.
function list(key, parts) {
  if (key.includes("_ci95")) return parts.join(" to ");
  if (key === "grid") return parts.toReversed().join(" × ");
  return key.endsWith("_px") ? "(" + parts.join(", ") + ")" : parts.join(", ");
}

function rounded(key, value) {
  if (Number.isInteger(value)) return String(value);
  if (key.endsWith("_px") && Math.abs(value) >= 1) return String(+value.toFixed(2));
  return number(+value.toPrecision(DIGITS[key] || 3));
}
