// Parts of the page: sections, badges, folded parts, tables.

// Names of pairs and their variants, the outermost directory first.
const LEVELS = ["sample", "dye", "ingestion", "registration", "subtraction", "detection"];

// Builds a part of the page; if that fails, a sentence in its place, so that the others are shown.
function contained(what, build) {
  try {
    return build();
  } catch (error) {
    console.error(error);
    return el("p", { class: "message" }, what + " cannot be shown (" + error + ").");
  }
}

function section(id, title, note) {
  const body = el("div", { class: "body" });
  const heading = el("h2", {}, title);
  const noted = el("span", { class: "note" }, note || "");
  const made = el("section", { id, "aria-label": title }, el("header", {}, heading, noted), body);
  return { made, body, note: noted };
}

function commandLine(text, what) {
  return el("div", { class: "command" }, el("code", {}, text), copyButton(text, "Copy " + (what || "the command")));
}

function badge(outcome, count) {
  const { word, sign, kind, means } = OUTCOMES[outcome] || { word: outcome, sign: "•", kind: "bad" };
  return el("span", { class: "badge " + kind, title: means || null }, el("span", { "aria-hidden": "true" }, sign), " ", isKnown(count) ? count + " " : null, word);
}

// What a reader opened or sorted, kept when it is drawn again.
const remembered = new Map();

// A part that is only built once it is opened.
function folded(title, build, options) {
  const settings = Object.assign({ key: title, open: false }, options);
  const key = "open " + settings.key;
  const part = el("details", { open: remembered.has(key) ? remembered.get(key) : settings.open }, el("summary", {}, title));
  let built = false;
  const make = () => {
    if (part.open && !built) add(part, [build()]);
    built = built || part.open;
  };
  part.addEventListener("toggle", () => {
    remembered.set(key, part.open);
    make();
  });
  make();
  return part;
}

// A table whose columns can be sorted. Columns are {name, title, of(row), show(row), number, cls(row)};
// the cells of a `stacked` one are below each other on narrow screens.
function table(columns, rows, options) {
  const settings = Object.assign({ key: "", onrow: null, stacked: false }, options);
  const body = el("tbody");
  let { sort, down } = remembered.get("sort " + settings.key) || { sort: null, down: false };
  const heads = columns.map((column, n) => {
    const sortBy = () => {
      down = sort === n ? !down : Boolean(column.number);
      sort = n;
      if (settings.key) remembered.set("sort " + settings.key, { sort, down });
      draw();
    };
    return el("th", { scope: "col", class: column.number ? "number" : null }, button(column.name, column.title, sortBy));
  });
  function draw() {
    const ordered = sort === null ? rows : sorted(rows, columns[sort].of, down);
    heads.forEach((head, n) => {
      if (n === sort) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill(body, ordered.map(line));
  }
  function line(row) {
    const cells = columns.map((column, n) => {
      const shown = column.show ? column.show(row) : column.of(row);
      const kind = [column.number ? "number" : "", column.cls ? column.cls(row) : ""].join(" ").trim();
      const attributes = n === 0 ? { scope: "row", class: kind || null } : { class: kind || null, "data-column": column.name };
      return el(n === 0 ? "th" : "td", attributes, shown === null || shown === undefined ? "–" : shown);
    });
    const made = el("tr", {}, cells);
    if (settings.onrow) {
      made.classList.add("link");
      made.tabIndex = 0;
      made.addEventListener("click", () => settings.onrow(row));
      made.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && event.target === made) settings.onrow(row);
      });
    }
    return made;
  }
  draw();
  return el("div", { class: settings.stacked ? "scroll stacked" : "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
}

function sorted(rows, of, down) {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (!isKnown(x) || !isKnown(y)) return isKnown(y) - isKnown(x);
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
  });
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => isKnown(value));
  return el("dl", { class: "facts" }, known.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
