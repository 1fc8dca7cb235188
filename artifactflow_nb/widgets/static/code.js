/**
 * Buttons of code and tables: copy, and add Python to the notebook. Uses field.js and effects.js.
 */

/** Add buttons to each block of code and each table. @param {HTMLElement} own an element with new content @returns {void} */
function addCopyButtons(own) {
  if (!own.closest(".af-md")) return;
  const tables = [...own.querySelectorAll("table")];
  for (const content of own.querySelectorAll("pre, table")) {
    const box = element("div", "af-code-box");
    const tools = element("div", "af-code-tools");
    content.replaceWith(box);
    box.append(tools, content);
    if (content.querySelector(".af-python")) tools.append(codeButton(uiText("page_add_code"), uiText("page_add_code_cell"), "af-add-code"));
    if (content.matches(".af-art-frames table")) {
      const open = codeButton(uiText("page_open_table"), uiText("page_open_table"));
      open.dataset.act = "table";
      open.dataset.args = JSON.stringify({ index: tables.indexOf(/** @type {HTMLTableElement} */ (content)) });
      tools.append(open);
    }
    tools.append(codeButton(uiText("page_copy"), uiText(content.matches("pre") ? "page_copy_code" : "page_copy_table")));
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
 * @returns {Promise<string>} message to display; empty for a click on anything else
 */
async function pressCodeButton(event, addToNotebook) {
  const button = /** @type {Element} */ (event.target).closest(".af-copy-code:not([data-act])");
  const content = button?.closest(".af-code-box")?.querySelector("pre, table");
  if (!button || !content) return "";
  const code = content.textContent ?? "";
  if (button.matches(".af-add-code")) return addToNotebook(code.trimEnd());
  const rows = [.../** @type {HTMLTableElement} */ (content).rows ?? []];
  const lines = rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim().replace(/\s+/g, " ")).join("\t"));
  return copyAndReport(content.matches("pre") ? code : lines.join("\n"));
}
