// Step 1: the folder of the images.

import { button, el, fill } from "./elements.js";
import { Step, counted, notesOf } from "./parts.js";
import { send } from "./server.js";

export class FolderStep extends Step {
  constructor(app) {
    super("images", "1", "Images");
    this.app = app;
  }

  show(state) {
    const chosen = state.folders.find((f) => f.chosen);
    this.note.textContent = chosen ? counted(chosen.images, "image") + " in " + chosen.name : "no folder with images yet";
    const again = button("Look again", "Look for new files", () => this.attempt(() => this.app.load(), "Looking …"));
    const choices = state.folders.map((folder) =>
      el("label", { class: "choice" },
        el("input", { type: "radio", name: "folder", value: folder.id, checked: folder.chosen, disabled: Boolean(state.why_not), onchange: () => this.choose(folder) }),
        " ", el("b", {}, folder.name), " ", el("span", { class: "soft" }, counted(folder.images, "image"))));
    fill(this.body,
      el("p", { class: "soft" }, "One image before staining (pre) and one after it (post) for each sample and dye. This page writes only in ", el("code", {}, state.directory), "."),
      state.why_not ? el("p", { class: "bad" }, state.why_not) : null,
      choices.length ? el("fieldset", { class: "choices" }, el("legend", {}, "Folder"), choices)
        : state.notes.length ? null // they say why
        : el("p", {}, "There is no image yet that unglow reads (TIFF, SVS, NDPI, SCN, QPTIFF, OME-Zarr). Put some into ", el("code", {}, "raw/"), ", or start ", el("code", {}, "unglow app FOLDER"), " with their folder."),
      notesOf(state.notes),
      again);
    this.showCommands(state.commands.survey);
  }

  async choose(folder) {
    const state = await this.attempt(() => send("folder", { id: folder.id, version: this.app.state.version }), "Reading the names …");
    if (state) this.app.take(state);
    else this.show(this.app.state);
  }
}
