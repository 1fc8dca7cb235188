/**
 * Browser effects that the kernel requests: clipboard, download, picture, new cell, focus, input, scrolling.
 *
 * @typedef {{name: string, text?: string, filename?: string, media_type?: string, base64?: string, source?: string,
 *   cell_type?: string, key?: string, word?: string, options?: Completion[]}} Effect
 */

const COPIED = translate("Copied.");
const COPIED_MS = 2000;

/** @param {string} text @returns {Promise<boolean>} */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without https there is no clipboard API; `execCommand` copies the selection of a field.
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    const before = /** @type {HTMLElement | null} */ (focusedElement());
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    before?.focus({ preventScroll: true });
    return copied;
  }
}

/** Copy a text; an empty text leaves the clipboard unchanged. @param {string} text @returns {Promise<string>} message about the result */
async function copyAndReport(text) {
  if (!text) return translate("There is nothing to copy.");
  return (await copyText(text)) ? COPIED : translate("The browser did not allow copying.");
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

/** Show a picture over the page until the reader closes the picture. @param {HTMLElement} root @param {Effect} effect */
function showPicture(root, { base64, text }) {
  const picture = document.createElement("img");
  picture.alt = text ?? "";
  picture.src = `data:image/png;base64,${base64 ?? ""}`;
  showDialog(root, picture, text ?? "", "af-picture");
}

/** Show content over the page until the reader closes the content. @param {HTMLElement} root @param {HTMLElement} content @param {string} name @param {string} css */
function showDialog(root, content, name, css) {
  const dialog = document.createElement("dialog");
  dialog.className = css;
  dialog.setAttribute("aria-label", name);
  const close = document.createElement("button");
  close.className = "af-button";
  close.textContent = translate("Close");
  dialog.append(close, content);
  dialog.addEventListener("click", (event) => { if (event.target === dialog || event.target === close) dialog.close(); });
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // shortcuts of the notebook
  dialog.addEventListener("close", () => dialog.remove());
  root.append(dialog);
  dialog.showModal();
}

/**
 * Add a cell below the cell with the view; without a notebook in the page, copy the text of the new cell instead.
 * @param {any} model the widget's model @param {HTMLElement} root @param {Effect} effect @returns {Promise<string>}
 */
async function addCell(model, root, { source, cell_type }) {
  const cells = model.widget_manager?.context?.model?.sharedModel;
  const elements = [...(root.closest(".jp-Notebook")?.querySelectorAll(".jp-Cell") ?? [])];
  const index = elements.findIndex((cell) => cell.contains(root));
  if (!cells?.insertCell || index < 0) {
    return (await copyText(source ?? "")) ? translate("Copied: paste it into a cell.") : translate("This page cannot add cells.");
  }
  cells.insertCell(index + 1, { cell_type, source, metadata: cell_type === "code" ? { trusted: true } : {} });
  return translate("Added as a cell below.");
}

/**
 * The status line of the form whose action requested an effect.
 * @param {KeyedTree} tree @param {Effect} effect @returns {Element | null | undefined}
 */
function formStatus(tree, effect) {
  return effect.key ? tree.entries.get(effect.key)?.root.querySelector(".af-form-status") : null;
}

/**
 * @param {any} model @param {HTMLElement} root @param {KeyedTree} tree @param {Effect} effect
 * @returns {Promise<string>} message to display; empty for none
 */
async function runEffect(model, root, tree, effect) {
  const target = effect.key ? tree.entries.get(effect.key)?.root : undefined;
  switch (effect.name) {
    case "copy":
      return copyAndReport(effect.text ?? "");
    case "download":
      download(effect);
      return "";
    case "picture":
      showPicture(root, effect);
      return "";
    case "cell":
      return addCell(model, root, effect);
    case "focus": {
      const opener = effect.text && root.querySelector(`[data-args=${JSON.stringify(effect.text)}]`);
      const control = opener ? opener : target?.matches("[tabindex]") ? target : target?.querySelector("textarea, input, button, [tabindex], summary");
      /** @type {HTMLElement | undefined} */ (control)?.focus();
      return "";
    }
    case "fill":
    case "complete": {
      const field = target?.querySelector("textarea");
      if (field && effect.name === "complete") field.dispatchEvent(new CustomEvent("af-complete", { detail: effect }));
      if (!field || effect.name === "complete") return "";
      field.value = effect.text ?? "";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.focus();
      return "";
    }
    case "show":
      target?.scrollIntoView({ block: "nearest" });
      return "";
    case "end":
      if (target) scrollToEnd(target);
      return "";
    default:
      return "";
  }
}
