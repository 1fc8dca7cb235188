/**
 * A guard of decisions against clicks that were meant for what was under the pointer before: the next card may appear in
 * the place of a decided one, and a second click would decide it unseen.
 */

/** Time for which a control that appeared under the resting pointer does nothing. */
const POINTER_GUARD_MS = 700;
const POINTER_CHECK_MS = 200;
/** Movement of a control, and of the pointer, that does not count. A finger hits the same place less exactly. */
const POINTER_REST_PX = 5;
const FINGER_REST_PX = 24;
/** A control that the person has scrolled under the pointer was meant to come there. */
const OWN_SCROLL_MS = 400;
const GUARDED = ".af-approval :is(button, [data-act]), .af-approval-bar button, .af-board [data-act]";

/** Where the pointer rests, and when it came there from elsewhere. */
const pointer = { x: -1e6, y: -1e6, arrivedAt: 0, scrolledAt: -1e6 };
const followPointer = (/** @type {PointerEvent} */ { clientX: x, clientY: y, pointerType }) => {
  const slack = pointerType === "touch" ? FINGER_REST_PX : POINTER_REST_PX;
  if (Math.hypot(x - pointer.x, y - pointer.y) >= slack) Object.assign(pointer, { x, y, arrivedAt: performance.now() });
};
for (const type of ["pointermove", "pointerdown"])
  window.addEventListener(type, (event) => followPointer(/** @type {PointerEvent} */ (event)), { capture: true, passive: true });
for (const type of ["wheel", "touchmove"])
  window.addEventListener(type, () => (pointer.scrolledAt = performance.now()), { capture: true, passive: true });

/** What a control does, also after it was drawn again. @param {Element} control */
function controlKey(control) {
  const card = control.closest(".af-approval, .af-board-card");
  const { act = "", args = "" } = /** @type {HTMLElement} */ (control).dataset;
  return [card?.getAttribute("aria-label"), act, args, control.getAttribute("aria-label") ?? control.textContent].join("|");
}

/** The guards of all views; a view that is gone takes its guard with it. @type {Set<WeakRef<PointerGuard>>} */
const guards = new Set();

/** @param {(guard: PointerGuard) => void} act */
function forEachShown(act) {
  for (const reference of guards) {
    const guard = reference.deref();
    if (!guard) guards.delete(reference);
    else if (guard.root.isConnected) act(guard);
  }
}

setInterval(() => forEachShown((guard) => guard.check()), POINTER_CHECK_MS);
document.addEventListener("scroll", () => forEachShown((guard) => guard.checkSoon()), { capture: true, passive: true });

class PointerGuard {
  /** @param {HTMLElement} root of a view @param {() => void} onRefused called after a click that did nothing */
  constructor(root, onRefused) {
    this.root = root;
    /** Control of the last press that must do nothing. @type {Element | null} */
    this.refused = null;
    /** Where each control is, and since when. @type {Map<string, {box: DOMRect, since: number}>} */
    this.places = new Map();
    this.checkedAt = performance.now();
    root.addEventListener("pointerdown", (event) => this.press(event), { capture: true });
    root.addEventListener("keydown", () => (this.refused = null), { capture: true });
    root.addEventListener("click", (event) => {
      if (!this.refused?.contains(/** @type {Node} */ (event.target))) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      onRefused();
    }, { capture: true });
    new MutationObserver(() => this.checkSoon()).observe(root, { childList: true, subtree: true, attributeFilter: ["hidden", "open", "class"] });
    guards.add(new WeakRef(this));
  }

  checkSoon() {
    this.frame ??= requestAnimationFrame(() => this.check());
  }

  /** Note the controls that are in another place than before. */
  check() {
    const now = performance.now();
    const { x, y, arrivedAt, scrolledAt } = pointer;
    // A pointer that has moved since the last check may have moved to what was there already.
    const since = now - scrolledAt < OWN_SCROLL_MS || arrivedAt > this.checkedAt ? this.checkedAt - POINTER_GUARD_MS : now;
    this.checkedAt = now;
    this.frame = undefined;
    /** @type {typeof this.places} */
    const places = new Map();
    for (const control of this.root.querySelectorAll(GUARDED)) {
      if (!control.checkVisibility()) continue;
      const box = control.getBoundingClientRect(), key = controlKey(control), before = this.places.get(key);
      const isSame = before && Math.hypot(box.left - before.box.left, box.top - before.box.top) < POINTER_REST_PX;
      const wasUnder = before && x >= before.box.left && x <= before.box.right && y >= before.box.top && y <= before.box.bottom;
      places.set(key, { box, since: before && (isSame || wasUnder) ? before.since : since });
    }
    this.places = places;
  }

  /** @param {PointerEvent} event */
  press(event) {
    this.check();
    const control = /** @type {Element} */ (event.target).closest(GUARDED);
    const since = control && this.places.get(controlKey(control))?.since;
    const isNew = typeof since === "number" && since >= pointer.arrivedAt && performance.now() - since < POINTER_GUARD_MS;
    this.refused = isNew ? control : null;
  }
}
