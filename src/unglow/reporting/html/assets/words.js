// Numbers and outcomes in words.

const OUTCOMES = {
  ok: { word: "ok", sign: "✓", kind: "good", means: "a result without a reason to doubt it" },
  suspect: { word: "suspect", sign: "?", kind: "suspect", means: "a result with a reason to doubt it" },
  failed: { word: "failed", sign: "✕", kind: "bad", means: "no result" },
  finished: { word: "finished", sign: "•", kind: "quiet", means: "all its jobs ended; its pairs have states of their own" },
  skipped: { word: "skipped", sign: "–", kind: "quiet", means: "not started because of its input" },
  incomplete: { word: "incomplete", sign: "…", kind: "suspect", means: "a job of it failed for a technical reason" },
  waiting: { word: "waiting", sign: "·", kind: "quiet", means: "its jobs have not started" },
  running: { word: "running", sign: "▶", kind: "busy", means: "in progress" },
  memory: { word: "memory", sign: "✕", kind: "bad", means: "took more memory than was declared, or got none" },
  oom_killed: { word: "killed for memory", sign: "✕", kind: "bad", means: "killed by the kernel, which had no memory left" },
  timeout: { word: "timeout", sign: "✕", kind: "bad", means: "took longer than its limit" },
  stalled: { word: "stalled", sign: "✕", kind: "bad", means: "ended while it did nothing" },
  stall: { word: "stall", sign: "!", kind: "suspect", means: "did nothing for a while" },
  leak: { word: "memory left behind", sign: "!", kind: "suspect", means: "finished jobs left files in memory or processes" },
  node_lost: { word: "machine lost", sign: "✕", kind: "bad", means: "its machine was restarted or does not answer" },
  bad_input: { word: "bad input", sign: "✕", kind: "bad", means: "a file cannot be used" },
  error: { word: "error", sign: "✕", kind: "bad", means: "a fault of the program" },
  killed: { word: "killed", sign: "✕", kind: "bad", means: "ended from outside" },
  interrupted: { word: "interrupted", sign: "✕", kind: "bad", means: "ended by Ctrl-C" },
  superseded: { word: "superseded", sign: "–", kind: "quiet", means: "left everything to a later attempt at the same job" },
  not_started: { word: "not started", sign: "✕", kind: "bad", means: "Snakemake could not start it" },
  run_killed: { word: "Snakemake killed", sign: "✕", kind: "bad", means: "Snakemake itself was killed" },
  "": { word: "not recorded", sign: "•", kind: "quiet", means: "Snakemake left no record of this run" },
};

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

function when(wall) {
  const two = (n) => String(n).padStart(2, "0");
  const d = new Date(1000 * wall);
  const day = [d.getFullYear(), two(d.getMonth() + 1), two(d.getDate())].join("-");
  return day + " " + [two(d.getHours()), two(d.getMinutes()), two(d.getSeconds())].join(":");
}

const counted = (n, one, many) => n + " " + (n === 1 ? one : many || one + "s");
