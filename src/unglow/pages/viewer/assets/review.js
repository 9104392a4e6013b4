// Decisions on the candidates of a pair: shown at once, saved in order, undone on request.

const NOTHING = { decision: "", note: "" };

export class Review {
  // `heard(review)` is called after each change.
  constructor(app, heard) {
    Object.assign(this, { app, heard, home: app.home });
    this.saved = new Map();
    this.counts = {};
    this.writable = false;
    this.why = "";
    this.problem = "";
    this.waiting = new Map();
    this.sending = null;
    this.done = [];
    this.undone = [];
  }

  async read() {
    const turn = (this.reading = {});
    try {
      const saved = await this.app.get(this.home + "review.json");
      if (turn === this.reading) this.take(saved);
    } catch (error) {
      if (turn === this.reading) Object.assign(this, { writable: false, why: "The review cannot be read: " + error.message });
    }
    this.heard(this);
  }

  take({ decisions, counts, writable = this.writable, why = "" }) {
    this.reading = null;
    this.saved = new Map(decisions.filter(({ id }) => id !== null).map((one) => [one.id, one]));
    Object.assign(this, { counts: counts || {}, writable, why });
  }

  // Others may have decided meanwhile.
  refresh() {
    if (this.waiting.size) this.send();
    else if (!this.sending) this.read();
  }

  of(id) {
    return this.waiting.get(id) || (this.sending && this.sending.get(id)) || this.saved.get(id) || NOTHING;
  }

  // Whether a decision has not arrived, and will not without another try.
  isUnsaved(id) {
    return Boolean(this.problem) && this.waiting.has(id);
  }

  *all() {
    const known = [this.saved, this.sending, this.waiting].filter(Boolean);
    for (const id of new Set(known.flatMap((map) => [...map.keys()]))) yield [id, this.of(id)];
  }

  // `candidate` has id, x and y; a decision "" takes back what there was.
  decide(candidate, { decision, note }) {
    const before = this.of(candidate.id);
    if (before.decision === decision && before.note === note) return;
    this.done.push({ candidate, before: { decision: before.decision, note: before.note }, after: { decision, note } });
    this.undone = [];
    this.change(candidate, { decision, note });
  }

  // Returns the candidate that it was about, or null.
  undo() {
    return this.move(this.done, this.undone, "before");
  }

  redo() {
    return this.move(this.undone, this.done, "after");
  }

  move(from, to, which) {
    const step = from.pop();
    if (!step) return null;
    to.push(step);
    this.change(step.candidate, step[which]);
    return step.candidate;
  }

  change(candidate, decision) {
    this.waiting.set(candidate.id, { ...candidate, ...decision });
    this.send();
    this.heard(this);
  }

  // One request at a time, so that the last word about a candidate is the last that arrives.
  async send() {
    if (this.sending || !this.waiting.size) return;
    [this.sending, this.waiting] = [this.waiting, new Map()];
    this.reading = null;
    try {
      this.take(await this.app.post(this.home + "review", { changes: [...this.sending.values()] }));
      this.problem = "";
      this.sending = null;
    } catch (error) {
      this.waiting = new Map([...this.sending, ...this.waiting]);
      this.sending = null;
      this.problem = error instanceof TypeError ? "the server does not answer" : error.message;
    }
    this.heard(this);
    if (!this.problem) this.send();
  }
}
