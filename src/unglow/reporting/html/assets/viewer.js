// Pictures: a strip of small ones beside each pair, and a large view that can blink two of them.

const BLINK_MS = 700;
const BLINKS = [["post", "aligned pre"], ["post", "pre as it came"], ["post", "difference"]];

// The report lies in the results directory, so figures are below it.
function toFile(picture) {
  return { href: picture.file.split("/").map(encodeURIComponent).join("/"), target: "_blank", rel: "noopener" };
}

class Viewer {
  constructor(pictures) {
    this.read = pictures;
    this.timer = null;
    this.dialog = el("dialog", { class: "viewer", "aria-label": "Picture" });
    this.dialog.addEventListener("close", () => this.stop());
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    document.body.append(this.dialog);
  }

  get pictures() {
    if (!this.all) this.all = this.read();
    return this.all;
  }

  // Small pictures are only decoded once they come into view.
  strip(n, title) {
    const all = this.pictures[n] || [];
    const group = all.filter((picture) => picture.small);
    const links = all.filter((picture) => !picture.small).map((picture) => el("a", toFile(picture), picture.name));
    const made = el("div", { class: "strip" }, group.map((picture, k) => {
      const image = el("img", { alt: "", loading: "lazy", width: 120, height: 96 });
      image.src = "data:image/jpeg;base64," + picture.small;
      return el("button", { type: "button", class: "thumb", title: "Open " + picture.name, onclick: () => this.open(n, k, title) }, image, el("span", {}, picture.name));
    }));
    return [made, links.length ? el("p", { class: "links" }, links) : null];
  }

  open(n, k, title) {
    this.group = this.pictures[n].filter((picture) => picture.small);
    this.title = title;
    this.pair = null;
    this.go(k);
    if (!this.dialog.open) this.dialog.showModal();
  }

  go(k) {
    this.stop();
    this.k = (k + this.group.length) % this.group.length;
    this.draw();
  }

  draw() {
    const picture = this.group[this.k];
    const named = (name) => this.group.findIndex((p) => p.name === name);
    const blinks = BLINKS.filter((names) => names.every((name) => named(name) >= 0));
    this.image = el("img", { class: this.whole ? "whole" : "fit", alt: picture.name + " of " + this.title });
    this.image.src = "data:image/jpeg;base64," + (picture.large || picture.small);
    this.image.addEventListener("click", () => { this.whole = !this.whole; this.image.className = this.whole ? "whole" : "fit"; });
    this.caption = el("b", {}, picture.name);
    const button = (text, act, title, pressed) => el("button", { type: "button", title, onclick: act, "aria-pressed": pressed === undefined ? null : String(pressed) }, text);
    const path = picture.file ? el("a", toFile(picture), "the figure itself") : null;
    fill(this.dialog,
      el("div", { class: "bar" },
        el("span", {}, this.title, ": ", this.caption),
        button("◀", () => this.go(this.k - 1), "Picture before (left arrow)"),
        button("▶", () => this.go(this.k + 1), "Next picture (right arrow)"),
        blinks.map((names) => button("blink " + names.join(" / "), () => this.blink(names), "Show one after the other (b); Space changes by hand", this.names === names)),
        path,
        button("Close", () => this.dialog.close(), "Close (Escape)")),
      el("div", { class: "frame" }, this.image));
  }

  blink(names) {
    const again = this.names === names;
    this.stop();
    if (again) return this.draw();
    this.names = names;
    this.k = this.group.findIndex((p) => p.name === names[0]);
    this.draw();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!still) this.timer = setInterval(() => this.swap(), BLINK_MS);
  }

  swap() {
    if (!this.names) return;
    const now = this.group[this.k].name === this.names[0] ? this.names[1] : this.names[0];
    this.k = this.group.findIndex((p) => p.name === now);
    const picture = this.group[this.k];
    this.image.src = "data:image/jpeg;base64," + (picture.large || picture.small);
    this.caption.textContent = picture.name;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.names = null;
  }

  key(event) {
    if (event.key === "ArrowLeft") this.go(this.k - 1);
    else if (event.key === "ArrowRight") this.go(this.k + 1);
    else if (event.key === "b") this.blink(BLINKS.find((names) => names.every((name) => this.group.some((p) => p.name === name))) || []);
    else if (event.key === " " && this.names && event.target.tagName !== "BUTTON") {
      clearInterval(this.timer);
      this.swap();
      event.preventDefault();
    }
  }
}
