/**
 * Keeps the answer at its position in the window when a run ends: then the steps above the answer are folded, and a moment
 * later the saved output replaces the live view.
 */

const HAND_OVER_MS = 2000;
const WATCH_MS = 10_000;
// Within this number of frames the notebook removes the old output and measures its cells again.
const SETTLE_FRAMES = 12;
const MARGIN_PX = 48;

/** Nearest ancestor that can be scrolled. @param {Element} from @returns {Element | null} */
function scrollerOf(from) {
  for (let node = containerOf(from); node; node = containerOf(node)) {
    const mayScroll = /auto|scroll/.test(getComputedStyle(node).overflowY);
    if (mayScroll && node.scrollHeight > node.clientHeight) return node;
  }
  return null;
}

class AnswerPosition {
  /** @param {HTMLElement} body container of the answer */
  constructor(body) {
    this.body = body;
    this.ended = false;
    /** @type {number | undefined} */
    this.lastTop = undefined;
    /** @type {Element | null} */
    this.scroller = null;
    /** @type {Element | null} */
    this.area = null;
  }

  /** @returns {Element | null} */
  answer() {
    return this.body.querySelector(".af-answer");
  }

  /** Apply a change; if it ends the run, keep the position of the answer. @param {boolean} ended @param {() => void} change */
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
    if (answer) this.scrollIntoView(answer.getBoundingClientRect());
    this.area = this.body.closest(".jp-OutputArea");
    this.watch(performance.now() + WATCH_MS);
  }

  /** True if a position is within or above the visible part. @param {number} top */
  isNear(top) {
    return this.scroller !== null && top < this.scroller.getBoundingClientRect().bottom;
  }

  /** Scroll back to an answer that moved out of view because the steps above were folded. @param {DOMRect} rect */
  scrollIntoView(rect) {
    const top = this.scroller?.getBoundingClientRect().top ?? 0;
    if (rect.bottom < top + MARGIN_PX) this.scrollBy(rect.top - top - MARGIN_PX);
  }

  /** @param {number} by */
  scrollBy(by) {
    if (this.scroller && Math.abs(by) > 1) this.scroller.scrollTop += by;
  }

  /**
   * After the end, record the position of the answer in each frame, since a removed view has no position.
   * @param {number} until time to stop, if the view is not removed
   */
  watch(until) {
    const answer = this.answer();
    if (!this.ended || !answer?.isConnected || performance.now() > until) return;
    this.lastTop = answer.getBoundingClientRect().top;
    requestAnimationFrame(() => this.watch(until));
  }

  /**
   * After the view was removed, scroll the saved answer to the position of the live answer.
   * @param {(saved: HTMLElement) => void} onSaved called once the saved output is in the page
   */
  handOver(onSaved) {
    const { area, lastTop } = this;
    this.ended = false;
    if (!area) return;
    const isNear = lastTop !== undefined && this.isNear(lastTop);
    const until = performance.now() + HAND_OVER_MS;
    let frames = SETTLE_FRAMES;
    const settle = () => {
      const saved = /** @type {HTMLElement | null} */ (area.querySelector(".af-saved"));
      const answer = saved?.querySelector(".af-answer");
      if (saved && frames === SETTLE_FRAMES) onSaved(saved);
      if (answer && isNear) this.scrollBy(answer.getBoundingClientRect().top - lastTop);
      if (saved) frames -= 1;
      if (frames > 0 && performance.now() < until) requestAnimationFrame(settle);
    };
    settle();
  }
}

/**
 * Apply a change. If an approval card replaces the streamed text, show the card's preview in full, so that the reader can
 * stay at the same line.
 * @param {HTMLElement} body @param {() => void} change
 */
function keepPreviewInFull(body, change) {
  const writing = body.querySelector(".af-writing");
  change();
  const preview = writing && !writing.isConnected ? body.querySelector(".af-approval .af-preview") : null;
  if (preview) APPROVAL_CONTROLS.get(preview.closest(".af-approval"))?.preview.showAll(true);
}

/**
 * Apply a change. If the change adds an approval card to a visible view, scroll until the card's buttons are in view:
 * form.css keeps the buttons below the beginning of the card. Neither the top of the card nor a field with the focus moves
 * out of view.
 * @param {HTMLElement} root @param {() => void} change
 */
function revealCard(root, change) {
  const cardsBefore = new Set(root.querySelectorAll(".af-approval"));
  const wasInView = isInView(root);
  change();
  const card = [...root.querySelectorAll(".af-approval")].find((each) => !cardsBefore.has(each));
  if (!card || !wasInView) return;
  requestAnimationFrame(() => { // several cards have their bar then
    if (!card.isConnected) return;
    APPROVAL_CONTROLS.get(card)?.preview.update();
    const foot = card.closest("[data-several]")?.querySelector(":scope > .af-approval-bar") ?? card.lastElementChild;
    const scroller = scrollerOf(card) ?? document.documentElement;
    const frame = scroller === document.documentElement ? new DOMRect(0, 0, innerWidth, innerHeight) : scroller.getBoundingClientRect();
    const form = parseFloat(getComputedStyle(card).getPropertyValue("--af-form")) || 0;
    const fixed = [card, focusedElement()].filter((node) => node === card || node?.matches("input, textarea, .cm-content"));
    const free = Math.min(...fixed.map((node) => node.getBoundingClientRect().top - frame.top));
    scroller.scrollTop += Math.max(Math.min(foot.getBoundingClientRect().bottom + form - frame.bottom, free), 0);
  });
}
