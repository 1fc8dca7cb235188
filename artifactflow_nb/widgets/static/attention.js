/**
 * Tells the person that a decision is needed: in the title of the page and, while no card is visible, by a line in the
 * corner of the page. Uses output.js, place.js and notices.js.
 *
 * All panels of the page, which are separate modules, share one object, `window.afAttention`.
 *
 * @typedef {{id: string, title: string, panel: Panel, card: HTMLElement}} WaitingRequest
 */

const ATTENTION_INTERVAL_MS = 500;
/** Time limit for a card to appear; JupyterLab needs less to open a notebook and to render a cell. */
const SHOW_TIMEOUT_MS = 5000;
/** The mark in the title, in each language: the panels of a page may have different languages. */
const TITLE_MARK = /^(?:\(\d+ waiting\) |（\d+ 个待处理）)/;
/** Elements that the line must not cover: controls, the toasts of JupyterLab and the list of its notifications. */
const UNCOVERED = `.af-live :is(button, input, select, textarea), .jp-Notification-Center, ${TOASTS}`;
/** The distance of the line from the bottom of the page; a page up to the width has no distance, as in attention.css. */
const MARGIN_BELOW_PX = 24;
const NARROW_PX = 1000;
const STEP_PX = 8;
const FIELDS = "input, textarea, select, dialog, [contenteditable=true], .jp-Dialog, .lm-Menu";

/**
 * Run a command of JupyterLab by a click on a link in a trusted output. Nothing happens without a trusted output, because
 * JupyterLab would ask the person first, and outside of JupyterLab, because Notebook 7 would close the open notebook.
 * @param {string} command @param {object} args
 */
function runLabCommand(command, args) {
  const link = document.createElement("span");
  link.dataset.commandlinkerCommand = command;
  link.dataset.commandlinkerArgs = JSON.stringify(args);
  document.querySelector("#jp-main-dock-panel .jp-OutputArea-output.jp-mod-trusted")?.append(link);
  link.click();
  link.remove();
}

/**
 * Open the file of a local source at the cited passage or section, as JupyterLab opens links of notebooks: the path of the
 * file is relative to the notebook. In other pages the browser follows the link.
 * @param {Panel} panel @param {Event} event a click
 */
function openSource(panel, event) {
  const href = /** @type {Element} */ (event.target).closest("a[href]")?.getAttribute("href") ?? "";
  const [file, fragment] = href.split("#");
  const notebook = notebookPath(panel);
  if (!file || !notebook || URL.canParse(file) || !document.querySelector("#jp-main-dock-panel")) return;
  event.preventDefault();
  const path = decodeURIComponent(new URL(file, `file:///${encodeURI(notebook)}`).pathname.slice(1));
  runLabCommand("rendermime:handle-local-link", { path, id: fragment ? `#${fragment}` : "" });
}

/** Path of the notebook of a panel; empty in pages without notebooks. @param {Panel} panel @returns {string} */
function notebookPath(panel) {
  return panel.model.widget_manager?.context?.path ?? "";
}

/** Name of the notebook of a panel if another notebook is in front; otherwise empty. @param {Panel} panel @returns {string} */
function hiddenNotebook(panel) {
  const name = notebookPath(panel).split("/").pop() ?? "";
  const inPage = panel.mounts.map(({ root }) => root.closest(".jp-NotebookPanel")).find(Boolean);
  if (inPage) return inPage.classList.contains("lm-mod-hidden") ? name : "";
  // JupyterLab has removed the cell from the page, because it is far outside of the viewport.
  const tabs = [...document.querySelectorAll("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current .lm-TabBar-tabLabel")];
  return tabs.length && !tabs.some((tab) => tab.textContent === name) ? name : "";
}

/** Text about waiting requests: title of the first request, its notebook (may be empty), number of other requests. @param {string} name of the notebook @param {WaitingRequest[]} requests */
function waitingText(name, [{ title }, ...others]) {
  const text = name ? translate("Waiting for you in {name}: {title}", { name, title }) : translate("Waiting for you: {title}", { title });
  return text + (others.length ? translate(" (and {n} more)", { n: others.length }) : "");
}

/** Rank of a view that shows a request: views of all runs come last, and a newer view before an older view. @param {Panel} panel */
function rankOfView(panel) {
  return (panel.mounts[0]?.root.matches(".af-home, .af-pending") ? -1e12 : 0) + panel.startedAt;
}

class Attention {
  constructor() {
    /** @type {Map<string, WaitingRequest[]>} by panel id */
    this.byPanel = new Map();
    /** Ids of the requests whose line the person has closed. @type {Set<string>} */
    this.dismissed = new Set();
    /** Element that had the focus before the line. @type {HTMLElement | null} */
    this.before = null;
    this.bar = element("div", "af-attention");
    this.bar.setAttribute("role", "status");
    this.text = element("span", "af-attention-text");
    const close = plainButton("✕", () => this.dismiss());
    close.setAttribute("aria-label", translate("Dismiss"));
    close.title = translate("Dismiss (Escape)");
    this.bar.append(this.text, plainButton(translate("Show"), () => this.show()), close);
    this.bar.addEventListener("focusin", ({ relatedTarget }) => {
      if (relatedTarget instanceof HTMLElement && !this.bar.contains(relatedTarget)) this.before = relatedTarget;
    });
    window.addEventListener("keydown", (event) => {
      const key = event.key, target = targetOf(event);
      if (key === "Escape" && this.bar.isConnected && !(target instanceof Element && target.closest(FIELDS))) this.dismiss();
    }, true); // in the capture phase, because views stop the propagation of keys
    this.notices = new Notices((ids) => this.show(ids), () => this.dismiss());
    this.titleObserver = new MutationObserver(() => this.markTitle());
    setInterval(() => this.update(), ATTENTION_INTERVAL_MS);
  }

  /** The waiting requests, each once, in its view of the highest rank; requests of hidden notebooks last. @returns {WaitingRequest[]} */
  get requests() {
    const all = [...this.byPanel.values()].flat().sort((one, other) => rankOfView(other.panel) - rankOfView(one.panel));
    const first = all.filter(({ id }, index) => all.findIndex((request) => request.id === id) === index);
    return first.sort((one, other) => Number(hiddenNotebook(one.panel) !== "") - Number(hiddenNotebook(other.panel) !== ""));
  }

  /** @param {string} panelId @param {WaitingRequest[]} requests */
  report(panelId, requests) {
    if (requests.length) this.byPanel.set(panelId, requests);
    else if (!this.byPanel.delete(panelId)) return;
    this.update();
  }

  update() {
    const waiting = this.requests;
    const requests = waiting.filter(({ id }) => !this.dismissed.has(id));
    this.markTitle();
    this.notices.update([...this.byPanel.values()], waiting);
    const cards = [...document.querySelectorAll(".af-live .af-approval"), ...waiting.map(({ card }) => card)]; // waiting cards may be in shadow roots
    const isSeen = requests.length > 0 && cards.some(isInView);
    if (!requests.length || isSeen || this.notices.isToasted) return this.bar.remove();
    const text = waitingText(hiddenNotebook(requests[0].panel), requests);
    if (this.text.textContent !== text) this.text.textContent = this.text.title = text;
    if (!this.bar.isConnected) document.body.append(this.bar);
    this.placeBar();
  }

  /** Move the line up until it covers no control of a view, such as Ask and Stop of a chat. */
  placeBar() {
    const { left, right, height } = this.bar.getBoundingClientRect();
    const controls = [...document.querySelectorAll(UNCOVERED)].filter((node) => node.checkVisibility());
    const spans = controls.map((node) => {
      const rect = node.getBoundingClientRect();
      const box = scrollerOf(node)?.getBoundingClientRect();
      const isBeside = rect.right <= left || rect.left >= right;
      return isBeside ? [0, 0] : [Math.max(rect.top, box?.top ?? 0), Math.min(rect.bottom, box?.bottom ?? innerHeight)];
    }).filter(([top, bottom]) => top < bottom); // without controls that are scrolled out of sight
    const isFree = (/** @type {number} */ bottom) => {
      const end = innerHeight - bottom;
      return spans.every((span) => span[1] <= end - height || span[0] >= end);
    };
    const start = innerWidth <= NARROW_PX ? 0 : MARGIN_BELOW_PX;
    let bottom = start;
    while (!isFree(bottom) && bottom + height < innerHeight) bottom += STEP_PX;
    this.bar.style.bottom = `${bottom + height < innerHeight ? bottom : start}px`;
  }

  markTitle() {
    const n = this.requests.length;
    const plain = document.title.replace(TITLE_MARK, "");
    const title = n ? translate("({n} waiting) ", { n }) + plain : plain;
    this.titleObserver.disconnect();
    if (document.title !== title) document.title = title;
    const node = document.querySelector("title"); // JupyterLab sets the title when a document changes
    if (n && node) this.titleObserver.observe(node, { childList: true });
  }

  /** Close the line until another request waits. */
  dismiss() {
    const hadFocus = this.bar.contains(focusedElement());
    for (const { id } of this.requests) this.dismissed.add(id);
    this.bar.remove();
    if (hadFocus) this.before?.focus({ preventScroll: true });
  }

  /** Scroll to the card of the first request, in the tab of its notebook, and focus the card. @param {string[]} [ids] by default the requests of the line */
  show(ids) {
    const request = this.requests.find(({ id }) => (ids ? ids.includes(id) : !this.dismissed.has(id)));
    if (!request) return;
    const { panel, card } = request;
    const path = notebookPath(panel);
    const cell = card.isConnected ? null : findOutput(panel.model, panel.host)?.cell;
    if (cell) runLabCommand("rendermime:handle-local-link", { path, id: `#cell-id=${cell}` });
    else if (path) runLabCommand("docmanager:open", { path });
    const until = performance.now() + SHOW_TIMEOUT_MS;
    const reveal = () => {
      if (!card.checkVisibility()) return performance.now() < until && setTimeout(reveal, 100);
      card.scrollIntoView({ block: "center" });
      card.focus({ preventScroll: true });
    };
    setTimeout(reveal, path ? 100 : 0);
  }
}

/** Report the open requests of a panel after an update; a closed panel has none, a panel without `notify` reports none. @param {Panel} panel */
function reportRequests(panel) {
  if (!panel.model.get("notify") || (panel.reportedSeq === panel.seq && !panel.closed)) return;
  panel.reportedSeq = panel.seq;
  const entries = panel.closed || !panel.mounts[0] ? [] : [...panel.mounts[0].tree.entries.values()];
  const cards = entries.filter(({ kind }) => kind === "approval").map(({ data, root }) => ({ ...JSON.parse(data), root }));
  const shared = (/** @type {any} */ (window).afAttention ??= new Attention());
  shared.report(panel.id, cards.map(({ request, title, root }) => ({ id: request, title, panel, card: root })));
}
