// What is asked of the server, and sent to it. Errors have its sentence.

const GONE = "The server does not answer: start `unglow app` again. A run continues without it.";

async function answerOf(path, options) {
  const answer = await fetch(path, { cache: "no-store", ...options }).catch(() => null);
  if (!answer) throw new Error(GONE);
  const said = await answer.json().catch(() => null);
  if (answer.ok) return said;
  const error = new Error((said && said.error) || "The server answers with status " + answer.status + ".");
  error.isConflict = answer.status === 409;
  throw error;
}

export const ask = (path) => answerOf(path, {});

export const send = (path, content) => answerOf(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });

// Results and progress, as the live page has them.
export class News {
  constructor() {
    this.version = 0;
    this.pairs = [];
    this.runs = [];
    this.now = [];
  }

  async read() {
    const news = await ask("../news?since=" + this.version);
    for (const name of ["pairs", "runs", "now"]) this[name] = news[name] || this[name];
    const changed = news.version !== this.version;
    this.version = news.version;
    return changed;
  }

  get last() {
    return this.runs[this.runs.length - 1];
  }
}
