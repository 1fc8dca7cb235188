/**
 * Boxes with the class `af-follow` follow their end: while text streams, a reader who is at the end stays there. One who
 * scrolled away keeps the place, and a button jumps to the newest content. In a tab a box scrolls itself. In a notebook, and
 * on a phone, it has the height of its content: the notebook or the page scrolls, and the form below it sticks to the edge.
 */

/** A box nearer to its end than this counts as scrolled to the end. */
const AT_END_PX = 24;

/** The element that scrolls the content of a box: the box, its notebook, or the page. @param {Element} box @returns {Element} */
function scrollerOfBox(box) {
  return /auto|scroll/.test(getComputedStyle(box).overflowY) ? box : scrollerOf(box) ?? document.documentElement;
}

/** @param {Element} box @returns {Element} */
function formBelow(box) {
  return /** @type {Element} */ (box.nextElementSibling);
}

/** Height of the part of a box, or of the form below it, that is below the visible part. @param {Element} box @returns {number} pixels */
function distanceToEnd(box) {
  const scroller = scrollerOfBox(box);
  if (scroller === box) return box.scrollHeight - box.scrollTop - box.clientHeight;
  const edge = scroller === document.documentElement ? scroller.clientHeight : scroller.getBoundingClientRect().bottom;
  // The end of the parent: the form itself sticks to the lower edge.
  const { bottom } = /** @type {Element} */ (box.parentElement).getBoundingClientRect();
  return Math.max(bottom - edge, 0);
}

/** @param {Element} node @param {Element} box @returns {number} */
function topWithin(node, box) {
  return node.getBoundingClientRect().top - box.getBoundingClientRect().top;
}

/** @param {Element} box */
function scrollToEnd(box) {
  scrollerOfBox(box).scrollTop += distanceToEnd(box);
}

class BoxFollower {
  /** @param {HTMLElement} container ancestor of the boxes */
  constructor(container) {
    this.container = container;
    this.boxes = container.getElementsByClassName("af-follow");
    const reference = new WeakRef(this); // notebook and page outlive the view
    const settle = () => {
      const follower = reference.deref();
      if (follower) for (const box of follower.boxes) follower.settle(box);
      else document.removeEventListener("scroll", settle, { capture: true });
    };
    document.addEventListener("scroll", settle, { capture: true, passive: true });
  }

  /** Apply a change of the boxes' content; those that were at their end stay there. @param {() => void} change */
  keepWhile(change) {
    const before = new Map([...this.boxes].map((box) => [box, distanceToEnd(box)]));
    const scrolledAway = [...before].filter(([, distance]) => distance >= AT_END_PX).map(([box]) => box);
    const anchors = scrolledAway.map((box) => this.anchor(box));
    change();
    for (const { box, node, top } of anchors) {
      if (node?.isConnected) this.scrollBy(box, topWithin(node, box) - top);
    }
    for (const box of this.boxes) {
      // A new box begins at its end, except in a notebook, where the reader may be at another cell.
      const isAway = before.has(box) ? scrolledAway.includes(box) : !box.closest("[data-fills]");
      if (!isAway) this.scrollBy(box, distanceToEnd(box));
      else if (distanceToEnd(box) > (before.get(box) ?? AT_END_PX) + 1) this.addButton(box);
      else this.settle(box);
    }
  }

  /**
   * Scroll and dispatch the event at once. The browser dispatches it in the next frame, and `Mount` would not record the
   * position if the output is rendered again before that.
   * @param {Element} box @param {number} by pixels
   */
  scrollBy(box, by) {
    scrollerOfBox(box).scrollTop += by;
    box.dispatchEvent(new Event("scroll"));
  }

  /**
   * The turn at the upper edge, or its answer if that began above, and its position in the box: it stays in place when
   * earlier turns are inserted or the steps of a run are folded.
   * @param {Element} box
   */
  anchor(box) {
    const edge = Math.max(scrollerOfBox(box).getBoundingClientRect().top, 0) + AT_END_PX;
    const isAbove = (/** @type {Element | null | undefined} */ node) => node && node.getBoundingClientRect().top < edge;
    const turns = [...box.querySelectorAll(":scope > .af-turn")];
    const turn = turns.findLast(isAbove) ?? turns[0];
    const answer = turn?.querySelector(".af-answer");
    const node = isAbove(answer) ? answer : turn;
    return { box, node, top: node ? topWithin(node, box) : 0 };
  }

  /** Element with the button of a box, which floats above the form. @param {Element} box @returns {HTMLElement | null} */
  button(box) {
    return formBelow(box).querySelector(":scope > .af-newest");
  }

  /** Add the button unless the box has one. @param {Element} box */
  addButton(box) {
    if (this.button(box)) return;
    const row = element("div", "af-newest");
    row.append(plainButton(translate("↓ Jump to the newest"), () => this.scrollBy(box, distanceToEnd(box))));
    formBelow(box).prepend(row);
  }

  /** Remove the button of a box that is at its end; if it had the focus, focus the question form. @param {Element} box */
  settle(box) {
    const row = this.button(box);
    if (!row || distanceToEnd(box) >= AT_END_PX) return;
    const hadFocus = row.contains(focusedElement());
    row.remove();
    if (hadFocus) this.container.querySelector(".af-composer textarea")?.focus({ preventScroll: true });
  }
}
