/**
 * Buttons that copy blocks of code. Uses field.js and effects.js.
 */

const COPIED_MS = 2000;

/** Add a copy button to each block of code. @param {HTMLElement} own an element with new content @returns {void} */
function addCopyButtons(own) {
  if (!own.closest(".af-md")) return;
  for (const pre of own.querySelectorAll("pre")) {
    const box = element("div", "af-code-box");
    // `KeyedTree.write` restores the focus of elements with a tab index when a growing text is rendered again.
    const attributes = { type: "button", tabindex: 0, "aria-label": "Copy this code" };
    const button = dressedElement("button", "af-button af-small af-copy-code", attributes);
    button.textContent = "Copy";
    pre.replaceWith(box);
    box.append(pre, button);
  }
}

/**
 * Copy the code whose button was pressed.
 * @param {Event} event a click @returns {Promise<string>} message to display; empty if it was on no such button
 */
async function copyCode(event) {
  const button = /** @type {Element} */ (event.target).closest(".af-copy-code");
  const code = button?.parentElement?.querySelector("pre");
  if (!button || !code) return "";
  const message = await copyAndReport(code.textContent ?? "");
  button.classList.add("af-copied");
  setTimeout(() => button.classList.remove("af-copied"), COPIED_MS);
  return message;
}
