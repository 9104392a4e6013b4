// The file written for the workflow, and the command that uses it.

import { button, el } from "./elements.js";

// `written` has `file`, `command` and, where another file was there before, `kept`.
export function nextCommand(written, sentence) {
  const words = written.command.split(" ").flatMap((word) => [" ", el("span", {}, word)]).slice(1); // lines break between them
  const command = el("code", {}, words);
  const copy = button("Copy", "Copy the command", () => copied(command, copy));
  return el("div", { class: "next-command" }, el("p", {}, "Written: ", el("b", {}, written.file)), written.kept ? el("p", {}, "The previous file is kept as " + written.kept + ".") : null,
    el("p", {}, sentence), el("div", { class: "command" }, command, copy));
}

async function copied(command, copy) {
  try {
    await navigator.clipboard.writeText(command.textContent);
    copy.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(command); // the browser does not allow it: copy by hand
  }
}
