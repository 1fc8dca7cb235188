/**
 * The page's side of a view: receives updates and sends actions. Runs after all other scripts of this folder.
 *
 * The output of a cell contains an element with the class `af-host-<key>`; the view is mounted in every such element of
 * the page, and in the elements that anywidget passes to `render`, which may be in a shadow root. The page requests a
 * snapshot with `hello`. Updates have sequence numbers; if one is missing, the page sends `hello` again.
 *
 * @typedef {{type: "snapshot" | "patch", seq: number, now: number, tree?: Patch, announce?: string, label?: string,
 *   css?: string, ended?: boolean, saved?: number}} Update `saved`: the number of the saved output
 */

/** `hello` is repeated until a snapshot arrives, at growing intervals: a busy kernel receives all hellos at once. */
const MIN_HELLO_INTERVAL_MS = 400;
const MAX_HELLO_INTERVAL_MS = 10_000;
const TICK_MS = 200;
const OUTPUT_CHECK_DELAY_MS = 800;
const OUTPUT_CHECK_INTERVAL_MS = 5000;
/** A view without an output is closed after this time; a cell that is cut and pasted is absent for less time. */
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
    this.actions = new Actions((action) => model.send({ ...action, page: this.id }), () => this.mounts);
    this.mounts = /** @type {Mount[]} */ ([]);
    this.key = model.get("key");
    this.host = `af-host-${this.key}`;
    this.rendered = /** @type {Set<HTMLElement>} added by `render` */ (new Set());
    this.drafts = new Drafts(model, this.host);
    this.ended = this.closed = this.needsSnapshot = false;
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
    panels.set(this.key, this);
    hostObserver.observe(document.body, { subtree: true, childList: true });
    this.tickTimer = setInterval(() => this.tick(), TICK_MS);
    this.mountAll();
  }

  /** The outputs of the panel in the page. @returns {HTMLElement[]} */
  get outputs() {
    return [...outputHosts].filter((host) => host.classList.contains(this.host));
  }

  /** Mount the view in an element until the returned function is called. @param {HTMLElement} container @returns {() => void} */
  render(container) {
    const host = element("div", "af-host");
    container.append(host);
    if (this.final === undefined) this.rendered.add(host);
    else host.innerHTML = this.final;
    this.mountAll();
    return () => {
      this.rendered.delete(host);
      host.remove();
      this.mountAll();
    };
  }

  /** Mount the view in every output; move a mounted view if the notebook rendered its output again. */
  mountAll() {
    const detached = this.mounts.filter((mount) => mount.isDetached);
    for (const host of [...this.outputs, ...this.rendered]) {
      if (isMountedIn(this, host)) continue;
      prepareHost(host);
      const mount = detached.shift();
      if (mount) mount.moveTo(host);
      else this.mountIn(host);
    }
    for (const mount of detached) mount.handOver();
  }

  /** @param {HTMLElement} host */
  mountIn(host) {
    this.mounts.push(new Mount(host, this));
    this.hello();
  }

  /** Request a snapshot; `tick` repeats the request until the snapshot arrives. */
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
    return this.rendered.size > 0 || this.outputs.length > 0 || findOutput(this.model, this.host) !== null;
  }

  /** @param {any} message */
  receive(message) {
    if (message.type === "ping") {
      if (this.hasOutput) this.model.send({ type: "pong" });
    } else if (message.type === "received") {
      if (message.page === this.id) this.actions.confirm(message.id);
    } else if (message.type === "result") {
      if (message.page === this.id) this.actions.resolve(message.id, message);
    } else if (message.type === "saved") {
      setTimeout(() => this.checkOutput(message.n, message.last), OUTPUT_CHECK_DELAY_MS);
    } else if (message.type === "output") {
      if (message.page !== this.id) return;
      if (this.ended) this.showFinal(message.data["text/html"]);
      if (writeOutput(this.model, this.host, message.data)) this.closeIfGone();
    } else if (message.type === "effect") {
      if (message.page === this.id) this.runEffect(message);
    } else if (message.type === "snapshot" || message.type === "patch") {
      this.applyUpdate(message);
    }
  }

  /** Replace the views that `render` has added by the last saved output. @param {string} html */
  showFinal(html) {
    if (!this.rendered.size) return;
    this.final = html;
    for (const host of this.rendered) host.innerHTML = html;
    this.rendered.clear();
    this.mounts = this.mounts.filter((mount) => !mount.isDetached);
    clearInterval(this.tickTimer);
  }

  /** Request the saved output if the output in the page or notebook is older. @param {number} n @param {boolean} last */
  checkOutput(n, last) {
    if (this.closed) return;
    this.ended = last;
    const numbers = [findOutput(this.model, this.host)?.n ?? n, ...this.outputs.map(outputNumber)];
    if (last ? this.hasOutput : numbers.some((number) => number < n)) this.model.send({ type: "output", page: this.id });
    else this.closeIfGone();
  }

  /** Close an ended view once the last saved output, which has no host element, is in the page. */
  closeIfGone() {
    if (this.ended && !this.hasOutput) this.model.send({ type: "gone" });
  }

  /** @param {Effect} effect */
  async runEffect(effect) {
    const mount = this.mounts.find(({ root }) => root.contains(focusedElement())) ?? this.mounts[0];
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
    panels.delete(this.key);
    clearInterval(this.tickTimer);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("comm_live_update", this.onDisconnect);
    this.session?.statusChanged?.disconnect(this.onStatus);
    this.session?.kernelChanged?.disconnect(this.onDisconnect);
    this.actions.close();
    for (const mount of this.mounts) mount.remove();
  }
}
