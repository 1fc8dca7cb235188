/**
 * A tree of keyed elements that patches change in place. Folds keep the state that the reader chose, and an element that
 * remains in the tree is not created again, so focus, selection and scroll positions survive. Uses focus.js.
 *
 * @typedef {[key: string, parent: string, after: string, kind: string, css: string, open: boolean, data: object]} Shape
 * @typedef {{shape?: Shape[], text?: [key: string, keep: number, add: string][], gone?: string[]}} Patch
 * @typedef {{root: HTMLElement, own: HTMLElement, inside: HTMLElement, kind: string, html: string, data: string}} Entry
 * @typedef {(data: any, key: string, root: HTMLElement) => HTMLElement} Maker `root`: the element of the node
 */

/** @param {string} name @param {string} [css] @param {object} [attributes] undefined and false values are omitted @returns {HTMLElement} */
function element(name, css = "", attributes = {}) {
  const node = document.createElement(name);
  node.className = css;
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : String(value));
  }
  return node;
}

class KeyedTree {
  /**
   * @param {HTMLElement} container parent of the tree
   * @param {{[kind: string]: Maker}} makers create the controls of these kinds of nodes
   */
  constructor(container, makers) {
    this.container = container;
    this.makers = makers;
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
  }

  /** Apply a snapshot; elements with a key of the snapshot are kept. @param {Patch} patch */
  reset(patch) {
    const keys = new Set((patch.shape ?? []).map((shape) => shape[0]));
    const gone = [...this.entries.keys()].filter((key) => !keys.has(key));
    const texts = new Map((patch.text ?? []).map((text) => [text[0], text]));
    for (const key of keys) {
      if (!texts.has(key)) texts.set(key, [key, 0, ""]);
    }
    this.apply({ shape: patch.shape, text: [...texts.values()], gone });
  }

  /** @param {Patch} patch */
  apply(patch) {
    const focused = /** @type {HTMLElement | null} */ (focusedElement());
    const card = cardWithFocus(this.container);
    for (const shape of patch.shape ?? []) this.placeElement(shape);
    for (const [key, keep, add] of patch.text ?? []) this.write(key, keep, add);
    for (const key of patch.gone ?? []) this.remove(key);
    // An element that was moved in the page loses the focus.
    if (focusedElement() === document.body && this.container.contains(focused)) focused?.focus({ preventScroll: true });
    focusAfterCard(card, this.container);
  }

  /** @param {string} key */
  remove(key) {
    this.entries.get(key)?.root.remove();
    this.entries.delete(key);
  }

  /** Create, change or move one element. @param {Shape} shape */
  placeElement([key, parent, after, kind, css, open, data]) {
    let entry = this.entries.get(key);
    const serialized = JSON.stringify(data);
    // The input of a reader in an instant form is newer than the kernel's data of the form.
    const isInUse = data.instant && entry?.root.contains(focusedElement());
    if (!entry || entry.kind !== kind || (kind === "form" && entry.data !== serialized && !isInUse)) {
      const before = entry;
      entry = { ...this.make(kind, data, key), kind, html: "", data: serialized };
      entry.root.dataset.key = key;
      this.entries.set(key, entry);
      if (before) this.moveChildren(key, before);
    }
    if (entry.root.className !== css) entry.root.className = css;
    if (kind === "fold" && !entry.root.dataset.byReader) entry.root.open = open;
    const within = this.entries.get(parent)?.inside ?? this.container;
    const next = after ? this.entries.get(after)?.root.nextSibling ?? null : within.querySelector(":scope > :not(.af-own)");
    if (entry.root !== next && (entry.root.parentNode !== within || entry.root.nextSibling !== next)) {
      within.insertBefore(entry.root, next);
    }
  }

  /** Move the children of an element that an element of another kind replaced; a patch contains only changes. @param {string} key @param {Entry} before */
  moveChildren(key, before) {
    const children = [...before.inside.children].filter((child) => /** @type {HTMLElement} */ (child).dataset.key);
    before.root.remove();
    this.write(key, 0, before.html);
    this.entries.get(key)?.inside.append(...children);
  }

  /** @param {string} kind @param {any} data @param {string} key */
  make(kind, data, key) {
    const root = element({ fold: "details", list: "ol", item: "li" }[kind] ?? "div");
    if (kind === "list") root.setAttribute("role", "list"); // some browsers do not expose a list without markers as a list
    if (["leaf", "controls", "list", "item"].includes(kind)) return { root, own: root, inside: root };
    if (kind === "fold") {
      const own = element("summary");
      const inside = element("div", "af-body");
      root.append(own, inside);
      // Only a reader clicks on the summary; a patch that opens or closes the fold does not.
      own.addEventListener("click", () => (root.dataset.byReader = "yes"));
      return { root, own, inside };
    }
    const own = element("div", "af-own");
    root.append(own);
    const maker = this.makers[kind];
    if (maker) root.append(maker(data, key, root));
    return { root, own, inside: root };
  }

  /** Replace the end of an element's content. @param {string} key @param {number} keep @param {string} add */
  write(key, keep, add) {
    const entry = this.entries.get(key);
    if (!entry) return;
    const html = entry.html.slice(0, keep) + add;
    if (html === entry.html) return;
    entry.html = html;
    const { own } = entry;
    const scrolled = [...own.querySelectorAll("[tabindex]")].map((box) => [box.scrollLeft, box.scrollTop]);
    const focused = this.focusWithin(own);
    const opened = [...own.querySelectorAll("details")].map((fold) => fold.open);
    // The kernel escaped or sanitised the HTML: see artifactflow_nb/core/text/markdown.py.
    own.innerHTML = html;
    own.querySelectorAll("details").forEach((fold, i) => (fold.open ||= opened[i] ?? false));
    addCopyButtons(own);
    own.querySelectorAll("[tabindex]").forEach((box, i) => box.scrollTo(...(scrolled[i] ?? [0, 0])));
    if (focused) own.querySelectorAll(focused.kind)[focused.index]?.focus({ preventScroll: true });
  }

  /** Selector and index of the focused element, to focus its replacement; null if the focus is elsewhere. @param {HTMLElement} own */
  focusWithin(own) {
    const focused = focusedElement()?.closest("[data-act], a, [tabindex]");
    if (!focused || !own.contains(focused) || focused === own) return null;
    const { act, args } = /** @type {HTMLElement} */ (focused).dataset;
    const kind = act ? `[data-act=${CSS.escape(act)}][data-args=${JSON.stringify(args)}]` : "a, [tabindex]";
    return { kind, index: act ? 0 : [...own.querySelectorAll("a, [tabindex]")].indexOf(focused) };
  }
}
