/**
 * Buttons of code and tables: copy, and add Python to the notebook. Uses field.js and effects.js.
 */

const COPIED_MS = 2000;

/** Add buttons to each block of code and each table. @param {HTMLElement} own an element with new content @returns {void} */
function addCopyButtons(own) {
  if (!own.closest(".af-md")) return;
  for (const content of own.querySelectorAll("pre, table")) {
    const box = element("div", "af-code-box");
    content.replaceWith(box);
    box.append(content, codeButton(uiText("page_copy"), uiText(content.matches("pre") ? "page_copy_code" : "page_copy_table")));
    if (content.querySelector(".af-python")) box.append(codeButton(uiText("page_add_code"), uiText("page_add_code_cell"), "af-add-code"));
  }
}

/** @param {string} label @param {string} name @param {string} [css] @returns {HTMLElement} */
function codeButton(label, name, css = "") {
  // `KeyedTree.write` restores the focus of elements with a tab index when a growing text is rendered again.
  const attributes = { type: "button", tabindex: 0, "aria-label": name };
  const button = dressedElement("button", `af-button af-small af-copy-code ${css}`.trim(), attributes);
  button.textContent = label;
  return button;
}

/**
 * Copy the code or table whose button was pressed, a table as values between tabs, or add the code to the notebook.
 * @param {Event} event a click @param {(source: string) => Promise<string>} addToNotebook
 * @returns {Promise<string>} message to display; empty if it was on no such button
 */
async function pressCodeButton(event, addToNotebook) {
  const button = /** @type {Element} */ (event.target).closest(".af-copy-code");
  const content = button?.parentElement?.querySelector("pre, table");
  if (!button || !content) return "";
  const code = content.textContent ?? "";
  if (button.matches(".af-add-code")) return addToNotebook(code.trimEnd());
  const rows = [.../** @type {HTMLTableElement} */ (content).rows ?? []];
  const lines = rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim().replace(/\s+/g, " ")).join("\t"));
  const message = await copyAndReport(content.matches("pre") ? code : lines.join("\n"));
  button.classList.add("af-copied");
  setTimeout(() => button.classList.remove("af-copied"), COPIED_MS);
  return message;
}
