/**
 * Walking through the tree with the keys: Up and Down in the order of its rows, Left and Right between the
 * questions in one place, Home and End. What has the focus is the one stop of the Tab key. Enter is the view's own.
 */

/** @param {KeyboardEvent} event */
function walkBranches(event) {
  const from = /** @type {Element} */ (event.target).closest("[role=treeitem]");
  const tree = from?.closest("[role=tree]");
  if (from?.classList.contains("af-fold") && (event.key === "Enter" || event.key === " ")) keepPlace(from, tree);
  if (!from || !tree || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const all = [...tree.querySelectorAll("[role=treeitem]")];
  const place = from.getAttribute("data-place");
  const beside = place === null ? [] : all.filter((item) => item.getAttribute("data-place") === place);
  const at = all.indexOf(from);
  const besideAt = beside.indexOf(from);
  const to = {
    ArrowUp: all[at - 1],
    ArrowDown: all[at + 1],
    ArrowLeft: beside[besideAt - 1],
    ArrowRight: beside[besideAt + 1],
    Home: all[0],
    End: all[all.length - 1],
  };
  if (!(event.key in to)) return;
  event.preventDefault();
  event.stopPropagation();
  /** @type {HTMLElement | undefined} */ (to[event.key])?.focus();
}

/**
 * What a fold stood for takes its place when the tree is drawn anew: the first of that gets the focus.
 * @param {Element} fold @param {Element | null | undefined} tree
 */
function keepPlace(fold, tree) {
  const box = tree?.closest(".af-branches-box");
  if (!tree || !box) return;
  const at = [...tree.querySelectorAll("[role=treeitem]")].indexOf(fold);
  const observer = new MutationObserver(() => {
    observer.disconnect();
    /** @type {HTMLElement | undefined} */ (box.querySelectorAll("[role=treeitem]")[at])?.focus({ preventScroll: true });
  });
  observer.observe(box, { childList: true });
}

/** @param {FocusEvent} event */
function stopAtBranch(event) {
  const here = /** @type {Element} */ (event.target).closest("[role=treeitem]");
  for (const item of here?.closest("[role=tree]")?.querySelectorAll("[role=treeitem]") ?? []) {
    item.setAttribute("tabindex", item === here ? "0" : "-1");
  }
}
