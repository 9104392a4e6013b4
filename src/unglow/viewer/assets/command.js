// What was written for the workflow, and the command that goes on with it.

import { button, el } from "./elements.js";

// `told` has `file`, `command` and, where another file was there before, `kept`.
export function goesOn(told, sentence) {
  const words = told.command.split(" ").flatMap((word) => [" ", el("span", {}, word)]).slice(1); // lines break between them
  const command = el("code", {}, words);
  const copy = button("Copy", "Copy the command", () => copied(command, copy));
  return el("div", { class: "goes-on" }, el("p", {}, "Written: ", el("b", {}, told.file)), told.kept ? el("p", {}, "What was there before is kept as " + told.kept + ".") : null,
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
