/**
 * Times that change in a view. Elements with `data-since`, in milliseconds of the kernel's clock, show the elapsed time;
 * with `data-usual` as well, the milliseconds of earlier runs, the estimated time left; with `data-stall`, the time without
 * data from the model; with `data-due`, the time until `data-since`. `data-at` is a time, shown in the reader's zone.
 */

/** `12 s`, `2 min 05 s`. @param {number} ms @returns {string} */
function clock(ms) {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  if (seconds < 60) return translate("{s} s", { s: seconds });
  return translate("{min} min {s} s", { min: Math.floor(seconds / 60), s: String(seconds % 60).padStart(2, "0") });
}

/** Runs that usually take less show no estimate. */
const MIN_USUAL_MS = 2000;

/** `about 12 s left`. @param {number} usual milliseconds @param {number} elapsed milliseconds @returns {string} */
function timeLeft(usual, elapsed) {
  if (usual < MIN_USUAL_MS) return "";
  if (usual - elapsed < 1000) return translate("longer than usual ({time})", { time: clock(usual) });
  return translate("about {time} left", { time: clock(usual - elapsed) });
}

/** Shorter gaps between two pieces of a reply are usual. */
const MIN_STALL_MS = 10_000;

/** `no data from the model for 23 s`. @param {number} elapsed milliseconds @returns {string} */
function timeWithoutData(elapsed) {
  return elapsed < MIN_STALL_MS ? "" : translate("no data from the model for {time}", { time: clock(elapsed) });
}

/** `in 12 s`, then `now`. @param {number} left milliseconds @returns {string} */
function dueIn(left) {
  return left <= 0 ? translate("now") : translate("in {time}", { time: clock(left + 999) });
}

/** `2026-11-22 05:37`. @param {number} ms milliseconds since 1970 @returns {string} */
function localTime(ms) {
  const utc = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return utc.toISOString().slice(0, 16).replace("T", " ");
}

class Clocks {
  /** @param {HTMLElement} body container of the elements */
  constructor(body) {
    this.body = body;
    /** The elements with times; null after a change: then they are searched again, which is slow in a long tree. @type {Element[] | null} */
    this.elements = null;
  }

  /**
   * Update the displayed times.
   * @param {number} offset kernel's clock minus browser's clock, milliseconds
   * @param {(change: () => void) => void} keep applies a change that may need another line, and keeps the reader's position
   */
  tick(offset, keep) {
    /** @type {{node: Element, text: string}[]} */
    const changes = [];
    this.elements ??= [...this.body.querySelectorAll("[data-since], [data-at]")];
    for (const node of this.elements) {
      const { since, usual, stall, due, at } = /** @type {HTMLElement} */ (node).dataset;
      const elapsed = Date.now() + offset - Number(since);
      const running = () => (usual === undefined ? clock(elapsed) : timeLeft(Number(usual), elapsed));
      const shown = () => (due !== undefined ? dueIn(-elapsed) : stall === undefined ? running() : timeWithoutData(elapsed));
      const text = at === undefined ? shown() : localTime(Number(at));
      if (node.textContent !== text) changes.push({ node, text });
    }
    const apply = () => changes.forEach(({ node, text }) => (node.textContent = text));
    changes.some(({ node, text }) => !node.textContent || !text) ? keep(apply) : apply();
  }
}
