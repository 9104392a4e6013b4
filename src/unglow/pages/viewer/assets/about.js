// Facts about the pair in words: its state, map, gains and search. Files have all numbers; here are those that people judge by.

import { button, el, fill, isKnown, outdatedOf, reasonsOf } from "./elements.js";
import { interval, number, percent } from "./status.js";

export class AboutPanel {
  name = "about";
  title = "About";

  constructor(app) {
    this.app = app;
    this.element = el("div", { class: "about" });
  }

  // A button that leads to a place of post.
  place([x, y]) {
    return button("show me", "Go there", () => (this.app.shown ? this.app.go({ x, y, zoom: 1 }) : this.app.address.set({ x, y, zoom: 1 })));
  }

  fill() {
    const { pair } = this.app;
    const methods = Object.entries((pair.scale && pair.scale.methods) || {}).sort(([a], [b]) => (b === pair.scale.default) - (a === pair.scale.default));
    fill(this.element, el("h2", {}, pair.title), outdatedOf(pair), reasonsOf(pair.reasons.join(" "), pair.details, (at) => this.place(at)), pair.help ? el("p", { class: "help" }, pair.help) : null,
      facts("Image", IMAGE, pair), facts("Registration of pre", REGISTRATION, pair.registration),
      methods.map(([name, method]) => facts("Gain, " + name + (name === pair.scale.default ? " (used)" : ""), GAIN, method)),
      pair.is_slide ? null : facts("Search for candidates", SEARCH, pair.detection),
      Object.entries(pair.facts || {}).map(([name, values]) => facts(name, OF_SLIDE, values)));
  }
}

// Each row: what people call it, and its text, or nothing where it is not known.
const IMAGE = [
  ["Size", ({ shape }) => shape && shape[1] + " × " + shape[0] + " px"],
  ["Pixel size", ({ pixel_size_um: size }) => size && size.map(number).join(" × ") + " µm"],
  ["Made by", ({ versions }) => "unglow " + versions.unglow],
];
const REGISTRATION = [
  ["Map", ({ model }) => model],
  ["Error of the map", ({ error_px: error }) => medianOf(error)],
  ["Residuals of blocks", ({ residual_px: residual }) => medianOf(residual)],
  ["Post to pre and pre to post differ by", ({ forward_backward_px: both }) => medianOf(both)],
  ["Blocks that agree", ({ inliers, blocks }) => blocks && inliers + " of " + blocks],
  ["Overlap of the images", ({ overlap }) => percent(overlap)],
  ["Rotation", ({ rotation_deg: degrees }) => rounded(degrees, 3, "°")],
  ["Magnification", ({ scale }) => rounded(scale, 6, "")],
  ["Shift in x and y", ({ shift_px: shift }) => shift && shift.every(isKnown) && vector(shift)],
  ["Displacement field", ({ displacement: field }) => field && "up to " + rounded(field.max_px, 3, " px") + ", a node every " + field.spacing_px + " px"],
  ["Scanner strips", ({ displacement: field }) => field && field.strips && "corrected"],
  ["Map taken from", ({ from }) => from],
  ["Landmarks", ({ landmarks: marks }) => marks && marks.count + ", missed by " + rounded(marks.median_px, 2, " px") + " (median), at most " + rounded(marks.max_px, 2, " px")],
  ["Remaining shift in x and y", ({ residual_shift: left }) => left && isKnown(left.x_px) && vector([left.x_px, left.y_px]) + " ± " + rounded(left.error_px, 2, " px")],
];
const GAIN = [
  ["Gain (95 % interval)", ({ gain, gain_ci95: ends }) => rounded(gain, 4, "") + interval(ends, 4)],
  ["Offset (95 % interval)", ({ offset, offset_ci95: ends }) => isKnown(offset) && ends && rounded(offset, 3, "") + interval(ends, 3) + " grey levels"],
  ["Offset (not fitted)", ({ offset, offset_ci95: ends }) => isKnown(offset) && !ends && rounded(offset, 3, "") + " grey levels"],
  ["Not found", ({ reason }) => reason],
];
const SEARCH = [
  ["Candidates", ({ candidates, not_counted: apart }) => isKnown(candidates) && candidates + (apart ? ", and " + apart + " not counted" : "")],
  ["Threshold (S/N)", ({ threshold_snr: least }) => rounded(least, 3, "")],
  ["False-discovery rate (95 % interval)", ({ fdr, fdr_ci95: ends }) => rounded(fdr, 2, "") + interval(ends, 2)],
  ["The same by controls", ({ fdr_control: rate, fdr_control_ci95: ends }) => rounded(rate, 2, "") + interval(ends, 2)],
  ["Density (95 % interval)", ({ density_per_mm2: density, density_ci95_per_mm2: ends }) => isKnown(density) && rounded(density, 3, "") + interval(ends, 3) + " per mm²"],
  ["Width of the spots (searched)", ({ spot_width_px: width, settings }) => isKnown(width) && rounded(width, 2, " px") + " (" + settings.fwhm_px + " px)"],
  ["Area searched", ({ area_mm2: area }) => rounded(area, 3, " mm²")],
  ["Spoilt share of the section", ({ spoilt }) => spoilt && percent(spoilt.share)],
  ["Unstained control", ({ is_control: isControl }) => isControl && "yes"],
  ["Not searched", ({ reason }) => reason],
];
const OF_SLIDE = [
  ["State", ({ state }) => state],
  ["Reason", ({ why }) => why],
  ...REGISTRATION,
  ["Spoilt share of the section", ({ spoilt_share: share }) => percent(share)],
  ["Background", ({ background }) => background],
  ...GAIN,
  ["Gain expected from exposure times", ({ expected_gain: gain }) => rounded(gain, 4, "")],
];

function facts(title, rows, values) {
  const known = values ? rows.map(([name, text]) => [name, text(values)]).filter(([, text]) => isKnown(text) && text !== false) : [];
  return known.length ? [el("h3", {}, title), el("table", { class: "facts" }, known.map(([name, text]) => el("tr", {}, el("th", {}, name), el("td", {}, text))))] : null;
}

function rounded(value, digits, unit) {
  return typeof value === "number" ? +value.toPrecision(digits) + unit : "";
}

function vector(parts) {
  return "(" + parts.map((part) => +part.toFixed(2)).join(", ") + ") px";
}

function medianOf(quantiles) {
  if (!quantiles || !isKnown(quantiles.median)) return "";
  return "median " + rounded(quantiles.median, 2, " px") + (isKnown(quantiles.p95) ? ", 95\u00a0% below " + rounded(quantiles.p95, 2, " px") : "");
}
