// Pictures: a strip of small ones beside each pair, and a large view that can blink two of them.

const BLINK_MS = 700;
const BLINKS = [["post", "aligned pre"], ["post", "pre as it came"], ["post", "difference"], ["before", "after"]];

// Files are named as seen from the page.
const pathOf = (file) => file.split("/").map(encodeURIComponent).join("/");
const toFile = (file) => ({ href: pathOf(file), target: "_blank", rel: "noopener" });

// What shows a picture, small or large: what is packed, or a file beside the page.
function addressOf(picture, size) {
  if (picture.beside) return pathOf(picture.beside);
  const packed = picture[size] || picture.small;
  return packed ? "data:image/jpeg;base64," + packed : null;
}

class Viewer {
  // What read(n, name) promises are the pictures of the n-th pair.
  constructor(read) {
    this.read = read;
    this.timer = null;
    this.dialog = el("dialog", { class: "viewer", "aria-label": "Picture" });
    this.dialog.addEventListener("close", () => this.stop());
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    document.body.append(this.dialog);
  }

  // Pictures come when they have been read, each only once it comes into view.
  strip(n, title) {
    const made = el("div");
    const told = (text) => fill(made, el("p", { class: "soft" }, text));
    this.read(n, title).then((all) => fill(made, this.thumbs(all, title)), () => told("The monitor does not answer: no pictures."));
    return made;
  }

  thumbs(all, title) {
    const group = all.filter((picture) => addressOf(picture, "small"));
    const links = all.filter((picture) => !picture.problem && !addressOf(picture, "small")).map((picture) => el("a", toFile(picture.file), picture.name));
    const made = el("div", { class: "strip" }, group.map((picture, k) => {
      const image = el("img", { alt: "", loading: "lazy", width: 120, height: 96, src: addressOf(picture, "small") });
      image.addEventListener("error", () => image.closest("button").replaceWith(el("span", { class: "thumb" }, picture.name + " cannot be read")));
      return el("button", { type: "button", class: "thumb", title: "Open " + picture.name, onclick: () => this.open(group, k, title) }, image, el("span", {}, picture.name));
    }));
    const problems = all.filter((picture) => picture.problem).map((picture) => el("p", { class: "message problem" }, picture.problem));
    return [made, links.length ? el("p", { class: "links" }, links) : null, problems];
  }

  open(group, k, title) {
    this.group = group;
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
    this.image.src = addressOf(picture, "large");
    this.image.addEventListener("click", () => { this.whole = !this.whole; this.image.className = this.whole ? "whole" : "fit"; });
    this.caption = el("b", {}, picture.name);
    const button = (text, act, title, pressed) => el("button", { type: "button", title, onclick: act, "aria-pressed": pressed === undefined ? null : String(pressed) }, text);
    const file = picture.file || picture.beside;
    const path = file ? el("a", toFile(file), "the picture itself") : null;
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
    this.image.src = addressOf(picture, "large");
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
