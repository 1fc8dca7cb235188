/**
 * One place in the page where a view is mounted: over the readable HTML that the cell's output holds.
 *
 * Whatever has a `data-act` is pressed here, by mouse or keyboard; the kernel's word on it comes back as a promise.
 *
 * @typedef {{message: string, failed: boolean, errors: {[field: string]: string}}} ActionResult
 * @typedef {(act: string, args: object) => Promise<ActionResult>} Perform
 */

const STILL_PX = 5;

class Mount {
  /**
   * @param {HTMLElement} host @param {Perform} perform @param {Drafts} drafts
   * @param {(on: boolean) => void} hold said while a word is composed
   */
  constructor(host, perform, drafts, hold) {
    this.perform = perform;
    this.hold = hold;
    this.root = element("section", "af-run af-live");
    this.body = element("div", "af-tree");
    this.announcer = element("div", "af-announcer");
    this.announcer.setAttribute("role", "status");
    this.announcer.setAttribute("aria-live", "polite");
    this.notice = element("div", "af-message");
    this.notice.setAttribute("role", "alert");
    this.root.append(this.body, this.notice, this.announcer);
    this.tree = new KeyedTree(this.body, {
      form: (data, key) => {
        const form = makeForm({ ...data, key }, perform);
        return data.draft ? drafts.keep(form) : form;
      },
      ask: (data, key) => makeAskControls({ ...data, key }, perform),
    });
    this.place = new Place(this.body);
    this.followed = new Followed(this.body);
    this.clocks = new Clocks(this.body);
    /** @type {HTMLElement | null} */
    this.focused = null;
    /** @type {Map<Element, number>} */
    this.scrolled = new Map();
    /** Whether there is anything to show: until then the readable HTML stays. */
    this.isShown = false;
    this.host = host;
    this.listen();
  }

  /** Whether its output is not in the page any more. */
  get isHomeless() {
    return !(this.isShown ? this.root : this.host).isConnected;
  }

  listen() {
    this.root.addEventListener("click", (event) => (this.clicked = event.target), { capture: true });
    this.root.addEventListener("click", (event) => this.press(event));
    this.root.addEventListener("click", async (event) => {
      const said = await copyCode(event);
      if (said) this.say(said);
    });
    this.root.addEventListener("pointerdown", (down) => {
      this.isMoved = false;
      this.clicked = null;
      document.addEventListener("pointerup", (up) => this.release(down, up), { capture: true, once: true });
    });
    this.root.addEventListener("keydown", (event) => {
      const isButton = /** @type {Element} */ (event.target).closest("button, input, textarea, select, a, summary");
      if (!isButton && (event.key === "Enter" || event.key === " ")) this.press(event);
    });
    this.root.addEventListener("keydown", walkBranches);
    moveCards(this.root, (act, args) => this.tell(act, args));
    this.root.addEventListener("focusin", stopAtBranch);
    this.root.addEventListener("focusin", (event) => (this.focused = /** @type {HTMLElement} */ (event.target)));
    this.root.addEventListener("focusout", () => {
      // What is taken out of the page loses the focus too; then it is to have it again.
      setTimeout(() => {
        if (this.root.isConnected && !this.root.contains(document.activeElement)) this.focused = null;
      });
    });
    const remember = (/** @type {any} */ { target }) => this.root.isConnected && this.scrolled.set(target, target.scrollTop);
    // A word of several keys, such as a Chinese one, does not outlive that the output is drawn anew.
    this.root.addEventListener("compositionstart", () => this.hold(true));
    this.root.addEventListener("compositionend", () => this.hold(false));
    this.root.addEventListener("scroll", remember, { capture: true, passive: true });
  }

  /** Stand in this output, with the focus and the scroll positions as they were. @param {HTMLElement} host */
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
    if (this.focused?.isConnected && document.activeElement === document.body) {
      this.focused.focus({ preventScroll: true });
    }
  }

  /**
   * There is no click where the notebook scrolls between down and up, as it does when the cell was not the active one,
   * or draws the output anew; the pointer stood still, so the press was meant all the same.
   * @param {PointerEvent} down @param {PointerEvent} up
   */
  release(down, up) {
    const isSame = up.pointerId === down.pointerId && down.button === 0;
    const isStill = Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) < STILL_PX;
    if (!isSame || !isStill || (up.target === down.target && !this.isMoved)) return;
    const meant = /** @type {HTMLElement | null} */ (/** @type {Element} */ (down.target).closest("button, summary, [data-act]"));
    setTimeout(() => {
      if (!meant?.contains(this.clicked)) meant?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
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
    await this.tell(pressed.dataset.act ?? "", JSON.parse(pressed.dataset.args || "{}"));
    pressed.removeAttribute("aria-disabled");
  }

  /** Tell the kernel what the reader did, and say its word on it. @param {string} act @param {object} args */
  async tell(act, args) {
    this.say("");
    const result = await this.perform(act, args);
    if (result.message) this.say(result.message, result.failed); // else what an effect of it has said stays
  }

  /** Say something below the view, until the next time. @param {string} message @param {boolean} failed */
  say(message, failed = false) {
    this.notice.textContent = message;
    this.notice.classList.toggle("af-error", failed);
  }

  /** Take back what was said, unless something else was said since. @param {string} message */
  unsay(message) {
    if (this.notice.textContent === message) this.say("");
  }

  /** @param {import("./panel.js").Update} update @param {number} offset milliseconds from the kernel's clock to ours */
  show(update, offset) {
    this.offset = offset;
    if (!this.isShown) {
      this.isShown = true;
      this.moveTo(this.host);
    }
    if (update.label) this.root.setAttribute("aria-label", update.label);
    if (update.css !== undefined) this.root.className = `af-run af-live mathjax_ignore tex2jax_ignore ${update.css}`;
    this.clocks.counting = null;
    const control = this.control();
    const change = () => {
      if (update.type === "snapshot") this.tree.reset(update.tree ?? {});
      else this.tree.apply(update.tree ?? {});
      this.tick();
    };
    this.place.keepWhile(Boolean(update.ended), () => this.followed.keepWhile(change));
    this.refocus(control);
    if (update.announce !== undefined && update.announce !== this.announcer.textContent) {
      this.announcer.textContent = update.announce;
    }
  }

  /** What has the focus in here, and where it stands among those that do the same. */
  control() {
    const node = /** @type {HTMLElement} */ (document.activeElement);
    if (node === this.root || !this.root.contains(node)) return null;
    const label = node.getAttribute("aria-label");
    const same = `[data-act="${CSS.escape(node.dataset.act ?? "")}"]${label ? `[aria-label="${CSS.escape(label)}"]` : ""}`;
    return { node, same, at: [...this.body.querySelectorAll(same)].indexOf(node) };
  }

  /** Where the change took away what had the focus: to what stands there now and does the same, or else to the view. */
  refocus(/** @type {ReturnType<Mount["control"]>} */ before) {
    if (!before || before.node.isConnected || document.activeElement !== document.body) return;
    const there = /** @type {HTMLElement | undefined} */ ([...this.body.querySelectorAll(before.same)][before.at]);
    if (there) return there.focus({ preventScroll: true });
    this.root.tabIndex = -1;
    this.root.addEventListener("blur", () => this.root.removeAttribute("tabindex"), { once: true });
    this.root.focus({ preventScroll: true });
  }

  /** Count on the times of what is under way. */
  tick() {
    this.clocks.tick(this.offset ?? 0);
  }

  /** Give the output back to the HTML that it holds. */
  remove() {
    if (this.root.parentNode === this.host) this.host.replaceChildren(...(this.saved ?? []));
  }
}
