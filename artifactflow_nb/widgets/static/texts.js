/**
 * The texts of the scripts in the language of the view. Above this script, the kernel inserts `UI_LANGUAGE` and
 * `UI_TEXTS`, which has the translations of the scripts' English texts (artifactflow_nb/core/language).
 */

/**
 * Translate a text into the language of the view, and fill in its values.
 * @param {string} text @param {{[name: string]: string | number}} [values] @returns {string}
 */
function translate(text, values = {}) {
  return (UI_TEXTS[text] ?? text).replace(/\{(\w+)\}/g, (_whole, name) => String(values[name]));
}

/**
 * True if a key belongs to the composition of a word, such as a Chinese word. Safari ends a composition with an Enter that
 * is outside of the composition and has this key code.
 * @param {KeyboardEvent} event
 */
function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}
