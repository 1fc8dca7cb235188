/**
 * The host elements in which views are mounted, with styles, theme and shadow root, and the observer that tells panels of
 * new host elements. marimo, for example, displays each widget in a shadow root, where neither the styles of the page nor
 * `document.activeElement` reach.
 */

const STYLE_ID = "af-style";

/** Add the package's styles to a page or a shadow root, once. @param {Document | ShadowRoot} root */
function addStyles(root) {
  if (!UI_STYLE) return; // the page of a server has the styles
  let style = root.getElementById(STYLE_ID);
  if (style?.textContent === UI_STYLE) return;
  style ??= (root instanceof Document ? root.head : root).appendChild(document.createElement("style"));
  style.id = STYLE_ID;
  style.textContent = UI_STYLE;
}

/** Convert a computed colour, in any colour space, to red, green and blue, 0 to 255. @param {string} color */
function rgbOf(color) {
  const pixel = new OffscreenCanvas(1, 1).getContext("2d");
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  return pixel.getImageData(0, 0, 1, 1).data;
}

/**
 * Prepare a host element: add the styles to its shadow root. Outside of Jupyter, where no attribute tells the theme, a page
 * with light text has a dark theme.
 * @param {HTMLElement} host
 */
function prepareHost(host) {
  const root = host.getRootNode();
  if (root instanceof ShadowRoot) addStyles(root);
  if (document.querySelector("[data-jp-theme-light]")) return;
  host.classList.add("af-outside");
  takeTheme(host);
  if (!outsideHosts.size) watchTheme();
  outsideHosts.add(host);
}

/** @type {Set<HTMLElement>} the hosts outside of Jupyter, where no attribute tells the theme */
const outsideHosts = new Set();

/** @param {HTMLElement} host */
function takeTheme(host) {
  const [red, green, blue] = rgbOf(getComputedStyle(host).color);
  host.dataset.jpThemeLight = String(0.3 * red + 0.6 * green + 0.1 * blue < 128);
}

/** Follow the theme of a page outside of Jupyter, which may change while views are shown. */
function watchTheme() {
  const updateThemes = () => {
    for (const host of outsideHosts) host.isConnected ? takeTheme(host) : outsideHosts.delete(host);
  };
  const observer = new MutationObserver(updateThemes);
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributeFilter: ["class", "style", "data-theme"] });
    node.addEventListener("transitionend", updateThemes);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", updateThemes);
}

/** The views of the page, also views of other notebooks and in shadow roots. @type {Set<HTMLElement>} */
const landmarks = (globalThis.artifactflowLandmarks ??= new Set());

/** Give a view a name that no other view of the page has, for screen readers: "Chat", "Chat 2". @param {HTMLElement} root @param {string} label */
function nameLandmark(root, label) {
  for (const each of landmarks) if (!each.isConnected) landmarks.delete(each);
  landmarks.delete(root);
  const names = new Set([...landmarks].map((each) => each.getAttribute("aria-label")));
  let name = label;
  for (let n = 2; names.has(name); n++) name = `${label} ${n}`;
  root.setAttribute("aria-label", name);
  landmarks.add(root);
}

/** The element with the focus, also within a shadow root. @returns {Element | null} */
function focusedElement() {
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  return focused;
}

/** The element that contains a node, also beyond a shadow root. @param {Element} node @returns {Element | null} */
function containerOf(node) {
  const root = node.getRootNode();
  return node.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}

/** The target of an event, also within a shadow root. @param {Event} event @returns {EventTarget | undefined} */
function targetOf(event) {
  return event.composedPath()[0];
}

const HOST_KEY = /(?:^| )af-host-(\S+)/;

/** The panels of this page, by the keys of their widgets. @type {Map<string, Panel>} */
const panels = new Map();

/** @type {HTMLCollectionOf<HTMLElement>} */
const outputHosts = /** @type {any} */ (document.getElementsByClassName("af-host"));

/** True if an element has a live view, which may belong to a console of the same kernel. @param {Panel} panel @param {HTMLElement} host */
function isMountedIn(panel, host) {
  return host.querySelector(":scope > .af-live") !== null || panel.mounts.some((mount) => mount.host === host && !mount.isShown);
}

// Patches change the inside of live views only.
const hostObserver = new MutationObserver((mutations) => {
  if (mutations.every(({ target }) => /** @type {Element} */ (target).closest(".af-live"))) return;
  /** @type {Set<Panel>} */
  const changed = new Set([...panels.values()].filter(({ mounts }) => mounts.some((mount) => mount.isDetached)));
  for (const host of outputHosts) {
    const panel = panels.get(HOST_KEY.exec(host.className)?.[1] ?? "");
    if (panel && !isMountedIn(panel, host)) changed.add(panel);
  }
  for (const panel of changed) panel.mountAll();
});
