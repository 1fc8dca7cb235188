/**
 * The page's end of a view. The kernel joins all other scripts in front of it.
 *
 * The cell's output is HTML with an element of the class `af-host-<key>`; the view is mounted in each that the page
 * shows. Messages from the kernel carry a number. The page says hello and gets a snapshot; when a number is missing, it
 * says hello again. Times are milliseconds.
 *
 * @typedef {{type: "snapshot" | "patch", seq: number, now: number, tree?: Patch, announce?: string, label?: string,
 *   css?: string, ended?: boolean, saved?: number}} Update `saved`: the number of the saved output
 */

/** A hello is repeated until it is answered: a busy kernel, which hears them all at once, is asked less and less often. */
const HELLO_AGAIN_MS = 400;
const HELLO_AT_LEAST_MS = 10_000;
const TICK_MS = 200;
const SAVED_WITHIN_MS = 800;
const ANSWER_WITHIN_MS = 15_000;
const LOOK_FOR_OUTPUT_MS = 5000;
/** A cell that is moved by cutting and pasting is nowhere for a while. */
const GONE_AFTER_MS = 20_000;
const DEAD = ["restarting", "autorestarting", "terminating", "dead"];
const NO_ANSWER = "The kernel has not answered. It may be busy with a cell; what you pressed is done as soon as it is free.";

class Panel {
  /** @param {any} model what anywidget gives */
  constructor(model) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.seq = -1;
    this.asked = -HELLO_AGAIN_MS;
    this.patience = HELLO_AGAIN_MS;
    this.wantsAll = false;
    this.acts = 0;
    /** @type {Map<number, {resolve: (result: ActionResult) => void, late: number}>} */
    this.waiting = new Map();
    /** @type {Mount[]} */
    this.mounts = [];
    this.host = `af-host-${model.get("key")}`;
    this.hosts = document.getElementsByClassName(this.host);
    this.drafts = new Drafts(model, this.host);
    this.ended = false;
    this.closed = false;
    this.held = performance.now();
    this.looked = this.held;
    this.onMessage = (/** @type {any} */ message) => this.hear(message);
    model.on("msg:custom", this.onMessage);
    // Nobody answers any more: the saved output is to stand there again.
    this.onDead = () => this.close();
    model.on("comm_live_update", this.onDead);
    this.onStatus = (/** @type {any} */ _context, /** @type {string} */ status) => DEAD.includes(status) && this.close();
    this.session = model.widget_manager?.context?.sessionContext;
    this.session?.statusChanged?.connect(this.onStatus);
    this.session?.kernelChanged?.connect(this.onDead);
    this.observer = new MutationObserver(() => this.look());
    this.observer.observe(document.body, { subtree: true, childList: true });
    this.ticking = setInterval(() => this.tick(), TICK_MS);
    this.look();
  }

  /** Mount the view wherever the page shows its output, and take it along where an output was drawn anew. */
  look() {
    const homeless = this.mounts.filter((mount) => mount.isHomeless);
    for (const host of this.hosts) {
      if (host.querySelector(":scope > .af-live")) continue; // ours; or that of a console of the same kernel
      if (this.mounts.some((mount) => mount.host === host && !mount.isShown)) continue;
      const moved = homeless.shift();
      if (moved) moved.moveTo(/** @type {HTMLElement} */ (host));
      else this.mountIn(/** @type {HTMLElement} */ (host));
    }
    for (const mount of homeless) mount.place.handOver();
  }

  /** @param {HTMLElement} host */
  mountIn(host) {
    const act = (/** @type {string} */ name, /** @type {object} */ args) => this.perform(name, args);
    const hold = (/** @type {boolean} */ on) => this.model.send({ type: "hold", page: this.id, on });
    this.mounts.push(new Mount(host, act, this.drafts, hold));
    this.hello();
  }

  /** Ask for all of it; again until it comes. */
  hello() {
    this.wantsAll = true;
    if (performance.now() - this.asked < this.patience) return;
    this.asked = performance.now();
    this.patience = Math.min(2 * this.patience, HELLO_AT_LEAST_MS);
    this.model.send({ type: "hello" });
  }

  tick() {
    if (this.wantsAll) this.hello();
    for (const mount of this.mounts) mount.tick();
    const now = performance.now();
    if (now - this.looked < LOOK_FOR_OUTPUT_MS) return;
    this.looked = now;
    if (this.isHeld) this.held = now;
    else if (now - this.held > GONE_AFTER_MS) this.model.send({ type: "gone" });
  }

  /** Whether the page shows the view, or its notebook holds it: a cell that is scrolled far away is not in the page. */
  get isHeld() {
    return this.hosts.length > 0 || findOutput(this.model, this.host) !== null;
  }

  /** @param {string} act @param {object} args @returns {Promise<ActionResult>} */
  perform(act, args) {
    const id = ++this.acts;
    return new Promise((resolve) => {
      const late = setTimeout(() => this.mounts.forEach((mount) => mount.say(NO_ANSWER)), ANSWER_WITHIN_MS);
      this.waiting.set(id, { resolve, late });
      this.model.send({ type: "act", id, page: this.id, act, args });
    });
  }

  /** @param {number} id @param {ActionResult} result */
  settle(id, result) {
    const waiting = this.waiting.get(id);
    if (!waiting) return;
    clearTimeout(waiting.late);
    this.waiting.delete(id);
    for (const mount of this.mounts) mount.unsay(NO_ANSWER);
    waiting.resolve(result);
  }

  /** @param {any} message */
  hear(message) {
    if (message.type === "ping") {
      if (this.isHeld) this.model.send({ type: "pong" });
    } else if (message.type === "result") {
      if (message.page === this.id) this.settle(message.id, message);
    } else if (message.type === "saved") {
      setTimeout(() => this.checkOutput(message.n, message.last), SAVED_WITHIN_MS);
    } else if (message.type === "output") {
      if (message.page === this.id && writeOutput(this.model, this.host, message.data)) this.leaveIfGone();
    } else if (message.type === "effect") {
      if (message.page === this.id) this.carryOut(message);
    } else {
      this.take(message);
    }
  }

  /** Whether the output holds the newest saved output; if not, ask for it. @param {number} n @param {boolean} last */
  checkOutput(n, last) {
    if (this.closed) return;
    this.ended = last;
    const numbers = [findOutput(this.model, this.host)?.n ?? n, ...[...this.hosts].map(outputNumber)];
    const isStale = last ? this.isHeld : numbers.some((number) => number < n);
    if (isStale) this.model.send({ type: "output", page: this.id });
    else this.leaveIfGone();
  }

  /** After the end, when the output holds the last saved output, nothing is left to show. */
  leaveIfGone() {
    if (this.ended && !this.isHeld) this.model.send({ type: "gone" });
  }

  /** @param {Effect} effect */
  async carryOut(effect) {
    const mount = this.mounts.find((one) => one.root.contains(document.activeElement)) ?? this.mounts[0];
    if (!mount) return;
    const said = await carryOut(this.model, mount.root, mount.tree, effect);
    if (said) mount.say(said);
  }

  /** @param {Update} update */
  take(update) {
    if (update.type === "patch" && update.seq !== this.seq + 1) {
      if (update.seq > this.seq) this.hello();
      return;
    }
    this.seq = update.seq;
    if (update.type === "snapshot") {
      this.wantsAll = false;
      this.patience = HELLO_AGAIN_MS;
      this.offset = update.now - Date.now();
      if (update.saved) setTimeout(() => this.checkOutput(update.saved, Boolean(update.ended)), SAVED_WITHIN_MS);
    }
    for (const mount of this.mounts) mount.show(update, this.offset ?? 0);
  }

  close() {
    this.closed = true;
    this.observer.disconnect();
    clearInterval(this.ticking);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("comm_live_update", this.onDead);
    this.session?.statusChanged?.disconnect(this.onStatus);
    this.session?.kernelChanged?.disconnect(this.onDead);
    for (const { late } of this.waiting.values()) clearTimeout(late);
    for (const mount of this.mounts) mount.remove();
  }
}

/** @param {{model: any}} context what anywidget gives once, whether or not the widget is displayed */
function initialize({ model }) {
  const panel = new Panel(model);
  return () => panel.close();
}

export default { initialize };
