/**
 * The live view of a run: a header of its own, and below it a KeyedTree that the kernel patches. The kernel joins
 * run_tree.js and run_place.js in front of this file.
 *
 * Messages from the kernel carry a number. The page says hello and gets a snapshot; when a number is missing, it says
 * hello again. Times are milliseconds.
 *
 * @typedef {{question: string, language: string, status: string, mark: string, label: string, counts: string,
 *   elapsed: number, ended: boolean, announce: string}} Head
 * @typedef {{type: "snapshot" | "patch", seq: number, tree: Patch, head?: Head}} Update; the header only when it changed
 */

const HELLO_AGAIN_MS = 400;

/** `12 s`, `2 min 05 s`. @param {number} ms @returns {string} */
function clock(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

/** @param {string} label @param {string} css @param {() => void} onClick @returns {HTMLButtonElement} */
function button(label, css, onClick) {
  const made = /** @type {HTMLButtonElement} */ (element("button", css));
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", onClick);
  return made;
}

/**
 * Approve, Deny and a note to the agent.
 * @param {{request?: string, tool?: string}} data @param {(message: object) => void} send @returns {HTMLElement}
 */
function makeControls(data, send) {
  const row = element("div", "af-controls");
  const note = /** @type {HTMLInputElement} */ (element("input", "af-note"));
  note.type = "text";
  note.placeholder = "Note to the agent (optional)";
  note.setAttribute("aria-label", `Note to the agent about ${data.tool}, optional`);
  // JupyterLab's shortcuts must not act on what is typed here.
  note.addEventListener("keydown", (event) => event.stopPropagation());
  const said = element("span", "af-quiet");
  /** @param {boolean} approved */
  const decide = (approved) => {
    row.dataset.decided = "yes";
    send({ type: "decide", request: data.request, approved, instruction: note.value });
    for (const control of [approve, deny, note]) control.disabled = true;
    said.textContent = `${approved ? "Approved" : "Denied"}. The run goes on as soon as other work in progress is done.`;
  };
  const approve = button("Approve", "af-button af-primary", () => decide(true));
  const deny = button("Deny", "af-button", () => decide(false));
  approve.setAttribute("aria-label", `Approve ${data.tool}`);
  deny.setAttribute("aria-label", `Deny ${data.tool}`);
  row.append(approve, deny, note, said);
  return row;
}

/** The header: question, status, time, counts, Stop. */
class Header {
  /** @param {() => void} stop */
  constructor(stop) {
    this.root = element("div", "af-head");
    this.question = element("div", "af-question");
    this.mark = element("span", "af-mark");
    this.mark.setAttribute("aria-hidden", "true");
    this.label = element("span", "af-status");
    this.time = element("span", "af-time");
    this.counts = element("span", "af-counts");
    this.stop = button("Stop", "af-button af-stop", () => {
      this.stop.disabled = true;
      stop();
    });
    this.stop.setAttribute("aria-label", "Stop this run");
    this.stop.hidden = true;
    const meta = element("div", "af-meta");
    meta.append(this.mark, this.label, this.time, this.counts, this.stop);
    this.root.append(this.question, meta);
    this.started = performance.now();
    this.ended = false;
  }

  /** @param {Head} head */
  show(head) {
    this.question.textContent = head.question;
    this.question.lang = head.language;
    this.mark.className = `af-mark af-${head.status}`;
    this.mark.textContent = head.mark;
    this.label.textContent = head.label;
    this.counts.textContent = head.counts;
    this.started = performance.now() - head.elapsed;
    this.ended = head.ended;
    this.stop.hidden = head.ended;
    this.time.textContent = clock(head.elapsed);
  }

  tick() {
    if (!this.ended) this.time.textContent = clock(performance.now() - this.started);
  }
}

/** @param {{model: any, el: HTMLElement}} context what anywidget gives @returns {() => void} */
function render({ model, el }) {
  const send = (/** @type {object} */ message) => model.send(message);
  const header = new Header(() => send({ type: "stop" }));
  const body = element("div", "af-tree");
  const announcer = element("div", "af-announcer");
  announcer.setAttribute("role", "status");
  announcer.setAttribute("aria-live", "polite");
  const root = element("section", "af-run af-live mathjax_ignore tex2jax_ignore");
  root.setAttribute("aria-label", "Run");
  root.append(header.root, body, announcer);
  el.append(root);
  const tree = new KeyedTree(body, (data) => makeControls(data, send));
  const place = new Place(body);
  let seq = -1;
  let asked = 0;

  const hello = () => {
    if (performance.now() - asked < HELLO_AGAIN_MS) return;
    asked = performance.now();
    send({ type: "hello" });
  };

  /** @param {Update} update */
  const take = (update) => {
    if (update.type === "patch" && update.seq !== seq + 1) {
      if (update.seq > seq) hello();
      return;
    }
    seq = update.seq;
    const { head } = update;
    place.keepWhile(head?.ended ?? header.ended, () => {
      if (update.type === "snapshot") tree.reset(update.tree);
      else tree.apply(update.tree);
      if (head) header.show(head);
    });
    if (head && head.announce !== announcer.textContent) announcer.textContent = head.announce;
  };

  /** @param {any} message */
  const onMessage = (message) => {
    if (message.type === "ping") send({ type: "pong", id: message.id });
    else take(message);
  };
  model.on("msg:custom", onMessage);
  asked = -HELLO_AGAIN_MS;
  hello();
  const ticking = setInterval(() => {
    header.tick();
    if (seq < 0) hello();
  }, 200);
  return () => {
    clearInterval(ticking);
    model.off("msg:custom", onMessage);
    place.handOver();
  };
}

export default { render };
