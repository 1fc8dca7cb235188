/**
 * Boxes with the class `af-follow` follow their end: a box that is scrolled to its end remains there while text streams.
 * A box that the reader scrolled away keeps its position, and a button in it jumps to the newest content. A box that does
 * not scroll is followed by its page: on a phone a chat has the height of its text.
 */

/** A box nearer to its end than this counts as scrolled to the end. */
const AT_END_PX = 24;

/** What scrolls the content of a box: the box, or the page. @param {Element} box @returns {Element} */
function scrollerOfBox(box) {
  return /auto|scroll/.test(getComputedStyle(box).overflowY) ? box : document.documentElement;
}

/** @param {Element} box @returns {number} pixels */
function distanceToEnd(box) {
  const scroller = scrollerOfBox(box);
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
}

/** @param {Element} box */
function scrollToEnd(box) {
  const scroller = scrollerOfBox(box);
  scroller.scrollTop = scroller.scrollHeight;
}

class Followed {
  /** @param {HTMLElement} container ancestor of the boxes */
  constructor(container) {
    this.container = container;
    this.boxes = container.getElementsByClassName("af-follow");
    const settle = (/** @type {Event} */ event) => this.settle(/** @type {Element} */ (event.target));
    container.addEventListener("scroll", settle, { capture: true, passive: true });
    const settleAll = () => {
      if (container.isConnected) for (const box of this.boxes) this.settle(box);
      else document.removeEventListener("scroll", settleAll);
    };
    document.addEventListener("scroll", settleAll, { passive: true });
  }

  /** Apply a change of their content. @param {() => void} change */
  keepWhile(change) {
    const before = new Map([...this.boxes].map((box) => [box, distanceToEnd(box)]));
    const scrolledAway = [...before].filter(([, distance]) => distance >= AT_END_PX).map(([box]) => box);
    const anchors = scrolledAway.filter((box) => scrollerOfBox(box).scrollTop < AT_END_PX).flatMap((box) => this.firstTurn(box));
    change();
    for (const { box, turn, top } of anchors) {
      if (turn.isConnected) this.scroll(box, scrollerOfBox(box).scrollTop + turn.getBoundingClientRect().top - top);
    }
    // A new box begins at its end.
    for (const box of this.boxes) {
      if (!scrolledAway.includes(box)) this.scroll(box, scrollerOfBox(box).scrollHeight);
      else if (distanceToEnd(box) > before.get(box) + 1) this.addButton(box);
      else this.settle(box);
    }
  }

  /**
   * Scroll and dispatch the event at once. The browser dispatches it in the next frame, and `Mount` would not record the
   * position if the output is rendered again before that.
   * @param {Element} box @param {number} top
   */
  scroll(box, top) {
    scrollerOfBox(box).scrollTop = top;
    box.dispatchEvent(new Event("scroll"));
  }

  /** First turn and its position; browsers do not keep it in place when earlier turns are inserted. @param {Element} box */
  firstTurn(box) {
    const turn = box.querySelector(":scope > .af-turn");
    return turn ? [{ box, turn, top: turn.getBoundingClientRect().top }] : [];
  }

  /** Element with the button of a box, which takes no space. @param {Element} box @returns {HTMLElement | null} */
  button(box) {
    return box.querySelector(":scope > .af-newest");
  }

  /** Add the button unless the box has one. @param {Element} box */
  addButton(box) {
    if (this.button(box)) return;
    const row = element("div", "af-newest");
    row.append(plainButton("↓ Jump to the newest", () => this.scroll(box, scrollerOfBox(box).scrollHeight)));
    box.append(row);
  }

  /** Remove the button of a box that is at its end; if it had the focus, focus the question form. @param {Element} box */
  settle(box) {
    const row = this.button(box);
    if (!row || distanceToEnd(box) >= AT_END_PX) return;
    const hadFocus = row.contains(document.activeElement);
    row.remove();
    if (hadFocus) this.container.querySelector(".af-composer textarea")?.focus({ preventScroll: true });
  }
}
