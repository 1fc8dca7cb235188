/**
 * The page's side of a view: receives updates and sends actions. Runs after all other scripts of this folder.
 *
 * The output of a cell contains an element with the class `af-host-<key>`; the view is mounted in every such element of
 * the page. The page requests a snapshot with `hello`. Updates have sequence numbers; if one is missing, the page sends
 * `hello` again.
 *
 * @typedef {{type: "snapshot" | "patch", seq: number, now: number, tree?: Patch, announce?: string, label?: string,
 *   css?: string, ended?: boolean, saved?: number}} Update `saved`: the number of the saved output
 */

/** `hello` is repeated until a snapshot arrives, at growing intervals: a busy kernel receives all of them at once. */
const MIN_HELLO_INTERVAL_MS = 400;
const MAX_HELLO_INTERVAL_MS = 10_000;
const TICK_MS = 200;
const OUTPUT_CHECK_DELAY_MS = 800;
const ACTION_TIMEOUT_MS = 15_000;
const OUTPUT_CHECK_INTERVAL_MS = 5000;
/** A view without an output is closed after this time; a cell that is cut and pasted is absent for less. */
const GONE_AFTER_MS = 20_000;
const DEAD_STATUSES = ["restarting", "autorestarting", "terminating", "dead"];

class Panel {
  /** @param {any} model the widget's model */
  constructor(model) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.startedAt = Date.now();
    this.seq = -1;
    this.lastHello = -MIN_HELLO_INTERVAL_MS;
    this.helloInterval = MIN_HELLO_INTERVAL_MS;
    this.needsSnapshot = false;
    this.lastActionId = 0;
    /** @type {Map<number, {resolve: (result: ActionResult) => void, timer: number}>} */
    this.pending = new Map();
    /** @type {Mount[]} */
    this.mounts = [];
    this.host = `af-host-${model.get("key")}`;
    this.hosts = document.getElementsByClassName(this.host);
    this.drafts = new Drafts(model, this.host);
    this.ended = this.closed = false;
    this.lastPresent = this.lastCheck = performance.now();
    this.onMessage = (/** @type {any} */ message) => this.receive(message);
    model.on("msg:custom", this.onMessage);
    // Without a kernel the saved output is displayed again.
    this.onDisconnect = () => this.close();
    model.on("comm_live_update", this.onDisconnect);
    this.onStatus = (/** @type {any} */ _context, /** @type {string} */ status) => DEAD_STATUSES.includes(status) && this.close();
    this.session = model.widget_manager?.context?.sessionContext;
    this.session?.statusChanged?.connect(this.onStatus);
    this.session?.kernelChanged?.connect(this.onDisconnect);
    this.observer = new MutationObserver(() => this.mountAll());
    this.observer.observe(document.body, { subtree: true, childList: true });
    this.tickTimer = setInterval(() => this.tick(), TICK_MS);
    this.mountAll();
  }

  /** Mount the view in every output of it; move a mounted view if the notebook rendered its output again. */
  mountAll() {
    const detached = this.mounts.filter((mount) => mount.isDetached);
    for (const host of this.hosts) {
      if (host.querySelector(":scope > .af-live")) continue; // mounted by this panel, or by that of a console of the same kernel
      if (this.mounts.some((mount) => mount.host === host && !mount.isShown)) continue;
      const mount = detached.shift();
      if (mount) mount.moveTo(/** @type {HTMLElement} */ (host));
      else this.mountIn(/** @type {HTMLElement} */ (host));
    }
    for (const mount of detached) mount.handOver();
  }

  /** @param {HTMLElement} host */
  mountIn(host) {
    const perform = (/** @type {string} */ name, /** @type {object} */ args) => this.perform(name, args);
    const hold = (/** @type {boolean} */ on) => this.model.send({ type: "hold", page: this.id, on });
    const add = (/** @type {string} */ source, /** @type {HTMLElement} */ root) =>
      addCell(this.model, root, { name: "cell", source, cell_type: "code" });
    this.mounts.push(new Mount(host, perform, this.drafts, hold, add));
    this.hello();
  }

  /** Request a snapshot; repeated by `tick` until it arrives. */
  hello() {
    this.needsSnapshot = true;
    if (performance.now() - this.lastHello < this.helloInterval) return;
    this.lastHello = performance.now();
    this.helloInterval = Math.min(2 * this.helloInterval, MAX_HELLO_INTERVAL_MS);
    this.model.send({ type: "hello" });
  }

  tick() {
    if (this.needsSnapshot) this.hello();
    reportRequests(this);
    for (const mount of this.mounts) mount.tick();
    const now = performance.now();
    if (now - this.lastCheck < OUTPUT_CHECK_INTERVAL_MS) return;
    this.lastCheck = now;
    if (this.hasOutput) this.lastPresent = now;
    else if (now - this.lastPresent > GONE_AFTER_MS) this.model.send({ type: "gone" });
  }

  /** True if the output is in the page or in the notebook: JupyterLab removes cells far outside the viewport from the page. */
  get hasOutput() {
    return this.hosts.length > 0 || findOutput(this.model, this.host) !== null;
  }

  /** @param {string} act @param {object} args @returns {Promise<ActionResult>} */
  perform(act, args) {
    const id = ++this.lastActionId;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.mounts.forEach((mount) => mount.showNotice(uiText("page_no_answer"))), ACTION_TIMEOUT_MS);
      this.pending.set(id, { resolve, timer });
      this.model.send({ type: "act", id, page: this.id, act, args });
    });
  }

  /** @param {number} id @param {ActionResult} result */
  resolveAction(id, result) {
    const action = this.pending.get(id);
    if (!action) return;
    clearTimeout(action.timer);
    this.pending.delete(id);
    for (const mount of this.mounts) mount.clearNotice(uiText("page_no_answer"));
    action.resolve(result);
  }

  /** @param {any} message */
  receive(message) {
    if (message.type === "ping") {
      if (this.hasOutput) this.model.send({ type: "pong" });
    } else if (message.type === "result") {
      if (message.page === this.id) this.resolveAction(message.id, message);
    } else if (message.type === "saved") {
      setTimeout(() => this.checkOutput(message.n, message.last), OUTPUT_CHECK_DELAY_MS);
    } else if (message.type === "output") {
      if (message.page === this.id && writeOutput(this.model, this.host, message.data)) this.closeIfGone();
    } else if (message.type === "effect") {
      if (message.page === this.id) this.runEffect(message);
    } else {
      this.applyUpdate(message);
    }
  }

  /** Request the saved output if that in the page or notebook is older. @param {number} n @param {boolean} last */
  checkOutput(n, last) {
    if (this.closed) return;
    this.ended = last;
    const numbers = [findOutput(this.model, this.host)?.n ?? n, ...[...this.hosts].map(outputNumber)];
    const isStale = last ? this.hasOutput : numbers.some((number) => number < n);
    if (isStale) this.model.send({ type: "output", page: this.id });
    else this.closeIfGone();
  }

  /** Close the view after its end, once the last saved output, which has no host element, is in place. */
  closeIfGone() {
    if (this.ended && !this.hasOutput) this.model.send({ type: "gone" });
  }

  /** @param {Effect} effect */
  async runEffect(effect) {
    const mount = this.mounts.find(({ root }) => root.contains(document.activeElement)) ?? this.mounts[0];
    if (!mount) return;
    const message = await runEffect(this.model, mount.root, mount.tree, effect);
    const line = formStatus(mount.tree, effect);
    if (message) line ? (line.textContent = message) : mount.showNotice(message);
  }

  /** @param {Update} update */
  applyUpdate(update) {
    if (update.type === "patch" && update.seq !== this.seq + 1) return update.seq > this.seq ? this.hello() : undefined;
    this.seq = update.seq;
    if (update.type === "snapshot") {
      this.needsSnapshot = false;
      this.helloInterval = MIN_HELLO_INTERVAL_MS;
      this.offset = update.now - Date.now();
      if (update.saved) setTimeout(() => this.checkOutput(update.saved, Boolean(update.ended)), OUTPUT_CHECK_DELAY_MS);
    }
    for (const mount of this.mounts) mount.show(update, this.offset ?? 0);
  }

  close() {
    this.closed = true;
    reportRequests(this);
    this.observer.disconnect();
    clearInterval(this.tickTimer);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("comm_live_update", this.onDisconnect);
    this.session?.statusChanged?.disconnect(this.onStatus);
    this.session?.kernelChanged?.disconnect(this.onDisconnect);
    for (const { timer } of this.pending.values()) clearTimeout(timer);
    for (const mount of this.mounts) mount.remove();
  }
}

/** Called by anywidget once per page, even if the widget is not displayed. @param {{model: any}} context */
function initialize({ model }) {
  const panel = new Panel(model);
  return () => panel.close();
}

export default { initialize };
