/** Height of a chat: that of the visible part of its notebook, tab or page. */

const MIN_FIT_PX = 240;
const TAB_MARGIN_PX = 5;
/** The margins of a cell around its output, and a bit of the cell above. */
const FIT_MARGIN_PX = 56;

/**
 * Let a chat fit into the visible part of its notebook, and fill a tab or a page of its own, so that its form is visible.
 * @param {HTMLElement} root
 */
function fitHeight(root) {
  if (!root.matches(".af-chat") || !root.isConnected) return;
  const notebook = root.closest(".jp-WindowedPanel-outer, .jp-Notebook");
  const tab = notebook ? null : root.closest(".jp-LinkedOutputView, main");
  const frame = notebook ?? (tab?.matches("main") ? null : tab);
  const height = frame ? frame.clientHeight : innerHeight;
  const above = tab ? Math.max(root.getBoundingClientRect().top - (frame?.getBoundingClientRect().top ?? -scrollY), 0) : 0;
  const fit = `${Math.max(height - (tab ? above + TAB_MARGIN_PX : FIT_MARGIN_PX), MIN_FIT_PX)}px`;
  if (root.style.getPropertyValue("--af-fit") !== fit) root.style.setProperty("--af-fit", fit);
  root.toggleAttribute("data-fills", tab !== null);
}
