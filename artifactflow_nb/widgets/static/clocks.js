/** Running times in a view: elements with `data-since`, a start in milliseconds of the kernel's clock. */

/** `12 s`, `2 min 05 s`. @param {number} ms @returns {string} */
function clock(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

class Clocks {
  /** @param {HTMLElement} body container of the elements */
  constructor(body) {
    this.body = body;
    /** The elements since the last change; null if they have to be searched again, which is slow in a long tree. @type {Element[] | null} */
    this.elements = null;
  }

  /** Update the displayed times. @param {number} offset kernel's clock minus browser's clock, milliseconds */
  tick(offset) {
    this.elements ??= [...this.body.querySelectorAll("[data-since]")];
    for (const node of this.elements) {
      const text = clock(Date.now() + offset - Number(/** @type {HTMLElement} */ (node).dataset.since));
      if (node.textContent !== text) node.textContent = text;
    }
  }
}
