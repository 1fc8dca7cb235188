/**
 * The texts of the scripts in the language of the view. Above this script, the kernel inserts `UI_LANGUAGE` and
 * `UI_TEXTS`, which has the translations of the scripts' English texts (artifactflow_nb/core/language).
 */

/**
 * A text in the language of the view with its parts filled in.
 * @param {string} text @param {{[part: string]: string | number}} [parts] @returns {string}
 */
function translate(text, parts = {}) {
  return (UI_TEXTS[text] ?? text).replace(/\{(\w+)\}/g, (_whole, part) => String(parts[part]));
}

/**
 * True if a key belongs to the composition of a word, for example a Chinese one. Safari ends a composition with an Enter
 * that is outside of it and has this key code.
 * @param {KeyboardEvent} event
 */
function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}
