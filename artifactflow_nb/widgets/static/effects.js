/**
 * What the kernel has a page do beside the tree: the clipboard, a download, a new cell, the focus.
 *
 * @typedef {{name: string, text?: string, filename?: string, media_type?: string, base64?: string, source?: string,
 *   cell_type?: string, key?: string}} Effect
 */

/** @param {string} text @returns {Promise<boolean>} */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without https the page has no clipboard: the old way needs a selected field.
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    before?.focus({ preventScroll: true });
    return copied;
  }
}

/** Copy, and tell how it went. @param {string} text @returns {Promise<string>} */
async function sayCopied(text) {
  return (await copyText(text)) ? "Copied." : "The browser did not allow copying.";
}

/** @param {Effect} effect */
function download({ filename, media_type, base64 }) {
  const bytes = Uint8Array.from(atob(base64 ?? ""), (char) => char.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([bytes], { type: media_type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = filename ?? "";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/**
 * Add a cell below the one that shows the view; where there is no notebook to write to, copy its text instead.
 * @param {any} model the widget's model @param {HTMLElement} root @param {Effect} effect @returns {Promise<string>}
 */
async function addCell(model, root, { source, cell_type }) {
  const cells = model.widget_manager?.context?.model?.sharedModel;
  const shown = [...(root.closest(".jp-Notebook")?.querySelectorAll(".jp-Cell") ?? [])];
  const at = shown.findIndex((cell) => cell.contains(root));
  if (!cells?.insertCell || at < 0) {
    return (await copyText(source ?? "")) ? "Copied: paste it into a cell." : "This page cannot add cells.";
  }
  cells.insertCell(at + 1, { cell_type, source, metadata: cell_type === "code" ? { trusted: true } : {} });
  return "Added as a cell below.";
}

/**
 * @param {any} model @param {HTMLElement} root @param {KeyedTree} tree @param {Effect} effect
 * @returns {Promise<string>} what a screen reader and the panel say
 */
async function carryOut(model, root, tree, effect) {
  const place = effect.key ? tree.entries.get(effect.key)?.root : undefined;
  switch (effect.name) {
    case "copy":
      return sayCopied(effect.text ?? "");
    case "download":
      download(effect);
      return "";
    case "cell":
      return addCell(model, root, effect);
    case "focus": {
      const wanted = place?.matches("[tabindex]") ? place : place?.querySelector("textarea, input, button, [tabindex], summary");
      /** @type {HTMLElement | undefined} */ (wanted)?.focus();
      return "";
    }
    case "show":
      place?.scrollIntoView({ block: "nearest" });
      return "";
    case "end":
      if (place) place.scrollTop = place.scrollHeight;
      return "";
    default:
      return "";
  }
}
