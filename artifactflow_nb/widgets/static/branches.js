/**
 * Keyboard navigation in a conversation's tree: Up and Down move by row, Left and Right between siblings, Home and End to
 * the first and last row. Only the focused item is a tab stop (a roving tabindex). Enter is an action of the view.
 */

/** @param {KeyboardEvent} event */
function navigateTree(event) {
  const from = /** @type {Element} */ (event.target).closest("[role=treeitem]");
  const tree = from?.closest("[role=tree]");
  if (from?.parentElement?.classList.contains("af-fold") && (event.key === "Enter" || event.key === " ")) focusUnfolded(from, tree);
  if (!from || !tree || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const all = [...tree.querySelectorAll("[role=treeitem]")];
  const parent = from.getAttribute("data-parent");
  const siblings = parent === null ? [] : all.filter((item) => item.getAttribute("data-parent") === parent);
  const index = all.indexOf(from);
  const siblingIndex = siblings.indexOf(from);
  const to = {
    ArrowUp: all[index - 1],
    ArrowDown: all[index + 1],
    ArrowLeft: siblings[siblingIndex - 1],
    ArrowRight: siblings[siblingIndex + 1],
    Home: all[0],
    End: all[all.length - 1],
  };
  if (!(event.key in to)) return;
  event.preventDefault();
  event.stopPropagation();
  /** @type {HTMLElement | undefined} */ (to[event.key])?.focus();
}

/**
 * Once the tree is rendered without the opened fold, focus the first unfolded message, in the same row.
 * @param {Element} fold @param {Element | null | undefined} tree
 */
function focusUnfolded(fold, tree) {
  const box = tree?.closest(".af-branches-box");
  if (!tree || !box) return;
  const index = [...tree.querySelectorAll("[role=treeitem]")].indexOf(fold);
  const observer = new MutationObserver(() => {
    observer.disconnect();
    /** @type {HTMLElement | undefined} */ (box.querySelectorAll("[role=treeitem]")[index])?.focus({ preventScroll: true });
  });
  observer.observe(box, { childList: true });
}

/** @param {FocusEvent} event */
function moveTabStop(event) {
  const focused = /** @type {Element} */ (event.target).closest("[role=treeitem]");
  for (const item of focused?.closest("[role=tree]")?.querySelectorAll("[role=treeitem]") ?? []) {
    item.setAttribute("tabindex", item === focused ? "0" : "-1");
  }
}
