/** The page for a browser without a token: a person pastes the link, or only the token, and the page opens the link. */
const form = /** @type {HTMLFormElement} */ (document.getElementById("link"));
const address = /** @type {HTMLInputElement} */ (document.getElementById("address"));

/** @param {string} text @returns {string} */
const tokenIn = (text) => (URL.canParse(text) ? new URL(text).searchParams.get("token") ?? "" : text);

if (new URLSearchParams(location.search).has("token")) {
  /** @type {HTMLElement} */ (document.getElementById("problem")).textContent = form.dataset.unknown ?? "";
  history.replaceState(null, "", location.pathname + location.hash); // the token stays out of bookmarks
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  location.search = `?token=${encodeURIComponent(tokenIn(address.value.trim()))}`;
});
