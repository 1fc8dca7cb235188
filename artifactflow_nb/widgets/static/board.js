/**
 * Moves of the cards of a board: by dragging, or with Alt and the arrow keys on the focused card. The page sends the list
 * and the card before which a card was dropped; the kernel decides about the move.
 */

const MOVES = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const CARD = ".af-board-card";
const LIST = ".af-board-list";

/** @param {HTMLElement} node @returns {string} key of the node in the kernel */
const nodeKey = (node) => node.dataset.key ?? "";

/**
 * The card before which a dragged card would be dropped at this height; undefined for the end of the list.
 * @param {Element} list @param {number} y @param {Element} dragged
 */
function cardBelow(list, y, dragged) {
  const cards = /** @type {HTMLElement[]} */ ([...list.querySelectorAll(`:scope > ${CARD}`)]);
  return cards.find((card) => card !== dragged && y < card.getBoundingClientRect().top + card.offsetHeight / 2);
}

/** @param {HTMLElement} root @param {(act: string, args: object) => void} perform */
function moveCards(root, perform) {
  /** @type {HTMLElement | null} */
  let dragged = null;
  const clear = () => root.querySelectorAll(".af-board-here").forEach((node) => node.classList.remove("af-board-here"));
  /** The list, and the card before which the dragged card would be dropped; null where it cannot be dropped. @param {DragEvent} event */
  const target = (event) => {
    const over = /** @type {Element} */ (event.target);
    const list = over.closest(LIST) ?? over.closest(".af-board-column")?.querySelector(LIST);
    if (!dragged || !list || !root.contains(list) || dragged.contains(list)) return null;
    return { list: /** @type {HTMLElement} */ (list), before: cardBelow(list, event.clientY, dragged) };
  };
  root.addEventListener("dragstart", (event) => {
    const card = /** @type {Element} */ (event.target).closest?.(CARD);
    if (!card || !event.dataTransfer) return;
    dragged = /** @type {HTMLElement} */ (card);
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", card.querySelector(".af-board-name")?.textContent ?? "");
    event.stopPropagation();
  });
  root.addEventListener("dragover", (event) => {
    const position = target(event);
    if (!position) return;
    event.preventDefault();
    event.stopPropagation();
    const mark = position.before ?? position.list;
    if (mark.classList.contains("af-board-here")) return;
    clear();
    mark.classList.add("af-board-here");
  });
  root.addEventListener("drop", (event) => {
    const position = target(event);
    clear();
    if (!position || !dragged) return;
    event.preventDefault();
    event.stopPropagation();
    perform("move", { card: nodeKey(dragged), into: nodeKey(position.list), before: position.before ? nodeKey(position.before) : "" });
  });
  root.addEventListener("dragend", () => {
    clear();
    dragged = null;
  });
  root.addEventListener("keydown", (event) => {
    const to = MOVES[event.key];
    const card = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(CARD));
    if (!to || !card || !event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // in browsers, Alt with an arrow key navigates back
    event.stopPropagation();
    perform("step", { card: nodeKey(card), to });
  });
}
