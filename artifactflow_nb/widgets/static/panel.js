/**
 * The page's end of a view. The kernel joins tree.js, place.js, form.js, ask.js, effects.js, face.js and mount.js in front of it.
 *
 * The cell's output is HTML with an element of the class `af-host-<key>`; the view is mounted in each that the page
 * shows. Messages from the kernel carry a number. The page says hello and gets a snapshot; when a number is missing, it
 * says hello again. Times are milliseconds.
 *
 * @typedef {{type: "snapshot" | "patch", seq: number, now: number, tree?: Patch, announce?: string, label?: string,
 *   css?: string, ended?: boolean}} Update
 */

const HELLO_AGAIN_MS = 400;
const TICK_MS = 200;
const KEPT_WITHIN_MS = 800;
const ANSWER_WITHIN_MS = 15_000;
const NO_ANSWER = "The kernel has not answered. It may be busy with a cell; what you pressed is done as soon as it is free.";

class Panel {
  /** @param {any} model what anywidget gives */
  constructor(model) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.seq = -1;
    this.asked = -HELLO_AGAIN_MS;
    this.acts = 0;
    /** @type {Map<number, (told: Told) => void>} */
    this.waiting = new Map();
    /** @type {Mount[]} */
    this.mounts = [];
    this.host = `af-host-${model.get("key")}`;
    this.hosts = document.getElementsByClassName(this.host);
    this.ended = false;
    this.onMessage = (/** @type {any} */ message) => this.hear(message);
    model.on("msg:custom", this.onMessage);
    this.observer = new MutationObserver(() => this.look());
    this.observer.observe(document.body, { subtree: true, childList: true });
    this.ticking = setInterval(() => this.tick(), TICK_MS);
    this.look();
  }

  /** Mount the view wherever the page shows its output, and take it along where an output was drawn anew. */
  look() {
    const homeless = this.mounts.filter((mount) => !mount.root.isConnected);
    for (const host of this.hosts) {
      if (this.mounts.some((mount) => mount.host === host && mount.root.isConnected)) continue;
      const moved = homeless.shift();
      if (moved) moved.moveTo(/** @type {HTMLElement} */ (host));
      else this.mountIn(/** @type {HTMLElement} */ (host));
    }
    for (const mount of homeless) mount.place.handOver();
  }

  /** @param {HTMLElement} host */
  mountIn(host) {
    this.mounts.push(new Mount(host, (act, args) => this.perform(act, args)));
    this.hello();
  }

  hello() {
    if (performance.now() - this.asked < HELLO_AGAIN_MS) return;
    this.asked = performance.now();
    this.model.send({ type: "hello" });
  }

  tick() {
    if (this.seq < 0 && this.mounts.length) this.hello();
    for (const mount of this.mounts) mount.tick();
  }

  /** @param {string} act @param {object} args @returns {Promise<Told>} */
  perform(act, args) {
    const id = ++this.acts;
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      setTimeout(() => this.settle(id, { message: NO_ANSWER, failed: false, errors: {} }), ANSWER_WITHIN_MS);
      this.model.send({ type: "act", id, page: this.id, act, args });
    });
  }

  /** @param {number} id @param {Told} told */
  settle(id, told) {
    this.waiting.get(id)?.(told);
    this.waiting.delete(id);
  }

  /** @param {any} message */
  hear(message) {
    if (message.type === "ping") {
      if (this.mounts.some((mount) => mount.root.isConnected)) this.model.send({ type: "pong" });
    } else if (message.type === "told") {
      if (message.page === this.id) this.settle(message.id, message);
    } else if (message.type === "kept") {
      setTimeout(() => this.checkFace(message.n, message.last), KEPT_WITHIN_MS);
    } else if (message.type === "face") {
      if (message.page === this.id && writeFace(this.model, this.host, message.data)) this.leaveIfGone();
    } else if (message.type === "effect") {
      if (message.page === this.id) this.carryOut(message);
    } else {
      this.take(message);
    }
  }

  /** Whether the output holds the newest face; if not, ask for it. @param {number} n @param {boolean} last */
  checkFace(n, last) {
    this.ended = last;
    const stale = [...this.hosts].some((host) => last || !host.classList.contains(`af-face-${n}`));
    if (stale) this.model.send({ type: "face", page: this.id });
    else this.leaveIfGone();
  }

  /** After the end, when the output holds the last face, nothing is left to show. */
  leaveIfGone() {
    if (this.ended && !this.hosts.length) this.model.send({ type: "gone" });
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
    if (update.type === "snapshot") this.offset = update.now - Date.now();
    for (const mount of this.mounts) mount.show(update, this.offset ?? 0);
  }

  close() {
    this.observer.disconnect();
    clearInterval(this.ticking);
    this.model.off("msg:custom", this.onMessage);
    for (const mount of this.mounts) mount.remove();
  }
}

/** @param {{model: any}} context what anywidget gives once, whether or not the widget is displayed */
function initialize({ model }) {
  const panel = new Panel(model);
  return () => panel.close();
}

export default { initialize };
