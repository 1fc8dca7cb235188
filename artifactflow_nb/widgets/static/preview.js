/** The size of the preview in an approval card: a box that can be scrolled, or all of it. Uses field.js. */
class PreviewSize {
  /** @param {HTMLElement} card */
  constructor(card) {
    this.card = card;
    this.button = plainButton("", () => this.showAll(!this.isFull));
    this.button.classList.add("af-approval-more");
    this.button.hidden = true; // until the button has a name
    this.boxHeight = 0; // last height of the preview in its box
    new ResizeObserver(() => this.update()).observe(card);
  }

  get isFull() {
    return this.card.hasAttribute("data-full");
  }

  /** @param {boolean} isFull */
  showAll(isFull) {
    this.card.toggleAttribute("data-full", isFull);
    this.update();
  }

  /** Offer to show all of a preview that does not fit in its box, and then to show less again. */
  update() {
    const preview = this.card.querySelector(".af-preview");
    if (!this.isFull) this.boxHeight = preview?.clientHeight ?? 0;
    this.button.hidden = !(preview && preview.scrollHeight > this.boxHeight + 2);
    this.button.textContent = translate(this.isFull ? "Show less" : "Show all");
  }
}
