// How images are shown: the name in the address, for people, and the key.

export const MODES = [
  ["single", "one image", "1"], ["blink", "blink", "b"], ["swipe", "swipe", "w"], ["checker", "checkerboard", "k"],
  ["overlay", "two-colour overlay", "o"], ["side", "side by side", "v"], ["composite", "composite", "m"],
];

// A pair has no channels to add up.
export const modesOf = (pair) => MODES.filter(([mode]) => mode !== "composite" || pair.is_slide);
