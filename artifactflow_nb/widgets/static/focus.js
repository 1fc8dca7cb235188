/**
 * The focus after a decision. The focus stays in the view: outside of a view the next key would be a command of the
 * notebook, where `a` inserts a cell and `dd` deletes a cell.
 */

/** Decision keys within this time after a decision were meant for the decided card. */
const KEY_GUARD_MS = 500;
/** Frames within which a new output is displayed. */
const FOCUS_FRAMES = 30;
/** Time until which decision keys do nothing, because the focus moved to another card. */
let keysGuardedUntil = 0;

/**
 * Focus an element that needs no character keys, such as a heading. While the element has the focus, character keys do
 * nothing; arrows and shortcuts with Ctrl keep their meaning.
 * @param {HTMLElement} node
 */
function parkFocus(node) {
  if (node.tabIndex < 0) node.tabIndex = -1;
  node.dataset.afParked = "";
  node.focus({ preventScroll: true });
}

// The window listens, because JupyterLab handles keys in the capture phase of the document.
window.addEventListener("keydown", (event) => {
  const isCharacter = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey;
  const target = targetOf(event);
  if (isCharacter && target instanceof HTMLElement && target.dataset.afParked === "") event.stopPropagation();
}, { capture: true });

/** The other cards in the view of a card, starting with the cards behind it. @param {Element} card @returns {HTMLElement[]} */
function otherCards(card) {
  const cards = [...(card.closest(".af-run")?.querySelectorAll(".af-approval") ?? [])];
  const index = cards.indexOf(card);
  return /** @type {HTMLElement[]} */ ([...cards.slice(index + 1), ...cards.slice(0, Math.max(index, 0))]);
}

/** @param {HTMLElement} card */
function isOpenCard(card) {
  return card.isConnected && card.checkVisibility() && !card.querySelector(":scope > [data-decided]");
}

/** Focus the first open card; false if no card is open. @param {HTMLElement[]} cards */
function focusOpenCard(cards) {
  const card = cards.find(isOpenCard);
  card?.focus({ preventScroll: true });
  card?.scrollIntoView({ block: "nearest" });
  if (card) keysGuardedUntil = performance.now() + KEY_GUARD_MS;
  return card !== undefined;
}

/** After a decision on a card with the focus, focus the next open card, or else the decided card until it is removed. @param {HTMLElement} card */
function focusNextCard(card) {
  if (!focusOpenCard(otherCards(card))) parkFocus(card);
}

/**
 * The card, or the bar below several cards, with the focus, its ancestors and the other cards; null without such a focus.
 * @param {Element} container of the view
 */
function cardWithFocus(container) {
  const box = focusedElement()?.closest(".af-approval, .af-approval-bar");
  if (!box || !container.contains(box)) return null;
  /** @type {Element[]} */
  const ancestors = [];
  for (let node = box.parentElement; node && node !== container; node = node.parentElement) ancestors.push(node);
  return { box, others: otherCards(box), ancestors };
}

/**
 * Focus another card if the card with the focus is gone; without another card, the last step of the run, or a heading.
 * @param {ReturnType<typeof cardWithFocus>} before @param {HTMLElement} container
 */
function focusAfterCard(before, container) {
  if (!before || before.box.isConnected || focusOpenCard(before.others)) return;
  const near = before.ancestors.find((node) => node.isConnected) ?? container;
  const visible = (/** @type {Element} */ root, /** @type {string} */ selector) =>
    /** @type {HTMLElement[]} */ ([...root.querySelectorAll(selector)]).filter((node) => node.checkVisibility());
  const headings = ".af-home-line, .af-empty, .af-question";
  const step = visible(near, ".af-work > .af-body > details > summary").pop();
  parkFocus(step ?? visible(near, headings)[0] ?? visible(container, headings)[0] ?? container);
  step?.scrollIntoView({ block: "nearest" });
}

/**
 * Restore the focus to an element in a new output, which may not be displayed yet, for example while the theme changes.
 * @param {HTMLElement} node @param {number} nFrames frames in which to try again
 */
function focusWhenDisplayed(node, nFrames = FOCUS_FRAMES) {
  if (!node.isConnected || focusedElement() !== document.body) return;
  node.focus({ preventScroll: true });
  if (focusedElement() !== node && nFrames) requestAnimationFrame(() => focusWhenDisplayed(node, nFrames - 1));
}

/**
 * The focused element with a selector of the controls for the same action, and its index among them; or null.
 * @param {HTMLElement} view @param {HTMLElement} body its content
 */
function focusedControl(view, body) {
  const node = /** @type {HTMLElement} */ (focusedElement());
  if (node === view || !view.contains(node)) return null;
  const label = node.getAttribute("aria-label");
  const selector = `[data-act="${CSS.escape(node.dataset.act ?? "")}"]${label ? `[aria-label="${CSS.escape(label)}"]` : ""}`;
  return { node, selector, index: [...body.querySelectorAll(selector)].indexOf(node) };
}

/**
 * If an update removed or folded the focused element, focus the control in its place for the same action, or else the fold
 * or the view.
 * @param {ReturnType<typeof focusedControl>} before @param {HTMLElement} view @param {HTMLElement} body
 */
function refocus(before, view, body) {
  if (!before || (before.node.isConnected && before.node.checkVisibility())) return;
  if (![document.body, before.node].includes(/** @type {HTMLElement} */ (focusedElement()))) return;
  const control = /** @type {HTMLElement | undefined} */ ([...body.querySelectorAll(before.selector)][before.index]);
  if (control?.checkVisibility()) return control.focus({ preventScroll: true });
  const fold = [...body.querySelectorAll("details:not([open])")].find((each) => each.contains(before.node));
  parkFocus(/** @type {HTMLElement | null} */ (fold?.querySelector(":scope > summary")) ?? view);
}

/**
 * Follow a footnote's link to the nearest mark or footnote of this number: the page may show a text several times.
 * The URL does not change, because a server's page reads its fragment as the name of a view.
 * @param {Event} event a click
 */
function followNote(event) {
  const link = /** @type {Element} */ (event.target).closest('a[href^="#af-note-"]');
  if (!link) return;
  event.preventDefault();
  const selector = `[id="${link.getAttribute("href")?.slice(1)}"]`;
  let box = link.parentElement;
  while (box && !box.querySelector(selector)) box = box.parentElement;
  /** @type {HTMLElement | null | undefined} */ (box?.querySelector(selector))?.focus();
}

/** For a digit, press the button with this digit beside the button with the focus. @param {KeyboardEvent} event */
function pressNumberKey(event) {
  const group = /** @type {Element} */ (event.target).closest(".af-number-keys");
  const button = [...(group?.querySelectorAll("button") ?? [])].find((each) => each.textContent === event.key);
  if (!button || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  button.focus();
  button.click();
}
