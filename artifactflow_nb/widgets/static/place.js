/**
 * Keeps the answer where the reader sees it when a run ends: then the steps fold up above it, and a moment later the
 * saved output takes the place of the live view.
 */

const HAND_OVER_MS = 2000;
const WATCH_MS = 10_000;
// The old output goes, and the notebook measures its cells again, in the frames after the new one has come.
const SETTLE_FRAMES = 12;
const MARGIN_PX = 48;

/** The nearest ancestor that has something to scroll. @param {Element} from @returns {Element | null} */
function scrollerOf(from) {
  for (let found = from.parentElement; found; found = found.parentElement) {
    const mayScroll = /auto|scroll/.test(getComputedStyle(found).overflowY);
    if (mayScroll && found.scrollHeight > found.clientHeight) return found;
  }
  return null;
}

class Place {
  /** @param {HTMLElement} body what holds the answer */
  constructor(body) {
    this.body = body;
    this.ended = false;
    /** @type {number | undefined} */
    this.last = undefined;
    /** @type {Element | null} */
    this.scroller = null;
    /** @type {Element | null} */
    this.area = null;
  }

  /** @returns {Element | null} */
  answer() {
    return this.body.querySelector(".af-answer");
  }

  /** Make a change; if it ends the run, the answer stays where it is. @param {boolean} ended @param {() => void} change */
  keepWhile(ended, change) {
    const ending = ended && !this.ended;
    this.ended = ended;
    if (!ending) return change();
    this.scroller = scrollerOf(this.body);
    const before = this.answer()?.getBoundingClientRect().top;
    change();
    const answer = this.answer();
    if (answer && before !== undefined && this.isNear(before)) {
      this.scrollBy(answer.getBoundingClientRect().top - before);
    }
    if (answer) this.bringBack(answer.getBoundingClientRect());
    this.area = this.body.closest(".jp-OutputArea");
    this.watch(performance.now() + WATCH_MS);
  }

  /** Whether what begins at this height is within or above what the reader sees. @param {number} top */
  isNear(top) {
    return this.scroller !== null && top < this.scroller.getBoundingClientRect().bottom;
  }

  /** What has slid out above, because everything before it folded up, is brought back. @param {DOMRect} place */
  bringBack(place) {
    const top = this.scroller?.getBoundingClientRect().top ?? 0;
    if (place.bottom < top + MARGIN_PX) this.scrollBy(place.top - top - MARGIN_PX);
  }

  /** @param {number} by */
  scrollBy(by) {
    if (this.scroller && Math.abs(by) > 1) this.scroller.scrollTop += by;
  }

  /**
   * From the end on, remember where the answer is: once the view is taken away, it is too late to ask.
   * @param {number} until where nothing takes it away, it is not asked for ever
   */
  watch(until) {
    const answer = this.answer();
    if (!this.ended || !answer?.isConnected || performance.now() > until) return;
    this.last = answer.getBoundingClientRect().top;
    requestAnimationFrame(() => this.watch(until));
  }

  /** The view is taken away: put the saved answer, when it comes, where the live one was. */
  handOver() {
    const { area, last } = this;
    this.ended = false;
    if (!area || last === undefined || !this.isNear(last)) return;
    const until = performance.now() + HAND_OVER_MS;
    let frames = SETTLE_FRAMES;
    const settle = () => {
      const saved = area.querySelector(".af-saved .af-answer");
      if (saved) this.scrollBy(saved.getBoundingClientRect().top - last);
      if (saved) frames -= 1;
      if (frames > 0 && performance.now() < until) requestAnimationFrame(settle);
    };
    settle();
  }
}
