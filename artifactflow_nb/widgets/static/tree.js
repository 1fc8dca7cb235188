/**
 * A tree of keyed elements that patches change in place. Folds that the reader opened or closed stay so, and an element
 * that stays in the tree is never made again, so focus, selection and scroll positions survive.
 *
 * @typedef {[key: string, parent: string, after: string, kind: string, css: string, open: boolean,
 *   data: {request?: string, tool?: string}]} Shape
 * @typedef {{shape?: Shape[], text?: [key: string, keep: number, add: string][], gone?: string[]}} Patch
 * @typedef {{root: HTMLElement, own: HTMLElement, inside: HTMLElement, kind: string, html: string}} Entry
 */

/** @param {string} name @param {string} [css] @returns {HTMLElement} */
function element(name, css = "") {
  const made = document.createElement(name);
  made.className = css;
  return made;
}

class KeyedTree {
  /**
   * @param {HTMLElement} container where the tree stands
   * @param {(data: {request?: string, tool?: string}) => HTMLElement} makeControls what stands below a question
   */
  constructor(container, makeControls) {
    this.container = container;
    this.makeControls = makeControls;
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
  }

  /** Make the tree what a snapshot says, keeping the elements that it names. @param {Patch} patch */
  reset(patch) {
    const named = new Set((patch.shape ?? []).map((shape) => shape[0]));
    const gone = [...this.entries.keys()].filter((key) => !named.has(key));
    const texts = new Map((patch.text ?? []).map((text) => [text[0], text]));
    for (const key of named) {
      if (!texts.has(key)) texts.set(key, [key, 0, ""]);
    }
    this.apply({ shape: patch.shape, text: [...texts.values()], gone });
  }

  /** @param {Patch} patch */
  apply(patch) {
    for (const shape of patch.shape ?? []) this.place(shape);
    for (const [key, keep, add] of patch.text ?? []) this.write(key, keep, add);
    for (const key of patch.gone ?? []) {
      const root = this.entries.get(key)?.root;
      const decided = root?.querySelector(":scope > [data-decided]");
      root?.remove();
      this.entries.delete(key);
      if (decided) this.leadBack();
    }
  }

  /** After a question was answered here, its card is gone: the focus goes to the step that asked. */
  leadBack() {
    const steps = this.container.querySelectorAll(".af-work > .af-body > details > summary");
    const step = steps[steps.length - 1];
    step?.focus({ preventScroll: true });
    step?.scrollIntoView({ block: "nearest" });
  }

  /** Make, alter or move one element. @param {Shape} shape */
  place([key, parent, after, kind, css, open, data]) {
    let entry = this.entries.get(key);
    if (entry && entry.kind !== kind) {
      entry.root.remove();
      entry = undefined;
    }
    if (!entry) {
      entry = this.make(kind, data);
      this.entries.set(key, entry);
    }
    if (entry.root.className !== css) entry.root.className = css;
    if (kind === "fold" && !entry.root.dataset.byReader) entry.root.open = open;
    const within = this.entries.get(parent)?.inside ?? this.container;
    const next = after ? this.entries.get(after)?.root.nextSibling ?? null : within.querySelector(":scope > :not(.af-own)");
    if (entry.root !== next && (entry.root.parentNode !== within || entry.root.nextSibling !== next)) {
      within.insertBefore(entry.root, next);
    }
  }

  /** @param {string} kind @param {{request?: string, tool?: string}} data @returns {Entry} */
  make(kind, data) {
    const root = element(kind === "fold" ? "details" : "div");
    if (kind === "leaf") return { root, own: root, inside: root, kind, html: "" };
    if (kind === "fold") {
      const own = element("summary");
      const inside = element("div", "af-body");
      root.append(own, inside);
      // A click on the summary is the reader's word; a patch that opens or closes the fold does not click.
      own.addEventListener("click", () => (root.dataset.byReader = "yes"));
      return { root, own, inside, kind, html: "" };
    }
    const own = element("div", "af-own");
    root.append(own);
    if (kind === "ask") root.append(this.makeControls(data));
    return { root, own, inside: root, kind, html: "" };
  }

  /** Replace the end of an element's content. @param {string} key @param {number} keep @param {string} add */
  write(key, keep, add) {
    const entry = this.entries.get(key);
    if (!entry) return;
    const html = entry.html.slice(0, keep) + add;
    if (html === entry.html) return;
    entry.html = html;
    // The kernel sanitised it: see artifactflow_nb/widgets/markdown.py.
    const scrolled = [...entry.own.querySelectorAll("[tabindex]")].map((box) => box.scrollTop);
    entry.own.innerHTML = html;
    entry.own.querySelectorAll("[tabindex]").forEach((box, i) => (box.scrollTop = scrolled[i] ?? 0));
  }
}
