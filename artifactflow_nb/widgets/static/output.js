/**
 * The saved output of a view in the notebook itself: where the kernel's update did not reach it, because the page was
 * loaded again since the cell ran, the page writes it there.
 */

const OUTPUT_START = /^<div class="af-host (\S+) af-output-(\d+)">/;

/**
 * The output of the notebook that holds a view, whether or not its cell is in the page; null where there is none.
 * @param {any} model the widget's model @param {string} host the class of the view's place
 * @returns {{cell: string, outputs: any, index: number, n: number} | null} `cell` is its id, `n` the number of the saved output
 */
function findOutput(model, host) {
  const cells = model.widget_manager?.context?.model?.cells ?? [];
  for (const { id, outputs } of cells) {
    for (let index = 0; index < (outputs?.length ?? 0); index += 1) {
      const found = OUTPUT_START.exec(String(outputs.get(index).data["text/html"] ?? "").slice(0, 200));
      if (found?.[1] === host) return { cell: id, outputs, index, n: Number(found[2]) };
    }
  }
  return null;
}

/**
 * @param {any} model @param {string} host
 * @param {{[type: string]: string}} data by media type @returns {boolean} whether there was an output to write to
 */
function writeOutput(model, host, data) {
  const found = findOutput(model, host);
  found?.outputs.set(found.index, { output_type: "display_data", data, metadata: {} });
  return found !== null;
}

/** The number of the saved output that stands in the page. @param {Element} host @returns {number} */
function outputNumber(host) {
  return Number(/ af-output-(\d+)/.exec(host.className)?.[1] ?? 0);
}
