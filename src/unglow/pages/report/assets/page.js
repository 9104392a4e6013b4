// Puts a model on the page, and newer ones in its place: unglow.show(model).

class View {
  constructor(readPictures) {
    this.viewer = new Viewer(readPictures);
    this.flames = new Flames();
    this.resources = new Resources(this);
    this.head = el("div");
    this.incidents = el("div");
    this.pairs = el("div");
    this.tiles = el("div");
    this.environment = el("div");
    this.top = el("div");
    this.note = el("span", { class: "note" });
    this.technical = el("details", { id: "technical" }, el("summary", {}, el("h2", {}, "Time and memory"), this.note),
      this.tiles, this.resources.part.made, this.flames.part.made, this.environment);
    const links = [["pairs", "Results"], ["incidents", "Incidents"], ["resources", "Time and memory"], ["rules", "By rule"], ["flames", "Flame graph"], ["environment", "How it was run"]];
    const bar = el("nav", { "aria-label": "Parts of the report", onclick: (event) => this.unfold(event.target.hash) }, links.map(([id, name]) => el("a", { href: "#" + id, class: "to-" + id }, name)));
    this.main = el("main", {}, this.top, this.head, bar, this.pairs, this.incidents, this.technical);
    this.link = (id) => bar.querySelector(".to-" + id);
    this.shown = {}; // the data each part was drawn from
    this.logButton = () => null; // a way to the log of an attempt, where somebody can read it
  }

  // Open the technical part if it contains the target of a link.
  unfold(hash) {
    if (hash && this.technical.querySelector(hash)) this.technical.open = true;
  }

  showAttempt(id) {
    this.technical.open = true;
    this.resources.open(id);
  }

  show(model) {
    if (model.foreign && !this.model) this.technical.open = true;
    this.model = model;
    this.part("head", [model.pairs.map((p) => p.status), model.made], () => headPart(model));
    this.part("tiles", [model.runs, model.made], () => tilesPart(model));
    this.note.textContent = technicalNote(model);
    const incidents = model.incidents.filter((i) => i.kind !== "pair"); // those of pairs are on their cards
    this.part("incidents", incidents, () => incidentsPart(incidents, model, this));
    this.link("incidents").hidden = !incidents.length;
    this.link("pairs").hidden = Boolean(model.foreign); // a workflow without pairs
    this.part("pairs", [settled(model.pairs), model.batch], () => model.foreign ? el("div") : pairsPart({ ...model, pairs: settled(model.pairs) }, this));
    showStates(this.states || [], model);
    this.part("environment", model.runs.map((r) => [r.id, r.outcome, r.done]), () => environmentPart(model));
    this.own("Flame graph", this.flames, model);
    this.link("flames").hidden = this.flames.part.made.hidden;
    this.own("Time and memory", this.resources, model);
  }

  // A part that keeps what it has drawn.
  own(title, shower, model) {
    const failed = contained(title, () => shower.show(model));
    if (failed) fill(shower.part.body, failed);
  }

  // A part is only drawn again if its content is new, so that what a reader opened stays open.
  part(name, about, build) {
    const text = JSON.stringify(about);
    if (this.shown[name] === text) return;
    this.shown[name] = text;
    fill(this[name], contained(name, build));
  }
}

async function embedded(id) {
  const holder = document.getElementById(id);
  if (holder.type !== "application/gzip") return JSON.parse(holder.textContent);
  const packed = Uint8Array.from(atob(holder.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Reads the pictures of a pair that came with the page: all of them are unpacked for the first.
function packedPictures() {
  let all = null;
  return async (n) => (await (all = all || embedded("pictures")))[n] || [];
}

function plainMessage(error) {
  const page = document.getElementById("page");
  page.replaceChildren(el("p", { class: "message" }, "This report cannot be drawn: " + error + ". Browsers since 2023 can."));
}

async function start() {
  const model = await embedded("model");
  const view = new View(model.live ? (n, name, small) => asked("pictures?pair=" + encodeURIComponent(name) + (small ? "&small=1" : "")) : packedPictures());
  document.getElementById("page").replaceChildren(view.main);
  view.show(model);
  window.unglow = { show: (newer) => view.show(newer), view };
  if (model.live) window.unglow.live = new Live(view, model);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload()); // charts are drawn in its colours
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

start().catch((error) => {
  document.documentElement.dataset.failed = String(error);
  plainMessage(error);
});
