/**
 * Cards of a board are moved: dragged with the mouse, or with Alt and the arrows on the card that has the focus. Where a
 * card goes is the kernel's to say; it is told in front of which card it was let go, and in which list.
 */

const MOVES = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const CARD = ".af-board-card";
const LIST = ".af-board-list";

/** @param {HTMLElement} node @returns {string} the key that the kernel knows it by */
const keyOf = (node) => node.dataset.key ?? "";

/**
 * The card before which what is dragged would stand at this height; undefined for the end.
 * @param {Element} list @param {number} y @param {Element} dragged
 */
function cardBelow(list, y, dragged) {
  const cards = /** @type {HTMLElement[]} */ ([...list.querySelectorAll(`:scope > ${CARD}`)]);
  return cards.find((card) => card !== dragged && y < card.getBoundingClientRect().top + card.offsetHeight / 2);
}

/** @param {HTMLElement} root @param {(act: string, args: object) => void} tell */
function moveCards(root, tell) {
  /** @type {HTMLElement | null} */
  let dragged = null;
  const clear = () => root.querySelectorAll(".af-board-here").forEach((node) => node.classList.remove("af-board-here"));
  /** Where it would be let go: the list, and the card behind it. @param {DragEvent} event */
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
    const found = target(event);
    if (!found) return;
    event.preventDefault();
    event.stopPropagation();
    const mark = found.before ?? found.list;
    if (mark.classList.contains("af-board-here")) return;
    clear();
    mark.classList.add("af-board-here");
  });
  root.addEventListener("drop", (event) => {
    const found = target(event);
    clear();
    if (!found || !dragged) return;
    event.preventDefault();
    event.stopPropagation();
    tell("move", { card: keyOf(dragged), into: keyOf(found.list), before: found.before ? keyOf(found.before) : "" });
  });
  root.addEventListener("dragend", () => {
    clear();
    dragged = null;
  });
  root.addEventListener("keydown", (event) => {
    const to = MOVES[event.key];
    const card = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(CARD));
    if (!to || !card || !event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // Alt with an arrow is the browser's way back, too
    event.stopPropagation();
    tell("step", { card: keyOf(card), to });
  });
}
