// Numbers and outcomes in words.

const OUTCOMES = {
  ok: { word: "ok", sign: "✓", kind: "good", means: "ended well" },
  suspect: { word: "suspect", sign: "?", kind: "doubt", means: "there is a result, and a reason to doubt it" },
  failed: { word: "failed", sign: "✕", kind: "bad", means: "refused, or not all jobs ended well" },
  incomplete: { word: "incomplete", sign: "…", kind: "doubt", means: "a fault of machine or program has stopped one of its jobs" },
  waiting: { word: "waiting", sign: "·", kind: "quiet", means: "jobs of it are to come" },
  running: { word: "running", sign: "▶", kind: "busy", means: "goes on" },
  memory: { word: "memory", sign: "✕", kind: "bad", means: "took more memory than was declared, or got none" },
  oom_killed: { word: "killed for memory", sign: "✕", kind: "bad", means: "killed by the kernel, which had no memory left" },
  timeout: { word: "timeout", sign: "✕", kind: "bad", means: "took longer than its limit" },
  stalled: { word: "stalled", sign: "✕", kind: "bad", means: "ended while it did nothing" },
  stall: { word: "stall", sign: "!", kind: "doubt", means: "did nothing for a while" },
  node_lost: { word: "machine lost", sign: "✕", kind: "bad", means: "its machine was started anew or does not answer" },
  bad_input: { word: "bad input", sign: "✕", kind: "bad", means: "a file cannot be used" },
  error: { word: "error", sign: "✕", kind: "bad", means: "a fault of the program" },
  killed: { word: "killed", sign: "✕", kind: "bad", means: "ended from outside" },
  interrupted: { word: "interrupted", sign: "✕", kind: "bad", means: "ended by Ctrl-C" },
  superseded: { word: "superseded", sign: "–", kind: "quiet", means: "left everything to a later attempt at the same job" },
  not_started: { word: "not started", sign: "✕", kind: "bad", means: "Snakemake could not start it" },
  run_killed: { word: "Snakemake killed", sign: "✕", kind: "bad", means: "Snakemake itself was killed" },
  "": { word: "not recorded", sign: "•", kind: "quiet", means: "Snakemake left no record of this run" },
};

const word = (outcome) => (OUTCOMES[outcome] || { word: outcome }).word;
const went = (outcome) => outcome === "ok" || outcome === "running";

function seconds(s) {
  if (s === null || s === undefined || !isFinite(s)) return null;
  if (s < 0.0995) return (1000 * s).toFixed(0) + " ms";
  if (s < 9.95) return s.toFixed(1) + " s";
  if (s < 99.5) return s.toFixed(0) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.round(s % 60).toString().padStart(2, "0") + " s";
  const minutes = Math.round(s / 60);
  if (minutes < 2880) return Math.floor(minutes / 60) + " h " + (minutes % 60).toString().padStart(2, "0") + " min";
  return (s / 86400).toFixed(1) + " days";
}

function mb(amount) {
  if (amount === null || amount === undefined || !isFinite(amount)) return null;
  if (amount >= 9999.5) return (amount / 1000).toFixed(1) + " GB";
  return (amount >= 10 ? amount.toFixed(0) : amount.toFixed(1)) + " MB";
}

const bytes = (count) => (count === null || count === undefined ? null : mb(count / 1e6));
const percent = (share) => (share === null || share === undefined || !isFinite(share) ? null : Math.round(100 * share) + " %");

function digits(value, most) {
  if (value === null || value === undefined || value === "") return null;
  const number = Number(value);
  if (!isFinite(number)) return String(value);
  return String(Number(number.toPrecision(most || 4)));
}

function when(wall) {
  const two = (n) => String(n).padStart(2, "0");
  const d = new Date(1000 * wall);
  const day = [d.getFullYear(), two(d.getMonth() + 1), two(d.getDate())].join("-");
  return day + " " + [two(d.getHours()), two(d.getMinutes()), two(d.getSeconds())].join(":");
}

const counted = (n, one, many) => n + " " + (n === 1 ? one : many || one + "s");
