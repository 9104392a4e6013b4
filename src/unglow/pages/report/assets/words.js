// Numbers and outcomes in words.

// States of pairs, the worst first.
const PAIR_ORDER = ["failed", "skipped", "incomplete", "running", "suspect", "ok", "waiting"];

const word = (outcome) => (OUTCOMES[outcome] || { word: outcome }).word;
// A run that has ended well may have failed pairs.
const endOf = (run) => (run.outcome === "ok" ? "finished" : run.outcome);
const went = (outcome) => outcome === "ok" || outcome === "running";

// Numbers as unglow.core.rounding writes them: a test compares both.

function seconds(s) {
  if (!isKnown(s) || !isFinite(s)) return null;
  if (s < 0.0995) return (1000 * s).toFixed(0) + " ms";
  if (s < 9.95) return s.toFixed(1) + " s";
  const rounded = Math.round(s);
  if (rounded < 60) return rounded + " s";
  if (rounded < 3600) return Math.floor(rounded / 60) + " min " + String(rounded % 60).padStart(2, "0") + " s";
  const minutes = Math.round(s / 60);
  return Math.floor(minutes / 60) + " h " + String(minutes % 60).padStart(2, "0") + " min";
}

function mb(amount) {
  if (!isKnown(amount) || !isFinite(amount)) return null;
  if (amount < 0.05) return "0 MB";
  if (amount >= 9999.5) return (amount / 1000).toFixed(1) + " GB";
  return (amount >= 9.95 ? amount.toFixed(0) : amount.toFixed(1)) + " MB";
}

const bytes = (count) => (isKnown(count) ? mb(count / 1e6) : null);

// The decimals of a number with `count` significant digits.
const decimalsOf = (value, count) => Math.max(0, count - 1 - Number(value.toExponential(count - 1).split("e")[1]));

// Two digits of a share, or of its distance to 1.
function percent(share) {
  if (!isKnown(share) || !isFinite(share)) return null;
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share > 0.999 && share < 1) return "> 99.9 %";
  if (share <= 0 || share >= 1) return Number((100 * share).toFixed(0)) + " %";
  const places = Math.max(2, decimalsOf(share > 0.5 ? 1 - share : share, 2));
  return digits(100 * Number(share.toFixed(places)), 6) + " %";
}

// A number of unknown error. Digits before the point are never rounded.
function digits(value, count) {
  if (!isKnown(value)) return null;
  const number = Number(value);
  if (!isFinite(number)) return String(value);
  return number === 0 ? "0" : String(Number(number.toFixed(decimalsOf(number, count || 3))));
}

const when = (wall) => new Date(1000 * wall).toLocaleString("sv"); // Swedes write 2026-11-29 14:05:09

const counted = (n, one, many) => n + " " + (n === 1 ? one : many || one + "s");
