// Two images that are shown in turns.

export class Blinking {
  constructor(app) {
    this.app = app;
    this.timer = null;
  }

  // Begin with the first one; without motion, Space switches.
  start() {
    const { app } = this;
    this.stop();
    app.panes[0].shown.front = 0;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (app.address.get("mode") === "blink" && !still) this.timer = setInterval(() => this.turn(), 500 / app.address.get("hz"));
    app.named();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
  }

  // Show the other one.
  turn() {
    const [pane] = this.app.panes;
    pane.arrange({ front: 1 - pane.shown.front });
    this.app.named();
  }

  // Stop, or show the other one.
  hold() {
    if (this.timer) this.stop();
    else this.turn();
  }
}
