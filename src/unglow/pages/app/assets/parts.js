// Parts that several steps share: a step, a command, a message, a small picture.

import { commandLine, el, fill, whenSeen } from "./elements.js";
import { ask } from "./server.js";

export class Step {
  constructor(id, number, title) {
    this.note = el("span", { class: "soft" });
    this.body = el("div");
    this.message = el("p", { class: "message", role: "alert" });
    this.command = el("div", { class: "same" });
    this.made = el("section", { id, "aria-label": title, tabindex: "-1" }, el("header", {}, el("h2", {}, el("span", { class: "number" }, number), " " + title), this.note), this.body, this.message, this.command);
  }

  say(text, kind) {
    this.message.textContent = text || "";
    this.message.className = "message " + (kind || "");
  }

  // Do something that the server may refuse, with its sentence; nothing else is done meanwhile.
  async attempt(act, busy) {
    if (this.made.hasAttribute("aria-busy")) return undefined;
    this.say(busy || "", "soft");
    this.made.setAttribute("aria-busy", "true");
    try {
      const done = await act();
      this.say("");
      return done;
    } catch (error) {
      this.say(error.message, "bad");
      if (error.isConflict) this.made.dispatchEvent(new Event("conflict", { bubbles: true }));
      return undefined;
    } finally {
      this.made.removeAttribute("aria-busy");
    }
  }

  showCommands(...commands) {
    fill(this.command, commands.map((text) => commandLine(text)));
  }
}

// Sentences, with the commands in them as such.
export function notesOf(sentences) {
  return sentences.length ? el("ul", { class: "problems" }, sentences.map((text) => el("li", {}, text.split("`").map((part, n) => (n % 2 ? el("code", {}, part) : part))))) : null;
}

export const counted = (n, one) => n + " " + one + (n === 1 ? "" : "s");

const waiting = [];
let working = 0;

function work() {
  while (working < 3 && waiting.length) {
    const load = waiting.shift();
    working += 1;
    load().finally(() => {
      working -= 1;
      work();
    });
  }
}

// A small picture of a raw image; it comes when it is seen.
export function thumbnail(id, name) {
  const image = el("img", { alt: "", width: "72", height: "72" });
  const about = el("span", { class: "soft about" });
  const made = el("figure", { class: "thumb" }, image, el("figcaption", {}, el("span", { class: "name", title: name }, name), about));
  const load = async () => {
    try {
      const { picture, about: size, problem } = await ask("image/" + id);
      if (picture) image.src = "data:image/jpeg;base64," + picture;
      about.textContent = problem || size;
      about.title = about.textContent;
      made.classList.toggle("problem", Boolean(problem));
    } catch (error) {
      about.textContent = error.message;
    }
  };
  whenSeen(made, () => {
    waiting.push(load);
    work();
  });
  return made;
}
