// The results of the pairs: states with reasons, pictures, and numbers with their intervals.

// Two pairs and more are rows of a table; up to this many have cards below it, others open as a card.
const CARDS_AT_ONCE = 6;

function pairsPart(model, view) {
  const part = section("pairs", "Results", model.pairs.length ? "" : "no pair yet");
  if (!model.pairs.length) return part.made;
  const rows = rowsOf(model);
  const listed = rows.length > 1 ? rows.map((r) => ({ ...r, state: el("span") })) : [];
  view.states = [...rows, ...listed];
  const isSkipped = (r) => r.pair.status === "skipped";
  const cards = () => [...rows].sort((a, b) => isSkipped(a) - isSkipped(b)).map((r) => containedCard(r, view, hasViewer(model)));
  const many = rows.length > CARDS_AT_ONCE;
  const odd = rows.filter((r) => r.outlier.length).length;
  if (many) part.note.textContent = unitsOf(model.pairs) + (odd ? ", " + odd + " with outlying values" : "");
  fill(part.body, (model.slides || []).map((slide) => slideHead(slide, rows.filter((r) => isMarker(r.pair) && r.pair.sample === slide), view, model)),
    many ? batchParts(listed, view, model) : [listed.length ? el("div", { class: "batch" }, batchTable(listed, view, model, { onrow: ({ name }) => goToCard(part.made.querySelector("article[aria-label=" + CSS.escape(name) + "]")) })) : null, el("div", { class: "pairs" }, cards())]);
  return part.made;
}

function goToCard(card) {
  card.scrollIntoView();
  card.focus({ preventScroll: true });
}

// A row of each pair: its numbers as such, and its outlying values, the most unusual first.
function rowsOf(model) {
  return model.pairs.map((pair, n) => {
    const { seconds, peak_mb, outlier } = model.batch.pairs[n];
    const left = isKnown(pair.difference_median) && Number(pair.difference_mad) > 0 ? pair.difference_median / pair.difference_mad : null;
    return { pair: { ...pair, seconds, peak_mb, background: left }, name: nameOf(pair), n, outlier, state: el("span") };
  });
}

// Markers of a slide are listed with the pairs: sample is the slide, dye the marker.
const isMarker = (pair) => isKnown(pair.background_channel);

function unitsOf(pairs) {
  const markers = pairs.filter(isMarker);
  const others = pairs.length - markers.length;
  const slides = new Set(markers.map((p) => p.sample)).size;
  return [others || !markers.length ? counted(others, "pair") : null, markers.length ? counted(markers.length, "marker") + " of " + counted(slides, "slide") : null].filter(Boolean).join(", ");
}

function slideHead(slide, group, view, model) {
  const n = model.pairs.length + model.slides.indexOf(slide);
  const all = PAIR_ORDER.map((s) => [s, group.filter((r) => r.pair.status === s).length]).filter(([, k]) => k);
  const note = el("span", { class: "soft" });
  const show = (pictures, wanted) => {
    const at = pictures.findIndex(({ name }) => name.startsWith(wanted));
    const first = pictures[at] || pictures.find(({ problem }) => problem);
    if (at >= 0 && first.image) view.viewer.open(pictures, at, slide);
    else fill(note, first ? first.problem || el("a", toFile(first.file), first.name) : wanted === "cycle" ? "No pictures of cycles." : "No picture of all markers yet.");
  };
  const open = (wanted) => view.viewer.read(n, slide).then((pictures) => show(pictures, wanted), () => fill(note, "The monitor does not answer: no pictures."));
  return el("div", { class: "slide-head" }, el("b", {}, slide), el("span", { class: "soft" }, counted(group.length, "marker") + ": " + all.map(([s, k]) => k + " " + word(s)).join(", ")),
    button("All markers side by side", null, () => open("all markers")), button("Cycles over the reference", null, () => open("cycle")), note);
}

// Whether the server shows images too.
const hasViewer = (model) => (model.parts || []).includes("view");

// The numbers of a pair come as summary.tsv has them: rounded by their errors.
function range(low, high) {
  return isKnown(low) ? " (" + low + " to " + high + ")" : "";
}

// Update the states of unfinished pairs on cards that are not drawn again.
function showStates(rows, model) {
  for (const { pair, name, n, state } of rows) {
    const work = (model.working || {})[name];
    fill(state, badge((model.pairs[n] || pair).status), work ? [" ", el("span", { class: "soft working" }, work)] : null);
  }
}

// Rows as cards are made of them: whether an unfinished pair runs at this moment changes too often.
const settled = (pairs) => pairs.map((p) => (p.status === "running" ? { ...p, status: "waiting" } : p));

const containedCard = (r, view, canLook) => contained("The card of " + r.name, () => pairCard(r, view, canLook));

// Reasons for spoilt places, each with its share of the section, the largest first.
function spoiltParts({ spoilt_reasons: text }) {
  if (!isKnown(text)) return [];
  return text.split(", ").map((part) => [part.slice(0, part.lastIndexOf(" ")), Number(part.slice(part.lastIndexOf(" ") + 1))]);
}

function spoiltText(pair) {
  const parts = spoiltParts(pair).map(([reason, share]) => reason + " " + percent(share));
  return parts.length ? percent(Number(pair.spoilt_share)) + " of the section: " + parts.join(", ") : isKnown(pair.spoilt_share) ? percent(Number(pair.spoilt_share)) : null;
}

// The estimated share of false candidates with its interval, and how many that is.
function falseText(pair) {
  if (!isKnown(pair.candidates_fdr)) return null;
  const rate = Number(pair.candidates_fdr);
  const interval = isKnown(pair.fdr_low95) ? range(percent(Number(pair.fdr_low95)), percent(Number(pair.fdr_high95))) : "";
  const count = Number(pair.candidates) ? ", about " + Math.round(rate * pair.candidates) + " of " + pair.candidates : "";
  return percent(rate) + interval + count;
}

// Legend of a picture's colours.
function captionOf(picture, pair) {
  if (picture.name !== "difference") return null;
  const isDark = (pair.details || []).some(({ key: reason }) => reason === "bright_field"); // stain absorbs
  const key = (kind, text) => el("span", { class: "item" }, el("span", { class: "key " + kind }), text);
  return el("span", { class: "legend" }, key("only-post", isDark ? "only in pre" : "only in post: stain"), key("only-pre", isDark ? "only in post: stain" : "only in pre"),
    key("noise", "within twice the noise, section dimmed"), Number(pair.candidates) ? key("ring", "candidate") : null, spoiltParts(pair).length ? key("spoilt", "spoilt, excluded") : null);
}

// The directory of a pair as `unglow view` takes it, from the working directory.
const directoryOf = (pair, model) => [model.results.split("/").pop(), ...LEVELS.map((k) => pair[k]).filter(Boolean)].join("/");

function pairCard({ pair, name, n, state, outlier }, view, canLook) {
  const { model } = view;
  const share = (v) => (isKnown(v) ? percent(Number(v)) : null);
  const both = (a, b) => (isKnown(pair[a]) ? pair[a] + " px, " + pair[b] + " px" : null);
  const estimate = (key, low, high, unit) => (isKnown(pair[key]) ? pair[key] + range(pair[low], pair[high]) + (unit || "") : null);
  const results = facts([
    ["candidates", pair.candidates],
    ["estimated false discoveries (95 % interval)", falseText(pair)],
    ["gain" + (pair.method ? ", " + pair.method : "") + " (95 % interval)", estimate("gain", "gain_low95", "gain_high95")],
  ]);
  const more = facts([
    ["density (95 % interval)", estimate("density_per_mm2", "density_low95", "density_high95", " per mm²")],
    ["map error: median, and 95 % below", both("error_median_px", "error_p95_px")],
    ["width of the spots (searched)", isKnown(pair.spot_width_px) ? pair.spot_width_px + " px (" + pair.searched_width_px + " px)" : null],
    ["spoilt and excluded", spoiltText(pair)],
    ["accepted of reviewed", isKnown(pair.reviewed) ? pair.accepted + " of " + pair.reviewed : null],
    ["background", pair.background_channel],
    ["gain expected from exposure times", pair.expected_gain],
    ["remaining shift", isKnown(pair.residual_shift_px) ? pair.residual_shift_px + " px" : null],
    ["clipped", share(pair.clipped)],
    ["kind of map", pair.model],
    ["overlap", share(pair.overlap)],
    ["share accepted of the reviewed (95 % interval)", estimate("purity", "purity_low95", "purity_high95")],
    [isMarker(pair) ? "job time of the slide" : "job time", seconds(pair.seconds)],
    ["memory of the largest job", mb(pair.peak_mb)],
  ]);
  const viewable = !isMarker(pair) && isKnown(pair.dye) && pair.status !== "skipped";
  const incident = model.incidents.find((i) => i.kind === "pair" && i.title === name);
  const [picture, others] = view.viewer.pictures(n, name, (shown) => captionOf(shown, pair));
  const place = ([x, y]) => (canLook && viewable ? el("a", { href: viewOf(pair, "view/") + "&x=" + x + "&y=" + y + "&zoom=1" }, "show me") : null);
  const message = (text) => (text ? el("p", { class: "message" }, text) : null);
  return el("article", { class: "pair " + (pair.status || ""), "aria-label": name, tabindex: "-1" },
    el("h3", {}, name, " ", state, pair.control ? el("span", { class: "badge quiet" }, "control") : null,
      canLook && viewable ? [" ", el("a", { class: "look", href: viewOf(pair, "view/") }, "open in the viewer")] : null),
    reasonsOf(pair.reasons, pair.details, place),
    incident && incident.helps ? el("p", { class: "message" }, el("span", { class: "soft" }, "What helps: "), incident.helps) : null,
    outlier.length ? message("Differs from the other pairs of its dye: " + outlyingText(outlier, pair) + ".") : null,
    outdatedOf(pair),
    reasonsOf(pair.notes, pair.details, place),
    el("div", { class: "columns" }, picture, el("div", {}, results, more.childElementCount ? el("details", {}, el("summary", {}, "more numbers"), more) : null, others)),
    viewable ? commandLine("unglow view " + quoted(directoryOf(pair, model)), "the command that opens the viewer") : null);
}
