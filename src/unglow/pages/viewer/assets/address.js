// The view, kept in the address: a link shows the same to somebody else.

const NUMBERS = ["x", "y", "zoom", "blur", "hz", "at"];
const START = {
  pair: "", x: null, y: null, zoom: null, mode: "", a: "", b: "", layers: "", hz: 2, at: 0.5, blur: 0,
  marks: "candidates,regions,spoilt,map", panel: "", source: "", look: {},
};
const SAVE_MS = 300;

export class Address {
  constructor() {
    this.heard = [];
    this.values = { ...START, ...read(location.hash) };
    window.addEventListener("hashchange", () => {
      if (location.hash === this.written) return;
      this.values = { ...START, ...read(location.hash) };
      this.notify(Object.keys(START), true);
    });
  }

  get(key) {
    return this.values[key];
  }

  // Change some of it; listeners are called once, with the changed keys.
  set(changes) {
    const keys = Object.keys(changes).filter((key) => JSON.stringify(this.values[key]) !== JSON.stringify(changes[key]));
    if (!keys.length) return;
    Object.assign(this.values, changes);
    this.notify(keys, false);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), SAVE_MS);
  }

  // The kinds of marks that are drawn over the images.
  get marks() {
    return this.get("marks").split(",").filter(Boolean);
  }

  // Draw a kind of marks, or no longer.
  mark(kind, isOn = true) {
    const others = this.marks.filter((other) => other !== kind);
    if (this.marks.includes(kind) !== isOn) this.set({ marks: (isOn ? [...others, kind] : others).join(",") });
  }

  listen(heard) {
    this.heard.push(heard);
  }

  notify(keys, jumped) {
    for (const heard of this.heard) heard(keys, jumped);
  }

  write() {
    clearTimeout(this.timer);
    this.written = "#" + text(this.values);
    history.replaceState(null, "", this.written);
  }

  // The complete address of the current view.
  link() {
    this.write();
    return location.href;
  }
}

function text(values) {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (key === "look") {
      for (const [of, look] of Object.entries(value)) parts.set("look." + of, JSON.stringify(look));
    } else if (value !== null && value !== START[key]) parts.set(key, typeof value === "number" ? String(+value.toFixed(4)) : value);
  }
  return parts.toString();
}

function read(hash) {
  const values = { look: {} };
  for (const [key, value] of new URLSearchParams(hash.slice(1))) {
    if (key.startsWith("look.")) {
      try {
        values.look[key.slice(5)] = JSON.parse(value);
      } catch {
        continue; // a link that was cut short
      }
    } else if (NUMBERS.includes(key)) {
      if (Number.isFinite(Number(value))) values[key] = Number(value);
    } else if (key in START) values[key] = value;
  }
  return values;
}
