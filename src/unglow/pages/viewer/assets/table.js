// A table of any length: only the rows that are seen are made.

import { el, fill } from "./elements.js";

const ROW = 22; // px, as in view.css
const SPARE = 6;
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -Infinity, End: Infinity };

export class Table {
  // `hears.picked(place)` of a row, `hears.sorted(name)` of a heading; `hears.classOf(row)`.
  constructor(label, hears) {
    Object.assign(this, { hears, columns: [], order: [], at: -1 });
    this.head = el("div", { class: "head", role: "row" });
    this.rows = el("div", { class: "rows", role: "rowgroup" });
    this.element = el("div", { class: "table", role: "grid", tabindex: 0, "aria-label": label, onscroll: () => this.soon() }, this.head, this.rows);
    new ResizeObserver(() => this.reveal()).observe(this.element);
  }

  // Columns have `name`, `title`, `hint`, `width` as [least px, share of the rest], and `text(row)`.
  show(columns, order, { by, down }) {
    Object.assign(this, { columns, order });
    this.element.style.setProperty("--columns", columns.map(({ width: [least, share] }) => "minmax(" + least + "px, " + share + "fr)").join(" "));
    this.element.style.setProperty("--width", columns.reduce((sum, { width }) => sum + width[0], 0) + "px");
    this.element.setAttribute("aria-rowcount", order.length + 1);
    const names = columns.map(({ name }) => name).join();
    if (names !== this.names) fill(this.head, columns.map(({ name, hint }) => el("button", { type: "button", role: "columnheader", title: hint, onclick: () => this.hears.sorted(name) })));
    this.names = names; // the same headings stay: one of them may have the focus
    columns.forEach(({ name, title }, n) => {
      this.head.children[n].textContent = title + (name === by ? (down ? " ▾" : " ▴") : "");
      this.head.children[n].ariaSort = name === by ? (down ? "descending" : "ascending") : null;
    });
    this.rows.style.height = order.length * ROW + "px";
    this.element.style.maxHeight = (order.length + 2) * ROW + "px";
    this.draw();
  }

  soon() {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const { element, order } = this;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - SPARE);
    const last = Math.min(order.length, Math.ceil((element.scrollTop + element.clientHeight) / ROW) + SPARE);
    fill(this.rows, Array.from({ length: Math.max(0, last - first) }, (_, n) => this.row(first + n)));
    const seen = this.at >= first && this.at < last;
    if (seen) element.setAttribute("aria-activedescendant", "row-" + this.at);
    else element.removeAttribute("aria-activedescendant");
  }

  row(place) {
    const row = this.order[place];
    return el("div", {
      id: "row-" + place, class: "line " + this.hears.classOf(row), role: "row", style: "top: " + place * ROW + "px", "aria-rowindex": place + 2,
      "aria-selected": String(place === this.at), onclick: () => this.hears.picked(place),
    }, this.columns.map(({ text }) => el("span", { role: "gridcell" }, text(row))));
  }

  // Mark the row at a place of the order, -1 for none, and bring it into view.
  mark(place) {
    this.at = place;
    this.reveal();
  }

  reveal() {
    const { element, at } = this;
    const space = element.clientHeight - ROW; // below the headings
    const top = at * ROW - element.scrollTop;
    if (at >= 0 && space > 0 && (top < 0 || top + ROW > space)) {
      const near = top > -2 * ROW && top < space + ROW;
      element.scrollTop = at * ROW - (near ? (top < 0 ? 0 : space - ROW) : (space - ROW) / 2);
    }
    this.draw();
  }

  // Whether a key has moved the choice.
  key({ key, target }) {
    const by = STEPS[key];
    if (!by || !this.element.contains(target) || !this.order.length) return false;
    this.hears.picked(Math.min(Math.max(this.at + by, 0), this.order.length - 1));
    return true;
  }
}
