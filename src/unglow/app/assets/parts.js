// Parts that several steps share: a step, a command, a message, a small picture.

import { copyButton, el, fill } from "./elements.js";
import { ask } from "./server.js";

export class Step {
  constructor(id, number, title) {
    this.note = el("span", { class: "soft" });
    this.body = el("div");
    this.message = el("p", { class: "message", role: "alert" });
    this.command = el("div");
    this.made = el("section", { id, "aria-label": title, tabindex: "-1" }, el("header", {}, el("h2", {}, el("span", { class: "number" }, number), " " + title), this.note), this.body, this.message, this.command);
  }

  say(text, kind) {
    this.message.textContent = text || "";
    this.message.className = "message " + (kind || "");
  }

  // Do something that the server may refuse, with its sentence; buttons are off meanwhile.
  async attempt(act, busy) {
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
    const lines = commands.map((text) => el("div", { class: "command" }, el("code", {}, text), copyButton(text, "Copy this command")));
    const opened = this.command.querySelector("details[open]");
    fill(this.command, el("details", { class: "same", open: Boolean(opened) }, el("summary", {}, commands.length > 1 ? "The same in a terminal" : "The command that does the same"), lines));
  }
}

// Draw something again without losing the place of those who work with the keyboard.
export function keepFocus(draw) {
  const had = document.activeElement;
  const step = had && had.closest("section");
  draw();
  if (!step || (had.isConnected && !had.disabled)) return;
  const same = (had.id && document.getElementById(had.id)) || [...step.querySelectorAll(had.tagName)].find((e) => !e.disabled && e.name === had.name && e.value === had.value && e.textContent === had.textContent);
  (same || step).focus();
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

const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watch.unobserve(entry.target);
    waiting.push(entry.target.loadPicture);
    work();
  }
}, { rootMargin: "200px" });

// A small picture of a raw image; it comes when it is seen.
export function thumbnail(id, name) {
  const image = el("img", { alt: "", width: "72", height: "72" });
  const about = el("span", { class: "soft about" });
  const made = el("figure", { class: "thumb" }, image, el("figcaption", {}, el("span", { class: "name", title: name }, name), about));
  made.loadPicture = async () => {
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
  watch.observe(made);
  return made;
}

const KINDS = { ok: ["✓", "good"], suspect: ["!", "suspect"], failed: ["✕", "bad"], skipped: ["–", "bad"], incomplete: ["!", "suspect"], running: ["▶", "busy"], waiting: ["·", ""], killed: ["✕", "bad"], interrupted: ["!", "suspect"] };

export function badge(state) {
  const [sign, kind] = KINDS[state] || ["•", ""];
  return el("span", { class: "badge " + kind }, el("span", { "aria-hidden": "true" }, sign), " " + state);
}
