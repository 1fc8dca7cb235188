/**
 * A guard of decisions against clicks that were meant for the control that was under the pointer before: the next card may
 * appear in the place of a decided card, and a second click would decide the next card unseen.
 */

/** Time for which a control that appeared under the resting pointer does nothing. */
const POINTER_GUARD_MS = 700;
const POINTER_CHECK_MS = 200;
/** Movement of a control, and of the pointer, that does not count. A finger hits the same position less exactly. */
const POINTER_REST_PX = 5;
const FINGER_REST_PX = 24;
/** Time after a scroll in which a control came under the pointer by intention. */
const OWN_SCROLL_MS = 400;
const GUARDED = ".af-approval :is(button, [data-act]), .af-approval-bar button, .af-board [data-act]";

/** The position of the resting pointer, and the time of its arrival. */
const pointer = { x: -1e6, y: -1e6, arrivedAt: 0, scrolledAt: -1e6 };
const followPointer = (/** @type {PointerEvent} */ { clientX: x, clientY: y, pointerType }) => {
  const slack = pointerType === "touch" ? FINGER_REST_PX : POINTER_REST_PX;
  if (Math.hypot(x - pointer.x, y - pointer.y) >= slack) Object.assign(pointer, { x, y, arrivedAt: performance.now() });
};
for (const type of ["pointermove", "pointerdown"])
  window.addEventListener(type, (event) => followPointer(/** @type {PointerEvent} */ (event)), { capture: true, passive: true });
for (const type of ["wheel", "touchmove"])
  window.addEventListener(type, () => (pointer.scrolledAt = performance.now()), { capture: true, passive: true });

/** Key of a control, by its action: a control that was drawn again has the same key. @param {Element} control */
function controlKey(control) {
  const card = control.closest(".af-approval, .af-board-card");
  const { act = "", args = "" } = /** @type {HTMLElement} */ (control).dataset;
  return [card?.getAttribute("aria-label"), act, args, control.getAttribute("aria-label") ?? control.textContent].join("|");
}

/** The guards of all views; the guard of a removed view is collected. @type {Set<WeakRef<PointerGuard>>} */
const guards = new Set();

/** @param {(guard: PointerGuard) => void} act */
function forEachVisibleGuard(act) {
  for (const reference of guards) {
    const guard = reference.deref();
    if (!guard) guards.delete(reference);
    else if (guard.root.isConnected) act(guard);
  }
}

setInterval(() => forEachVisibleGuard((guard) => guard.check()), POINTER_CHECK_MS);
document.addEventListener("scroll", () => forEachVisibleGuard((guard) => guard.checkSoon()), { capture: true, passive: true });

class PointerGuard {
  /** @param {HTMLElement} root of a view @param {() => void} onRefused called after a click that did nothing */
  constructor(root, onRefused) {
    this.root = root;
    /** Control of the last press that must do nothing. @type {Element | null} */
    this.refused = null;
    /** The position of each control, and the time since which it is there. @type {Map<string, {box: DOMRect, since: number}>} */
    this.positions = new Map();
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

  /** Note the controls that have moved. */
  check() {
    const now = performance.now();
    const { x, y, arrivedAt, scrolledAt } = pointer;
    // A pointer that has moved since the last check may have moved to a control that was there before.
    const since = now - scrolledAt < OWN_SCROLL_MS || arrivedAt > this.checkedAt ? this.checkedAt - POINTER_GUARD_MS : now;
    this.checkedAt = now;
    this.frame = undefined;
    /** @type {typeof this.positions} */
    const positions = new Map();
    for (const control of this.root.querySelectorAll(GUARDED)) {
      if (!control.checkVisibility()) continue;
      const box = control.getBoundingClientRect(), key = controlKey(control), before = this.positions.get(key);
      const isSame = before && Math.hypot(box.left - before.box.left, box.top - before.box.top) < POINTER_REST_PX;
      const wasUnder = before && x >= before.box.left && x <= before.box.right && y >= before.box.top && y <= before.box.bottom;
      positions.set(key, { box, since: before && (isSame || wasUnder) ? before.since : since });
    }
    this.positions = positions;
  }

  /** @param {PointerEvent} event */
  press(event) {
    this.check();
    const control = /** @type {Element} */ (event.target).closest(GUARDED);
    const since = control && this.positions.get(controlKey(control))?.since;
    const isNew = typeof since === "number" && since >= pointer.arrivedAt && performance.now() - since < POINTER_GUARD_MS;
    this.refused = isNew ? control : null;
  }
}
