// The mouse or a pen over a pane, for tools that draw: what a tool takes does not move the picture.

// A longer move is not a click, screen px.
const STILL = 4;

// `tool` has isOn(), grab(pane, place, at) -> {move(place), end(moved)} or null, click(pane, place, at), and may have
// hover(pane, place). Where it draws() the second click in a row, twice(pane), does not zoom. `place` is px of the pane's
// image, `at` of the pane.
export function attendTo(pane, tool) {
  const { element, viewer } = pane;
  let down = null;
  const on = (name, act) => element.addEventListener(name, (event) => (tool.isOn() && pane.ready) && act(event, spot(pane, event)), { capture: true });
  on("pointerdown", (event, { at, place }) => {
    if (event.button !== 0) return;
    down = { at, grip: tool.grab(pane, place, at), isMoved: false };
    if (!down.grip) return; // it moves the picture, or is a click
    element.setPointerCapture(event.pointerId);
    event.stopPropagation();
  });
  on("pointermove", (event, { at, place }) => {
    if (!down) {
      if (tool.hover) tool.hover(pane, place, at);
      return;
    }
    down.isMoved ||= Math.hypot(at[0] - down.at[0], at[1] - down.at[1]) > STILL;
    if (!down.grip) return;
    event.stopPropagation();
    if (down.isMoved) down.grip.move(place);
  });
  on("pointerup", (event, { at, place }) => {
    if (!down) return;
    const { grip, isMoved } = down;
    down = null;
    if (grip) {
      event.stopPropagation();
      grip.end(isMoved);
    }
    if (!isMoved && !grip) tool.click(pane, place, at);
  });
  element.addEventListener("pointercancel", () => (down = null), { capture: true });
  on("dblclick", () => tool.twice && tool.twice(pane));
  viewer.addHandler("canvas-double-click", (event) => (event.preventDefaultAction ||= tool.isOn() && tool.draws()));
}

function spot(pane, event) {
  const box = pane.element.getBoundingClientRect();
  const at = [event.clientX - box.left, event.clientY - box.top];
  return { at, place: pane.pixelAt(...at) };
}

// A cross in the middle of a pane, for those who point with keys.
export function drawCross(context, [x, y], size = 11, colour = "#ffffff") {
  context.beginPath();
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    context.moveTo(x + 3 * dx, y + 3 * dy);
    context.lineTo(x + size * dx, y + size * dy);
  }
  strokeHaloed(context, colour, 1.5);
}

// Stroke a path, or the current one, on a dark edge, so that it is seen on any image.
export function strokeHaloed(context, colour, width, path) {
  for (const [wide, style] of [[width + 2.2, "rgb(0 0 0 / 0.65)"], [width, colour]]) {
    context.lineWidth = wide;
    context.strokeStyle = style;
    if (path) context.stroke(path);
    else context.stroke();
  }
}

// A text on a dark ground; `y` is its base line.
export function drawLabel(context, text, x, y, colour) {
  context.fillStyle = "rgb(0 0 0 / 0.6)";
  context.fillRect(x - 4, y - 13, context.measureText(text).width + 8, 18);
  context.fillStyle = colour;
  context.fillText(text, x, y);
}
