/**
 * A view mounted in one output of the page, in place of the saved HTML.
 *
 * Clicks and keys on elements with `data-act` perform actions in the kernel; the result is a promise.
 *
 * @typedef {{message: string, failed: boolean, errors: {[field: string]: string}}} ActionResult
 * @typedef {(act: string, args: object) => Promise<ActionResult>} Perform
 */

const MAX_CLICK_DISTANCE_PX = 5;

class Mount {
  /** @param {HTMLElement} host @param {Panel} panel */
  constructor(host, panel) {
    this.panel = panel;
    this.perform = (/** @type {string} */ act, /** @type {object} */ args) => panel.actions.perform(act, args);
    this.root = element("section", "af-run af-live", { lang: UI_LANGUAGE });
    this.body = element("div", "af-tree");
    this.announcer = element("div", "af-announcer", { role: "status", "aria-live": "polite" });
    this.notice = element("div", "af-message", { role: "alert" });
    this.root.append(this.body, this.notice, this.announcer);
    // Remove the error of an earlier action before another action.
    const clearAndPerform = (/** @type {string} */ act, /** @type {object} */ args) => (act === "complete" || this.showNotice(""), this.perform(act, args));
    this.tree = new KeyedTree(this.body, {
      form: (data, key) => panel.drafts.attach(makeForm({ ...data, key }, clearAndPerform), Boolean(data.draft)),
      approval: (data, key, root) =>
        data.choices ? makeQuestionControls({ ...data, key }, this.perform, root) : makeApprovalControls({ ...data, key }, this.perform, root),
      approvals: (_data, _key, root) => makeApprovalGroup(root),
    });
    this.answerPosition = new AnswerPosition(this.body);
    this.follower = new BoxFollower(this.body);
    this.clocks = new Clocks(this.body);
    /** @type {HTMLElement | null} */
    this.focused = null;
    /** @type {Map<Element, number>} */
    this.scrolled = new Map();
    /** False until the first update; until then the saved HTML is displayed. */
    this.isShown = false;
    this.host = host;
    windowObserver.observe(this.root);
    this.listen();
  }

  /** True if the output of the view is no longer in the page. */
  get isDetached() {
    return !(this.isShown ? this.root : this.host).isConnected;
  }

  /** Defer saved outputs during an input method's composition. @param {boolean} on */
  deferSaving(on) {
    this.panel.model.send({ type: "hold", page: this.panel.id, on });
  }

  listen() {
    const refused = translate("Nothing happened: this control had just appeared under the pointer. Click again if you mean it.");
    this.guard = new PointerGuard(this.root, () => this.showNotice(refused));
    this.root.addEventListener("click", (event) => (this.clickTarget = event.target), { capture: true });
    this.root.addEventListener("click", (event) => this.press(event));
    this.root.addEventListener("click", followNote);
    this.root.addEventListener("click", (event) => openSource(this.panel, event));
    this.root.addEventListener("click", async (event) => {
      const message = await pressCodeButton(event, (source) => addCell(this.panel.model, this.root, { name: "cell", source, cell_type: "code" }));
      if (message) this.showNotice(message);
    });
    this.root.addEventListener("pointerdown", (down) => {
      this.isMoved = false;
      this.clickTarget = null;
      document.addEventListener("pointerup", (up) => this.release(down, up), { capture: true, once: true });
    });
    this.root.addEventListener("keydown", (event) => {
      const isButton = /** @type {Element} */ (event.target).closest("button, input, textarea, select, a, summary");
      if (!isButton && (event.key === "Enter" || event.key === " ")) this.press(event);
    });
    this.root.addEventListener("keydown", navigateTree);
    this.root.addEventListener("keydown", pressNumberKey);
    moveCards(this.root, (act, args) => this.performAndReport(act, args));
    this.root.addEventListener("focusin", moveTabStop);
    this.root.addEventListener("focusin", (event) => (this.focused = /** @type {HTMLElement} */ (event.target)));
    this.root.addEventListener("focusout", () => {
      // An element that is removed from the page loses the focus, too; `moveTo` restores it.
      setTimeout(() => {
        if (this.root.isConnected && !this.root.contains(focusedElement())) this.focused = null;
      });
    });
    const remember = (/** @type {any} */ { target }) => this.root.isConnected && this.scrolled.set(target, target.scrollTop);
    // Rendering the output again would interrupt the composition of a word, such as a Chinese word.
    this.root.addEventListener("compositionstart", () => this.deferSaving(true));
    this.root.addEventListener("compositionend", () => this.deferSaving(false));
    this.root.addEventListener("scroll", remember, { capture: true, passive: true });
  }

  /** Move the view to another host element and restore focus and scroll positions. @param {HTMLElement} host */
  moveTo(host) {
    this.remove();
    this.host = host;
    if (!this.isShown) return;
    this.isMoved = true;
    this.saved = [...host.childNodes];
    host.replaceChildren(this.root);
    for (const [box, top] of this.scrolled) {
      if (this.root.contains(box)) box.scrollTop = top;
      else this.scrolled.delete(box);
    }
    if (this.focused) focusWhenDisplayed(this.focused);
  }

  /**
   * Dispatch a click if the notebook scrolled or rendered the output again between pointerdown and pointerup, for example
   * because the cell became the active cell: then the browser dispatches no click, although the pointer did not move.
   * @param {PointerEvent} down @param {PointerEvent} up
   */
  release(down, up) {
    const isSame = up.pointerId === down.pointerId && down.button === 0;
    const isClose = Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) < MAX_CLICK_DISTANCE_PX;
    if (!isSame || !isClose || this.guard?.refused || (targetOf(up) === down.target && !this.isMoved)) return;
    const target = /** @type {HTMLElement | null} */ (/** @type {Element} */ (down.target).closest("button, summary, [data-act]"));
    setTimeout(() => {
      if (!target?.contains(this.clickTarget)) target?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    });
  }

  /** @param {Event} event */
  async press(event) {
    const pressed = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-act]"));
    if (!pressed || !this.root.contains(pressed)) return;
    event.preventDefault();
    event.stopPropagation();
    if (pressed.getAttribute("aria-disabled") === "true") return;
    pressed.setAttribute("aria-disabled", "true");
    await this.performAndReport(pressed.dataset.act ?? "", JSON.parse(pressed.dataset.args || "{}"));
    pressed.removeAttribute("aria-disabled");
  }

  /** Perform an action and display the message of its result. @param {string} act @param {object} args */
  async performAndReport(act, args) {
    this.showNotice("");
    const result = await this.perform(act, args);
    if (result.message) this.showNotice(result.message, result.failed); // without a message, the message of an effect stays
  }

  /** Display a message below the view. @param {string} message @param {boolean} failed */
  showNotice(message, failed = false) {
    this.notice.textContent = message;
    this.notice.classList.toggle("af-error", failed);
    if (message === COPIED) setTimeout(() => this.clearNotice(message), COPIED_MS);
  }

  /** Remove a message if it is still displayed. @param {string} message */
  clearNotice(message) {
    if (this.notice.textContent === message) this.showNotice("");
  }

  /** @param {import("./panel.js").Update} update @param {number} offset kernel's clock minus browser's clock, milliseconds */
  show(update, offset) {
    this.offset = offset;
    if (!this.isShown) {
      this.isShown = true;
      this.moveTo(this.host);
    }
    if (update.label) nameLandmark(this.root, update.label);
    if (update.css !== undefined) this.root.className = `af-run af-live mathjax_ignore tex2jax_ignore ${update.css}`;
    this.clocks.elements = null;
    const focused = focusedControl(this.root, this.body);
    const change = () => {
      if (update.type === "snapshot") this.tree.reset(update.tree ?? {});
      else this.tree.apply(update.tree ?? {});
      this.tick();
    };
    const keep = () => this.answerPosition.keepWhile(Boolean(update.ended), () => this.follower.keepWhile(() => keepPreviewInFull(this.body, change)));
    // Only a new card is revealed: the position of a view costs a layout of the page, and a page may show many runs.
    if (update.tree?.shape?.some(([, , , kind]) => kind === "approval")) revealCard(this.root, keep);
    else keep();
    refocus(focused, this.root, this.body);
    if (update.announce !== undefined && update.announce !== this.announcer.textContent) {
      if (this.notice.classList.contains("af-error")) this.showNotice(""); // the error was about the former state
      this.announcer.textContent = update.announce;
    }
  }

  /** After the saved output replaced the view: keep the position of the answer, and the focus in the output. */
  handOver() {
    const { focused } = this;
    this.answerPosition.handOver((saved) => {
      if (focused && focusedElement() === document.body) parkFocus(saved.querySelector(".af-question") ?? saved);
    });
  }

  /** Update the running times, and the height that a chat can have. */
  tick() {
    this.clocks.tick(this.offset ?? 0, (change) => this.follower.keepWhile(change));
    fitHeight(this.root);
  }

  /** Display the saved HTML again. */
  remove() {
    if (this.root.parentNode === this.host) this.host.replaceChildren(...(this.saved ?? []));
  }
}
