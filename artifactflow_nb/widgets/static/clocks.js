/** Times that count on in a view: elements with `data-since`, milliseconds of the kernel's clock. */

/** `12 s`, `2 min 05 s`. @param {number} ms @returns {string} */
function clock(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}

class Clocks {
  /** @param {HTMLElement} body what holds them */
  constructor(body) {
    this.body = body;
    /** As of the last change: looking for them in a long tree takes a while. @type {Element[] | null} */
    this.counting = null;
  }

  /** Count on. @param {number} offset milliseconds from the kernel's clock to ours */
  tick(offset) {
    this.counting ??= [...this.body.querySelectorAll("[data-since]")];
    for (const node of this.counting) {
      const text = clock(Date.now() + offset - Number(/** @type {HTMLElement} */ (node).dataset.since));
      if (node.textContent !== text) node.textContent = text;
    }
  }
}
