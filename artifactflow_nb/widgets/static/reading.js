/**
 * The position of a reader within a view. A line that appears or disappears above must not move the text that is being
 * read; JupyterLab turns off the scroll anchoring of browsers.
 */

/** Views in the window: a position costs a layout of the page, and a page may show many runs. @type {WeakSet<Element>} */
const viewsInWindow = new WeakSet();
const windowObserver = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) isIntersecting ? viewsInWindow.add(target) : viewsInWindow.delete(target);
});

const CHILDREN = ":scope > [data-key], :scope > .af-body > [data-key]";
const TURNS = ":scope > .af-turn";

/** @param {Element} node */
const topOf = (node) => node.getBoundingClientRect().top;

/** Top of the first line of a text, below its title and margin. @param {Element} text */
const topOfLine = (text) => topOf(text.querySelector("p, li, pre") ?? text);

/** The smallest element with a key at the upper edge of the visible part of a container, with its ancestors. */
class ReadingPlace {
  /** @param {Element} container a view, or a box of turns @param {Element} scroller */
  constructor(container, scroller) {
    this.container = container;
    const edge = scroller === document.documentElement ? 0 : Math.max(topOf(scroller), 0);
    const atEdge = (/** @type {Element} */ inside, /** @type {string} */ children) =>
      [...inside.querySelectorAll(children)].find((node) => node.getBoundingClientRect().bottom > edge);
    /** @type {{node: Element, top: number}[]} outermost first */
    this.path = [];
    let node = atEdge(container, container.matches(".af-follow") ? TURNS : CHILDREN);
    while (node) {
      this.path.push({ node, top: topOf(node) });
      node = topOf(node) < edge ? atEdge(node, CHILDREN) : undefined;
    }
    this.writing = this.path.findIndex((each) => each.node.matches(".af-writing"));
    this.line = this.writing < 0 ? 0 : topOfLine(this.path[this.writing].node);
  }

  /** How far the element, or its text in the preview of a new card, has moved down. @returns {number} pixels */
  get shift() {
    const last = this.path.findLastIndex(({ node }) => node.isConnected && node.checkVisibility());
    const preview = last < this.writing ? this.container.querySelector(".af-approval .af-preview") : null;
    if (preview) return topOfLine(preview) - this.line;
    return last < 0 ? 0 : topOf(this.path[last].node) - this.path[last].top;
  }
}
