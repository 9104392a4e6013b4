// Places that are worth a look, from the worst on: residuals of registration, the brightest of the negated difference.

import { number } from "./status.js";

export class Tours {
  // `say(text)` shows a message.
  constructor(app, say) {
    Object.assign(this, { app, say });
    this.forget();
  }

  forget() {
    this.at = { block: -1, negative: -1 };
    this.blocks = null;
    this.place = null; // of the last one, {x, y}
  }

  // The next of some places, {x, y, text}; after the last comes the first.
  next(of, places, what) {
    const at = (this.at[of] = (this.at[of] + 1) % places.length);
    const place = places[at];
    this.place = place;
    this.say(what + " " + (at + 1) + " of " + places.length + ": " + place.text + " at x " + place.x.toFixed(0) + ", y " + place.y.toFixed(0) + ".");
    return place;
  }

  async block() {
    const { app } = this, home = app.home;
    if (!this.blocks) this.blocks = worst(await app.get(home + "blocks.json"));
    if (home !== app.home) return null;
    if (this.blocks.length) return this.next("block", this.blocks, "Residual");
    this.say("No residuals: registration used no blocks of this pair.");
    return null;
  }

  negative(list) {
    const found = list ? list.negatives : [];
    if (found.length) return this.next("negative", found.map(([x, y, snr]) => ({ x, y, text: "signal-to-noise ratio " + number(-snr) })), "Dark spot");
    this.say("Dark spots are not known: the search did not keep their places.");
    return null;
  }
}

// Blocks that were used, the largest residual first.
function worst({ columns, rows }) {
  const [x, y, dx, dy, used] = ["x", "y", "dx", "dy", "used"].map((name) => columns.indexOf(name));
  const size = (row) => Math.hypot(row[dx], row[dy]);
  return rows.filter((row) => row[used]).sort((a, b) => size(b) - size(a)).map((row) => ({ x: row[x], y: row[y], text: number(size(row)) + " px" }));
}
