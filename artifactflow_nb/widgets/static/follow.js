/**
 * Boxes whose end a reader follows, of the class `af-follow`. While text streams, one that stands at its end stays there.
 * One that the reader has scrolled away stays where it is, and a button in it leads to what has come since.
 */

/** How near to its end a scrolled box counts as scrolled to the end. */
const AT_END_PX = 24;

/** @param {Element} box @returns {number} pixels */
function toItsEnd(box) {
  return box.scrollHeight - box.scrollTop - box.clientHeight;
}

class Followed {
  /** @param {HTMLElement} container what holds the boxes */
  constructor(container) {
    this.container = container;
    this.boxes = container.getElementsByClassName("af-follow");
    const settle = (/** @type {Event} */ event) => this.settle(/** @type {Element} */ (event.target));
    container.addEventListener("scroll", settle, { capture: true, passive: true });
  }

  /** Change what the boxes hold. @param {() => void} change */
  keepWhile(change) {
    const before = new Map([...this.boxes].map((box) => [box, toItsEnd(box)]));
    const left = [...before].filter(([, distance]) => distance >= AT_END_PX).map(([box]) => box);
    const kept = left.filter((box) => box.scrollTop < AT_END_PX).flatMap((box) => this.firstTurn(box));
    change();
    for (const { box, turn, top } of kept) {
      if (turn.isConnected) this.scroll(box, box.scrollTop + turn.getBoundingClientRect().top - top);
    }
    // A new box begins at its end.
    for (const box of this.boxes) {
      if (!left.includes(box)) this.scroll(box, box.scrollHeight);
      else if (toItsEnd(box) > before.get(box) + 1) this.offer(box);
      else this.settle(box);
    }
  }

  /**
   * The browser tells of it in the next frame only: where the output is drawn anew before that, the place would be lost.
   * @param {Element} box @param {number} top
   */
  scroll(box, top) {
    box.scrollTop = top;
    box.dispatchEvent(new Event("scroll"));
  }

  /** What a reader at the very beginning of a box sees; a browser does not keep it there when earlier turns come. @param {Element} box */
  firstTurn(box) {
    const turn = box.querySelector(":scope > .af-turn");
    return turn ? [{ box, turn, top: turn.getBoundingClientRect().top }] : [];
  }

  /** The button of a box, which takes no room in it. @param {Element} box @returns {HTMLElement | null} */
  offered(box) {
    return box.querySelector(":scope > .af-newest");
  }

  /** Show the button. @param {Element} box */
  offer(box) {
    if (this.offered(box)) return;
    const row = element("div", "af-newest");
    row.append(plainButton("↓ Jump to the newest", () => this.scroll(box, box.scrollHeight)));
    box.append(row);
  }

  /** At its end a box has no button; who has pressed it goes on writing. @param {Element} box */
  settle(box) {
    const row = this.offered(box);
    if (!row || toItsEnd(box) >= AT_END_PX) return;
    const hadFocus = row.contains(document.activeElement);
    row.remove();
    if (hadFocus) this.container.querySelector(".af-composer textarea")?.focus({ preventScroll: true });
  }
}
