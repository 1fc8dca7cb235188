/** The height of a chat: a chat in a tab or on a page of its own fills the window, a chat in a notebook fits its content. Uses follow.js. */

const MIN_FIT_PX = 150;
const TAB_MARGIN_PX = 5;

/** Let a chat fill a tab or a page of its own, so that its form is visible. @param {HTMLElement} root */
function fitHeight(root) {
  if (!root.matches(".af-chat") || !root.isConnected) return;
  const tab = root.closest(".jp-WindowedPanel-outer, .jp-Notebook") ? null : root.closest(".jp-LinkedOutputView, main");
  root.toggleAttribute("data-fills", tab !== null);
  const box = root.querySelector(".af-follow");
  // Other elements that stick to the lower edge are placed above the form by `--af-form`.
  const covered = box && scrollerOfBox(box) !== box ? /** @type {HTMLElement} */ (box.nextElementSibling).offsetHeight : 0;
  root.style.setProperty("--af-form", `${covered}px`);
  if (!tab) return;
  const frame = tab.matches("main") ? null : tab;
  const above = Math.max(root.getBoundingClientRect().top - (frame?.getBoundingClientRect().top ?? -scrollY), 0);
  const fit = `${Math.max((frame?.clientHeight ?? innerHeight) - above - TAB_MARGIN_PX, MIN_FIT_PX)}px`;
  if (root.style.getPropertyValue("--af-fit") !== fit) root.style.setProperty("--af-fit", fit);
}
