// One attempt: summary, facts, memory curve and steps.

const peakWords = (a) => (a.at_least ? "at least " : "") + mb(a.peak_mb);

function attemptWords(a) {
  const used = a.peak_mb === null ? "" : "peak " + peakWords(a) + (a.declared_mb ? " of " + mb(a.declared_mb) + " declared" : "");
  return [word(a.outcome) + " after " + seconds(a.end - a.start), used, a.cpu_s === null ? "" : seconds(a.cpu_s) + " CPU"].filter(Boolean).join(" · ");
}

function attemptPanel(a) {
  const share = a.peak_mb !== null && a.declared_mb ? " (" + percent(a.peak_mb / a.declared_mb) + " of the declared memory)" : "";
  const made = el("div", { class: "attempt" },
    el("h3", {}, badge(a.outcome), " ", a.title, a.tries > 1 ? " · attempt " + a.number + " of " + a.tries : ""),
    a.message ? el("p", {}, a.message) : null,
    facts([
      ["time", seconds(a.end - a.start) + " from " + seconds(a.start) + " on"],
      ["peak", a.peak_mb === null ? null : peakWords(a) + share],
      ["declared", mb(a.declared_mb)],
      ["at its peak", partWords(a)],
      ["memory of the machine", leftWords(a)],
      ["CPU", a.cpu_s === null ? null : seconds(a.cpu_s) + " on " + counted(a.threads, "thread")],
      ["threads", threadWords(a)],
      ["read, written", a.read === null ? null : bytes(a.read) + ", " + bytes(a.written) + diskWords(a)],
      ["progress", a.of ? a.done + " of " + (a.unit ? counted(a.of, a.unit) : a.of) : null],
      ["stalls", a.stalls.length ? a.stalls.map(([t, s, reason]) => seconds(s) + " from " + seconds(t - s) + " on, " + stallWords(reason)).join("; ") : null],
      ["why it was run", a.reason],
      ["machine", a.host],
      ["log", a.log],
    ]),
    a.parts ? el("p", { class: "soft" }, PARTS) : null,
    a.steps.length ? stepBars(a) : null,
    a.transfers ? folded("Images read and written (" + a.transfers.length + ")", () => transfersTable(a), { key: "transfers", open: a.transfers.length <= 8 }) : null);
  if (a.curve) {
    const host = el("div", { class: "plot small" });
    made.append(host);
    requestAnimationFrame(() => host.isConnected && attemptChart(host, a));
  }
  return made;
}

// The parts of memory, in one sentence.
const PARTS = "Private: the job's own data. File-backed: libraries, which jobs share. Shared: files in memory, until they are deleted. Swapped: on the disk.";

function partWords(a) {
  if (!a.parts) return null;
  const [own, file, shmem, swap] = a.parts;
  return [mb(own) + " private", mb(file) + " file-backed", mb(shmem) + " shared", mb(swap) + " swapped"].join(", ");
}

function leftWords(a) {
  if (!isKnown(a.available_before_mb) || !isKnown(a.available_after_mb)) return null;
  const left = isKnown(a.left_behind_mb) ? Math.max(0, a.left_behind_mb) : null;
  const files = (a.files_after_mb || 0) - (a.files_before_mb || 0);
  return [
    mb(a.available_before_mb) + " free before, " + mb(a.available_after_mb) + " after",
    left === null ? null : mb(left) + " less, not used by any process",
    files >= 1 ? mb(files) + " more files in memory" : null,
    a.processes_left ? counted(a.processes_left, "process", "processes") + " with " + mb(a.processes_left_mb) + " outlived it" : null,
  ].filter(Boolean).join("; ");
}

// Asked for, and seen: all threads twice a second, those that could run once a second.
function threadWords(a) {
  if (!isKnown(a.threads_seen)) return null;
  const runnable = isKnown(a.runnable) ? ", at most " + a.runnable + " of them ready to run at once" : "";
  const opencv = isKnown(a.opencv_threads) ? ", OpenCV uses " + a.opencv_threads : "";
  const crowded = a.crowded ? el("span", { class: "badge suspect" }, "! more threads ready to run than asked for") : null;
  return el("span", {}, a.threads + " asked for, " + a.threads_seen + " seen" + runnable + opencv, crowded ? [" ", crowded] : null);
}

function diskWords(a) {
  if (!isKnown(a.disk_read)) return "";
  return " · from and to a disk: " + bytes(a.disk_read) + ", " + bytes(a.disk_written) + "; the rest was cached or not yet written out";
}

function transfersTable(a) {
  const ratio = (t) => (t.read + t.written > 0 && t.decoded + t.encoded > 0 ? (t.decoded + t.encoded) / (t.read + t.written) : null);
  return table([
    { name: "image", of: (t) => t.path },
    { name: "read", title: "Bytes as stored", number: true, of: (t) => t.read, show: (t) => bytes(t.read) },
    { name: "decoded", title: "Bytes of pixels decoded from them", number: true, of: (t) => t.decoded, show: (t) => bytes(t.decoded) },
    { name: "written", title: "Bytes as stored", number: true, of: (t) => t.written, show: (t) => bytes(t.written) },
    { name: "encoded", title: "Bytes of the pixels in them", number: true, of: (t) => t.encoded, show: (t) => bytes(t.encoded) },
    { name: "pixels / stored", title: "Bytes of pixels, divided by bytes as stored", number: true, of: ratio, show: (t) => digits(ratio(t), 2) },
    { name: "from", number: true, of: (t) => t.first, show: (t) => seconds(t.first) },
    { name: "to", number: true, of: (t) => t.last, show: (t) => seconds(t.last) },
    { name: "disk", of: (t) => t.kind, show: (t) => (t.kind ? t.kind + (t.remote ? " (network or FUSE)" : " (local)") : null) },
  ], a.transfers, { key: "transfers" });
}

function attemptChart(host, a) {
  const t = edges(a.curve.hi.length, a.end - a.start);
  const own = new Axis(a.end - a.start);
  own.name = "attempt " + a.id;
  chart(host, own, {
    height: 170,
    legend: true,
    scales: { y: { range: fromZero(Math.max(a.declared_mb || 0, a.peak_mb || 0)) }, cpu: { range: fromZero(a.threads) } },
    left: { values: tickTexts(mb) },
    right: axisStyle({ side: 1, size: RIGHT, scale: "cpu", grid: { show: false } }),
    series: [
      timeSeries(),
      stepSeries("memory", css("--ink"), mb, { fill: css("--cpu-fill"), spanGaps: true }),
      stepSeries("private", css("--cpu"), mb, { width: 1, spanGaps: true }),
      stepSeries("declared", css("--declared"), mb, { dash: [6, 3] }),
      stepSeries("processors", css("--io"), oneDecimal, { scale: "cpu", dash: [4, 2], width: 1 }),
    ],
    renew: () => [t, held(a.curve.hi), held(a.curve.private), t.map(() => a.declared_mb || null), held(a.curve.cpu)],
  });
}

function stepBars(a) {
  const total = a.end - a.start || 1;
  return el("div", { class: "steps" }, a.steps.map(([name, start, end, depth]) => {
    const bar = el("span", { class: "bar" });
    bar.style.marginLeft = (100 * start) / total + "%";
    bar.style.width = Math.max(0.3, (100 * (end - start)) / total) + "%";
    return el("div", {}, el("span", { class: "name" }, "  ".repeat(depth) + name + " · " + seconds(end - start)), el("span", { class: "lane" }, bar));
  }));
}
