/**
 * The face of a view in the notebook itself: where the kernel's update did not reach the output, because the page was
 * loaded again since the cell ran, the page writes it there.
 */

/**
 * @param {any} model the widget's model @param {string} host the class of the view's place
 * @param {{[type: string]: string}} data the face by media type @returns {boolean} whether there was an output to write to
 */
function writeFace(model, host, data) {
  const cells = model.widget_manager?.context?.model?.cells ?? [];
  for (const { outputs } of cells) {
    for (let i = 0; i < (outputs?.length ?? 0); i += 1) {
      if (String(outputs.get(i).data["text/html"] ?? "").includes(host)) {
        outputs.set(i, { output_type: "display_data", data, metadata: {} });
        return true;
      }
    }
  }
  return false;
}
