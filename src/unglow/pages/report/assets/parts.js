// Parts of the page: sections, badges, folded parts, tables.

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

function kindOf(column, row) {
  return [column.number ? "number" : "", column.minor ? "minor" : "", row && column.cls ? column.cls(row) : ""].join(" ").trim() || null;
}

// A table whose columns can be sorted. Columns are {name, title, unit, of(row), show(row), number,
// minor, cls(row)}: those that are minor are left out where there is little space;
// `onrow(row)` is called for a row that is chosen, `detail(row)` is shown below it, for rows with `nameOf`.
function table(columns, rows, options) {
  const settings = Object.assign({ key: "", onrow: null, detail: null, nameOf: String }, options);
  const body = el("tbody");
  let { sort, down } = remembered.get("sort " + settings.key) || { sort: null, down: false };
  const heads = columns.map((column, n) => {
    const sortBy = () => {
      down = sort === n ? !down : Boolean(column.number);
      sort = n;
      if (settings.key) remembered.set("sort " + settings.key, { sort, down });
      draw();
    };
    return el("th", { scope: "col", class: kindOf(column) }, button(column.name, column.title, sortBy), column.unit ? el("small", {}, column.unit) : null);
  });
  function draw() {
    const ordered = sort === null ? rows : sorted(rows, columns[sort].of, down);
    heads.forEach((head, n) => {
      if (n === sort) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill(body, ordered.map((row) => (isOpen(row) ? [line(row), below(row)] : line(row))));
  }
  const opened = (row) => "opened " + settings.key + " " + settings.nameOf(row);
  const isOpen = (row) => Boolean(settings.detail) && remembered.get(opened(row));
  const below = (row) => el("tr", { class: "detail" }, el("td", { colspan: columns.length }, settings.detail(row)));
  function choose(row, made) {
    if (settings.onrow) return settings.onrow(row);
    remembered.set(opened(row), !isOpen(row));
    made.querySelector(".open").setAttribute("aria-expanded", String(isOpen(row)));
    if (isOpen(row)) made.after(below(row));
    else made.nextSibling.remove();
  }
  function line(row) {
    const opens = settings.onrow || settings.detail;
    const name = settings.nameOf(row);
    const cells = columns.map((column, n) => {
      const shown = column.show ? column.show(row) : column.of(row);
      const open = opens && n === 0 ? button("▸", "Open " + name, null, { class: "open", "aria-label": "Open " + name, "aria-expanded": settings.detail ? String(Boolean(isOpen(row))) : null }) : null;
      return el(n === 0 ? "th" : "td", { scope: n === 0 ? "row" : null, class: kindOf(column, row) }, open, shown === null || shown === undefined ? "–" : shown);
    });
    const made = el("tr", opens ? { class: "link", "data-name": name, onclick: () => choose(row, made) } : {}, cells);
    return made;
  }
  draw();
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
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
