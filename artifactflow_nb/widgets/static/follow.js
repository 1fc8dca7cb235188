/**
 * Boxes with the class `af-follow` follow their end: while text streams, a reader at the end stays at the end. A reader who
 * scrolled away keeps the position, and a button jumps to the newest content. In a tab a box scrolls itself. In a notebook,
 * and on a phone, a box has the height of its content: the notebook or the page scrolls, and the form below the box sticks
 * to the edge. A view without such a box keeps the position of its reader, too. Uses reading.js.
 */

/** A box at most this far from its end counts as scrolled to the end. */
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

/** @param {Element} box */
function scrollToEnd(box) {
  scrollerOfBox(box).scrollTop += distanceToEnd(box);
}

class BoxFollower {
  /** @param {HTMLElement} container ancestor of the boxes */
  constructor(container) {
    this.container = container;
    this.boxes = container.getElementsByClassName("af-follow");
    /** The scroll position of each box that was scrolled to its end, and that follows the end when its size changes. @type {WeakMap<Element, number>} */
    this.ends = new WeakMap();
    this.sizes = new ResizeObserver((entries) => {
      for (const { target } of entries) if (this.isAtEnd(target)) this.goToEnd(target);
    });
    // A reader who opens a fold at the end wants to read it.
    container.addEventListener("click", () => [...this.boxes].forEach((box) => this.ends.delete(box)));
    const reference = new WeakRef(this); // notebook and page outlive the view
    const settle = () => {
      const follower = reference.deref();
      if (follower) for (const box of follower.boxes) follower.settle(box);
      else document.removeEventListener("scroll", settle, { capture: true });
    };
    document.addEventListener("scroll", settle, { capture: true, passive: true });
  }

  /** Apply a change of the content; boxes that were at their end stay at the end. @param {() => void} change */
  keepWhile(change) {
    const before = new Map([...this.boxes].map((box) => [box, distanceToEnd(box)]));
    const scrolledAway = [...before.keys()].filter((box) => !this.isAtEnd(box));
    const isRead = before.size === 0 && viewsInWindow.has(/** @type {Element} */ (this.container.parentElement));
    const positions = (isRead ? [this.container] : scrolledAway).map((box) => new ReadingPlace(box, scrollerOfBox(box)));
    change();
    for (const position of positions) this.scrollBy(position.container, position.shift);
    for (const box of this.boxes) {
      // A new box begins at its end, except in a notebook, where the reader may be at another cell.
      const isAway = before.has(box) ? scrolledAway.includes(box) : !box.closest("[data-fills]");
      this.sizes.observe(box);
      if (!isAway) this.goToEnd(box);
      else if (distanceToEnd(box) > (before.get(box) ?? AT_END_PX) + 1) this.addButton(box);
      else this.settle(box);
    }
  }

  /** True if the reader has not scrolled away from the end. @param {Element} box */
  isAtEnd(box) {
    return distanceToEnd(box) < AT_END_PX || this.ends.get(box) === scrollerOfBox(box).scrollTop;
  }

  /** @param {Element} box */
  goToEnd(box) {
    this.scrollBy(box, distanceToEnd(box));
    this.ends.set(box, scrollerOfBox(box).scrollTop);
  }

  /**
   * Scroll, and dispatch the scroll event at once: the browser dispatches the event in the next frame, and `Mount` would
   * miss the position if the output is rendered again before.
   * @param {Element} box @param {number} by pixels
   */
  scrollBy(box, by) {
    if (by === 0) return;
    scrollerOfBox(box).scrollTop += by;
    box.dispatchEvent(new Event("scroll"));
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

  /** Remove the button of a box that is at its end; if the button had the focus, focus the question form. @param {Element} box */
  settle(box) {
    const row = this.button(box);
    if (!row || distanceToEnd(box) >= AT_END_PX) return;
    const hadFocus = row.contains(focusedElement());
    row.remove();
    if (hadFocus) this.container.querySelector(".af-composer textarea")?.focus({ preventScroll: true });
  }
}
