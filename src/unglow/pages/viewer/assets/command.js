// The file written for the workflow, and the command that uses it.

import { commandLine, el } from "./elements.js";

// `written` has `file`, `command` and, where another file was there before, `kept`.
export function nextCommand(written, sentence) {
  const words = written.command.split(" ").flatMap((word) => [" ", el("span", {}, word)]).slice(1); // lines break between them
  return el("div", { class: "next-command" }, el("p", {}, "Written: ", el("b", {}, written.file)), written.kept ? el("p", {}, "The previous file is kept as " + written.kept + ".") : null,
    el("p", {}, sentence), commandLine(written.command, "the command", words));
}
