/**
 * Access to the saved output of a view in the notebook's model. The page writes the output to the model if the update by
 * the kernel had no effect because the page was reloaded after the cell ran.
 */

const OUTPUT_START = /^<!-- .* -->\n<div class="af-host (\S+) af-output-(\d+)">/;

/**
 * Find the output of a view in the notebook, even if its cell is not in the page; null without an output.
 * @param {any} model the widget's model @param {string} host class of the view's host element
 * @returns {{cell: string, outputs: any, index: number, n: number} | null} `cell` is the id of the cell, `n` the number of the saved output
 */
function findOutput(model, host) {
  const cells = model.widget_manager?.context?.model?.cells ?? [];
  for (const { id, outputs } of cells) {
    for (let index = 0; index < (outputs?.length ?? 0); index += 1) {
      const match = OUTPUT_START.exec(String(outputs.get(index).data["text/html"] ?? "").slice(0, 2000));
      if (match?.[1] === host) return { cell: id, outputs, index, n: Number(match[2]) };
    }
  }
  return null;
}

/**
 * @param {any} model @param {string} host
 * @param {{[type: string]: string}} data by media type @returns {boolean} false without an output
 */
function writeOutput(model, host, data) {
  const output = findOutput(model, host);
  output?.outputs.set(output.index, { output_type: "display_data", data, metadata: {} });
  return output !== null;
}

/**
 * True if an element is in the notebook of a widget: a page of JupyterLab may show several notebooks, each with a kernel.
 * The title of a notebook's tab has a line with the notebook's path; a page without tabs has one notebook.
 * @param {any} model the widget's model @param {Element} node
 */
function isInNotebook(model, node) {
  const path = model.widget_manager?.context?.path;
  const notebook = node.closest(".jp-NotebookPanel");
  if (!path || !notebook) return true;
  const tab = /** @type {HTMLElement | null} */ (document.querySelector(`.lm-TabBar-tab[data-id="${CSS.escape(notebook.id)}"]`));
  if (!tab) return document.querySelectorAll(".jp-NotebookPanel").length === 1;
  return tab.title.split("\n").some((line) => ` ${line}`.endsWith(` ${path}`));
}

/** Number of the saved output in the page. @param {Element} host @returns {number} */
function outputNumber(host) {
  return Number(/ af-output-(\d+)/.exec(host.className)?.[1] ?? 0);
}
