// The candidates of a pair by columns: which of them are listed, and in what order.

// Heading, unit and meaning of the columns of candidates.csv; another one is shown by its name.
export const COLUMNS = {
  id: ["id", "", "number in the list"],
  x: ["x", "px", "centre of brightness"],
  y: ["y", "px", "centre of brightness"],
  x_err: ["x error", "px", "standard error"],
  y_err: ["y error", "px", "standard error"],
  peak: ["peak", "grey levels", "brightest px of the difference"],
  flux: ["flux", "grey levels", "sum of the difference over a circle"],
  flux_err: ["flux error", "grey levels", "standard error"],
  snr: ["S/N", "", "signal-to-noise ratio at the peak"],
  area_px: ["area", "px", "px above the noise"],
  a: ["a", "px", "longer standard deviation of its shape"],
  b: ["b", "px", "shorter standard deviation of its shape"],
  theta: ["angle", "rad", "direction of its shape, from x towards y"],
  flags: ["flags", "", "what may be wrong with it"],
  pre: ["pre", "grey levels", "brightness of aligned pre there"],
  post: ["post", "grey levels", "brightness of post there"],
  fdr: ["FDR", "", "false-discovery rate of all candidates with at least this S/N"],
  fdr_control: ["FDR control", "", "false-discovery rate by unstained controls"],
  fdr_control_high95: ["FDR control 95 %", "", "upper end of the interval of the rate by controls"],
  error_px: ["map error", "px", "estimated error of the map there"],
  edge_px: ["edge", "px", "distance to the outline of the section, negative outside of it"],
  decision: ["decision", "", "decision of the review"],
};

export const FLAGS = {
  deblended: "one of several that touch",
  unsplit: "too many touch to be separated",
  extended: "on a larger structure, such as diffuse stain or a cluster",
  incomplete: "px nearby could not be used",
  saturated: "post is saturated: brighter than measured",
  misregistered: "the error of the map is larger than noise there; not counted",
  outside: "not on the section; not counted",
  beside_spoilt: "next to a spoilt place; not counted",
  sharp: "sharper than the optics: hot pixel, particle track; not counted",
  stain_or_dirt: "in a place that is dense stain or dirt",
};
const NOT_COUNTED = ["outside", "beside_spoilt", "sharp", "misregistered"];

export const DECISIONS = ["undecided", "accepted", "rejected", "unsure"];

export const ALL = { snr: null, fdr: null, flux: null, decision: "all", flags: {}, text: "" };
const LIMITS = [["snr", ">="], ["fdr", "<="], ["flux", ">="]];
const COMPARE = {
  ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, "<": (a, b) => a < b, "=": (a, b) => a === b, "!=": (a, b) => a !== b,
};

export class CandidateList {
  constructor({ columns, rows, negatives }) {
    this.length = rows.length;
    this.names = columns;
    this.values = {};
    columns.forEach((name, n) => {
      if (name !== "flags") this.values[name] = Float64Array.from(rows, (row) => row[n] ?? NaN);
    });
    const at = columns.indexOf("flags");
    this.flags = rows.map((row) => row[at] || "");
    this.words = [...new Set(this.flags)].flatMap((text) => text.split("+")).filter((word, n, all) => word && all.indexOf(word) === n);
    this.counted = Uint8Array.from(this.flags, (text) => (text.split("+").some((word) => NOT_COUNTED.includes(word)) ? 0 : 1));
    this.rows = new Map(rows.map((row, n) => [this.values.id[n], n]));
    this.decided = new Uint8Array(this.length); // place in DECISIONS
    this.negatives = [...(negatives || [])].sort((a, b) => b[2] - a[2]);
    this.sorted = { key: "", rows: null };
  }

  row(id) {
    return this.rows.get(Number(id)) ?? -1;
  }

  // What changes of a review say of a candidate.
  about(row) {
    const { id, x, y } = this.values;
    return { id: id[row], x: x[row], y: y[row] };
  }

  // Text of a cell, numbers with that many digits.
  text(row, name, digits = 5) {
    if (name === "flags") return this.flags[row].replaceAll("+", ", ");
    if (name === "decision") return this.decided[row] ? DECISIONS[this.decided[row]] : "";
    const value = this.values[name][row];
    return value === value ? String(+value.toPrecision(digits)) : "";
  }

  // Rows as CSV: all columns, the decision, and what `noteOf(row)` says; no note is a formula of a spreadsheet.
  csv(rows, noteOf) {
    const quoted = (value) => (/[",\r\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : String(value));
    const cells = (row) => [...this.names.map((name) => (name === "flags" ? this.flags[row] : this.full(row, name))), DECISIONS[this.decided[row]], noteOf(row).replace(/^(?=\s*[=+\-@])/, "'")];
    return [[...this.names, "decision", "note"], ...rows.map(cells)].map((line) => line.map(quoted).join(",") + "\n").join("");
  }

  full(row, name) {
    const value = this.values[name][row];
    return value === value ? String(value) : "";
  }

  // Rows that a filter lets through, in the order of a column; an error says what the filter lacks.
  order(filter, { by, down }) {
    const sorted = this.sortedBy(by, down);
    const passes = this.test(filter);
    return sorted.filter(passes);
  }

  sortedBy(by, down) {
    const key = by + down;
    if (this.sorted.key !== key || by === "decision") {
      const values = this.ranks(by), sign = down ? -1 : 1;
      // a cell without a value is last, whatever the direction
      const compare = (a, b) => sign * (values[a] - values[b]) || (values[a] !== values[a]) - (values[b] !== values[b]);
      this.sorted = { key, rows: Uint32Array.from({ length: this.length }, (_, row) => row).sort(compare) };
    }
    return this.sorted.rows;
  }

  ranks(by) {
    if (by === "decision") return this.decided;
    if (by !== "flags") return this.values[by];
    const rank = new Map([...new Set(this.flags)].sort().map((text, n) => [text, n]));
    return this.flags.map((text) => rank.get(text));
  }

  test({ decision, flags, text, ...limits }) {
    const conditions = [...LIMITS.filter(([name]) => limits[name] !== null).map(([name, sign]) => this.condition(name, sign, limits[name])), ...this.read(text)];
    for (const [word, wanted] of Object.entries(flags)) conditions.push(this.flagged(word, wanted));
    if (decision !== "all") conditions.push((row) => this.decided[row] === DECISIONS.indexOf(decision));
    return (row) => conditions.every((condition) => condition(row));
  }

  condition(name, sign, limit) {
    const values = this.values[name];
    return (row) => COMPARE[sign](values[row], limit);
  }

  flagged(word, wanted) {
    return (row) => this.flags[row].split("+").includes(word) === wanted;
  }

  // Conditions as they are typed, such as snr>8 flags!=saturated.
  read(text) {
    return text.split(/\s+/).filter(Boolean).map((part) => {
      const [, name, sign, what] = /^(\w+)(>=|<=|!=|=|>|<)(.+)$/.exec(part) || [];
      if (name === "flags" && /^!?=$/.test(sign)) return this.flagged(what, sign === "=");
      if (name in this.values && Number.isFinite(Number(what))) return this.condition(name, sign, Number(what));
      throw new Error("“" + part + "” is not a condition such as area_px>20 or flags!=saturated; columns are " + Object.keys(this.values).join(", ") + ".");
    });
  }
}
