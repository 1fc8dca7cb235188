/**
 * The texts of the scripts in the language of the view. The kernel inserts `UI_TEXTS` above this script, from
 * artifactflow_nb/core/language/page.py.
 */

/**
 * A text with its parts filled in.
 * @param {string} key @param {{[part: string]: string | number}} [parts] @returns {string}
 */
function uiText(key, parts = {}) {
  return UI_TEXTS[key].replace(/\{(\w+)\}/g, (_whole, part) => String(parts[part]));
}
