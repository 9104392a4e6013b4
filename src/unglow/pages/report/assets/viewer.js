// Pictures: the difference of a pair, small ones of the rest, and a large view that can blink two of them.

const BLINK_MS = 700;
const BLINKS = [["post", "aligned pre"], ["post", "unaligned pre"], ["post", "difference"], ["before", "after"]];
const MAIN = ["difference", "after"]; // what a card shows large
const isWide = (picture) => ["gallery", "registration"].includes(picture.name); // what it shows next

// Files are named as seen from the page.
const pathOf = (file) => file.split("/").map(encodeURIComponent).join("/");
const toFile = (file) => ({ href: pathOf(file), target: "_blank", rel: "noopener" });
const addressOf = (picture) => (picture.image ? "data:image/jpeg;base64," + picture.image : null);

class Viewer {
  // read(n, name, small) resolves to the pictures of the n-th pair; small ones for a row of a table.
  constructor(read) {
    this.read = read;
    this.timer = null;
    this.dialog = el("dialog", { class: "viewer", "aria-label": "Picture", tabindex: "-1" });
    this.dialog.addEventListener("close", () => this.stop());
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    document.body.append(this.dialog);
  }

  // The main picture of a pair and small ones of the rest, with a caption; filled once they have been read.
  pictures(n, title, caption) {
    const main = el("div", { class: "main-picture" });
    const rest = el("div", { class: "strip" });
    const show = (all) => {
      const group = all.filter(addressOf);
      const first = group.findIndex((p) => MAIN.includes(p.name));
      if (first >= 0) fill(main, this.button(group, first, title), el("p", { class: "caption" }, caption(group[first])));
      const links = all.filter((p) => p.file && !group.includes(p)).map((p) => el("a", toFile(p.file), p.name));
      const others = group.map((_, k) => k).filter((k) => k !== first).sort((a, b) => isWide(group[b]) - isWide(group[a]));
      fill(rest, others.map((k) => this.button(group, k, title)),
        links.length ? el("p", { class: "links" }, "Figures: ", links) : null,
        all.filter((p) => p.problem).map((p) => el("p", { class: "message problem" }, p.problem)));
    };
    this.read(n, title).then(show, () => fill(rest, el("p", { class: "soft" }, "The monitor does not answer: no pictures.")));
    return [main, rest];
  }

  button(group, k, title) {
    const picture = group[k];
    const image = el("img", { alt: picture.name + " of " + title, loading: "lazy", src: addressOf(picture) });
    return button([image, el("span", {}, picture.name)], "Enlarge: " + picture.name, () => this.open(group, k, title), { class: isWide(picture) ? "thumb wide" : "thumb" });
  }

  // A small difference for a row of a table, read once it comes into view.
  small(n, title) {
    const frame = el("span", { class: "small-picture" });
    whenSeen(frame, () => this.read(n, title, true).then((all) => {
      const picture = all.find((p) => p.small);
      fill(frame, picture ? el("img", { alt: picture.name + " of " + title, src: addressOf({ image: picture.small }) }) : null);
    }, () => {}));
    return frame;
  }

  open(group, k, title) {
    this.group = group;
    this.title = title;
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
    this.image = el("img", { class: this.full ? "full" : "fit", alt: picture.name + " of " + this.title });
    this.image.src = addressOf(picture);
    this.image.addEventListener("click", () => this.magnify());
    this.caption = el("b", {}, picture.name);
    const path = picture.file ? el("a", toFile(picture.file), "open the file") : null;
    keepFocus(() => fill(this.dialog,
      el("div", { class: "bar" },
        el("span", {}, this.title, ": ", this.caption),
        button("◀", "Previous picture (left arrow)", () => this.go(this.k - 1)),
        button("▶", "Next picture (right arrow)", () => this.go(this.k + 1)),
        blinks.map((names) => button("blink " + names.join(" / "), "Alternate between the two (b); Space switches by hand", () => this.blink(names), { "aria-pressed": String(this.names === names) })),
        button("1 : 1", "One px of the picture per px of the screen (f)", () => this.magnify(), { "aria-pressed": String(Boolean(this.full)) }),
        path,
        button("Close", "Close (Escape)", () => this.dialog.close())),
      el("div", { class: "frame", tabindex: this.full ? "0" : null }, this.image)));
  }

  magnify() {
    this.full = !this.full;
    this.draw();
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
    this.image.src = addressOf(picture);
    this.image.alt = picture.name + " of " + this.title;
    this.caption.textContent = picture.name;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.names = null;
  }

  key(event) {
    if (event.target.className === "frame" && event.key.startsWith("Arrow")) return; // they scroll it
    if (event.key === "f") this.magnify();
    else if (event.key === "ArrowLeft") this.go(this.k - 1);
    else if (event.key === "ArrowRight") this.go(this.k + 1);
    else if (event.key === "b") {
      const names = BLINKS.find((some) => some.every((name) => this.group.some((p) => p.name === name)));
      if (names) this.blink(names);
    }
    else if (event.key === " " && this.names && event.target.tagName !== "BUTTON") {
      clearInterval(this.timer);
      this.swap();
      event.preventDefault();
    }
  }
}
