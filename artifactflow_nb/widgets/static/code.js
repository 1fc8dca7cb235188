/**
 * A button at each block of code in a text, which copies the block. The kernel joins field.js and effects.js beside it.
 */

const COPIED_MS = 2000;

/** Put a button at each block of code. @param {HTMLElement} own what was just written @returns {void} */
function offerCopies(own) {
  if (!own.closest(".af-md")) return;
  for (const pre of own.querySelectorAll("pre")) {
    const box = element("div", "af-code-box");
    // With a tab index the focus is found again where a text that grows is written anew.
    const attributes = { type: "button", tabindex: 0, "aria-label": "Copy this code" };
    const button = dressedElement("button", "af-button af-small af-copy-code", attributes);
    button.textContent = "Copy";
    pre.replaceWith(box);
    box.append(pre, button);
  }
}

/**
 * Copy the code whose button was pressed.
 * @param {Event} event a click @returns {Promise<string>} what to say; empty where no such button was pressed
 */
async function copyCode(event) {
  const button = /** @type {Element} */ (event.target).closest(".af-copy-code");
  const code = button?.parentElement?.querySelector("pre");
  if (!button || !code) return "";
  const said = await sayCopied(code.textContent ?? "");
  button.classList.add("af-copied");
  setTimeout(() => button.classList.remove("af-copied"), COPIED_MS);
  return said;
}
