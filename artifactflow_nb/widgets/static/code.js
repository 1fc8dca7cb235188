/**
 * Buttons of code and tables: copy, download as CSV, show over the whole page, and add Python to the notebook. Uses
 * field.js and effects.js.
 */

/** A table with more rows or columns has a button that shows the table over the whole page. */
const MANY_ROWS = 8;
const MANY_COLUMNS = 4;

/** Add buttons to each block of code and each table. @param {HTMLElement} own an element with new content @returns {void} */
function addCopyButtons(own) {
  if (!own.closest(".af-md")) return;
  const tables = [...own.querySelectorAll("table")];
  for (const content of own.querySelectorAll("pre, table")) {
    const box = element("div", "af-code-box");
    const tools = element("div", "af-code-tools");
    content.replaceWith(box);
    box.append(tools, content);
    if (content.querySelector(".af-python")) tools.append(codeButton(translate("Add to notebook"), translate("Add to notebook as a cell"), "af-add-code"));
    if (content.matches(".af-art-frames table")) {
      const open = codeButton(translate("Open as a DataFrame"), translate("Open as a DataFrame"));
      open.dataset.act = "table";
      open.dataset.args = JSON.stringify({ index: tables.indexOf(/** @type {HTMLTableElement} */ (content)) });
      tools.append(open);
    }
    if (content instanceof HTMLTableElement) {
      tools.append(codeButton("CSV", translate("Download this table as CSV"), "af-table-csv"));
      const isLarge = content.rows.length > MANY_ROWS || (content.rows[0]?.cells.length ?? 0) > MANY_COLUMNS;
      if (isLarge) tools.append(codeButton(translate("Full screen"), translate("Show this table over the whole page"), "af-table-whole"));
    }
    tools.append(codeButton(translate("Copy"), translate(content.matches("pre") ? "Copy this code" : "Copy this table")));
  }
}

/** @param {string} label @param {string} name @param {string} [css] @returns {HTMLElement} */
function codeButton(label, name, css = "") {
  // `KeyedTree.write` restores the focus of elements with a tab index when a growing text is rendered again.
  const attributes = { type: "button", tabindex: 0, "aria-label": name };
  const button = element("button", `af-button af-small af-copy-code ${css}`.trim(), attributes);
  button.textContent = label;
  return button;
}

/**
 * Perform the action of a pressed button: copy code, copy a table as values between tabs, or add code to the notebook.
 * @param {Event} event a click @param {(source: string) => Promise<string>} addToNotebook
 * @returns {Promise<string>} message to display; empty for a click on any other element
 */
async function pressCodeButton(event, addToNotebook) {
  const button = /** @type {Element} */ (event.target).closest(".af-copy-code:not([data-act])");
  const content = button?.closest(".af-code-box")?.querySelector("pre, table");
  if (!button || !content) return "";
  if (content instanceof HTMLTableElement) {
    const rows = [...content.rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim().replace(/\s+/g, " ")));
    if (button.matches(".af-table-csv")) return downloadTable(rows);
    if (button.matches(".af-table-whole")) return showTable(content);
    return copyAndReport(rows.map((cells) => cells.join("\t")).join("\n"));
  }
  const code = content.textContent ?? "";
  return button.matches(".af-add-code") ? addToNotebook(code.trimEnd()) : copyAndReport(code);
}

/** @param {string[][]} rows @returns {string} no message: the browser shows the download */
function downloadTable(rows) {
  const quoted = (/** @type {string} */ cell) => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const csv = rows.map((cells) => cells.map(quoted).join(",")).join("\r\n");
  const bytes = new TextEncoder().encode(`\ufeff${csv}\r\n`); // Excel reads UTF-8 only after this mark
  download({ name: "download", filename: "table.csv", media_type: "text/csv", base64: btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), "")) });
  return "";
}

/** Show a table over the page until the reader closes the table. @param {HTMLTableElement} table @returns {string} */
function showTable(table) {
  const copy = element("div", "af-md");
  copy.append(table.cloneNode(true));
  showDialog(/** @type {HTMLElement} */ (table.closest(".af-run")), copy, translate("Table"), "af-whole");
  return "";
}
