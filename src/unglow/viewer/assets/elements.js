// Building elements. Text from outside always becomes text: nothing here takes markup.

export function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...shown(children));
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...shown(children));
}

function shown(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export function button(text, title, act, attributes) {
  return el("button", { type: "button", title, onclick: act, ...attributes }, text);
}

export function select(label, options, value, change) {
  const made = el("select", { "aria-label": label, title: label, onchange: () => { made.blur(); change(made.value); } }); // keys go to the view again
  for (const [key, text] of options) made.append(el("option", { value: key, selected: key === value }, text));
  return made;
}

// A text as lines of a canvas; `parts` says where it may break.
export function wrapped(context, text, width, parts = /(?<= )/) {
  const lines = [""];
  for (const word of text.split(parts)) {
    const longer = lines[lines.length - 1] + word;
    if (context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
