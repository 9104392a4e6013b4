// Elements of the report and of the viewer. Text from outside always becomes text: nothing here takes markup.

// Whether there is a value to show.
export const isKnown = (value) => value !== null && value !== undefined && value !== "";

export function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  return add(made, children);
}

export function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (isKnown(child) && child !== false) parent.append(child);
  }
  return parent;
}

export function fill(parent, ...children) {
  parent.replaceChildren(add(document.createDocumentFragment(), children));
}

// A text of reasons: each sentence of `why` unfolds its numbers and what helps; `show` makes a link to its place, or nothing.
export function reasonsOf(text, why, show) {
  let rest = text || "";
  const known = (why || []).filter(({ sentence }) => {
    const found = rest.includes(sentence);
    rest = rest.replace(sentence, " ");
    return found;
  });
  const parts = known.map(({ sentence, numbers, help, at }) => {
    const link = at && show ? [" ", show(at)] : null;
    if (!numbers && !help) return el("p", { class: "message reason" }, sentence, link);
    const helps = help ? el("p", {}, el("span", { class: "soft" }, "What helps: "), help) : null;
    return el("details", { class: "message reason" }, el("summary", {}, sentence, link), numbers ? el("p", {}, numbers) : null, helps);
  });
  const plain = rest.split(/ +/).filter(Boolean).join(" ");
  return [plain ? el("p", { class: "message" }, plain) : null, parts];
}

// Which settings, versions or inputs of results are not those of now.
export function outdatedOf({ outdated }) {
  return outdated ? el("p", { class: "message outdated" }, "Outdated: " + outdated + ".") : null;
}

export function button(text, title, act, attributes) {
  return el("button", { type: "button", title, onclick: act, ...attributes }, text);
}

// `options` are [value, text].
export function select(label, options, value, change) {
  const made = el("select", { "aria-label": label, title: label, onchange: () => change(made.value) });
  return add(made, options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
}

export function copyButton(text, title) {
  const made = button("Copy", title, async () => {
    made.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Select and copy by hand");
    setTimeout(() => (made.textContent = "Copy"), 2000);
  }, { class: "copy" });
  return made;
}
