/**
 * Notices about requests that wait while their cards are not visible, for the notifications of JupyterLab and Notebook 7.
 * The extension in widgets/labextension shows the notices; without the extension nothing happens. Used by attention.js.
 *
 * A notice is about the requests of one panel. A notice ends when a card of the panel is visible, when the person presses
 * the notice's button, or when all its requests are decided. A request whose card was visible gets no further notice: the
 * title of the page and the line in its corner remain.
 *
 * @typedef {{key: string, message: string, ids: string[]}} Notice `ids`: ids of the requests; `key`: the first id
 */

/** Longer than JupyterLab takes to load the code of its first toast and to show the toast. */
const TOAST_DELAY_MS = 1000;
/** JupyterLab cuts longer messages. */
const MAX_NOTICE_CHARS = 140;
const TOASTS = ".jp-toastContainer .Toastify__toast";

/** True if a card is in the visible part of the page. @param {Element} card @returns {boolean} */
function isInView(card) {
  const { top, bottom, width } = card.getBoundingClientRect();
  return width > 0 && card.checkVisibility() && bottom > 60 && top < innerHeight - 60;
}

class Notices {
  /** @param {(ids: string[]) => void} show shows the first of the requests @param {() => void} dismiss called when the person closes a toast */
  constructor(show, dismiss) {
    /** Ids of the requests that need no notice any more. @type {Set<string>} */
    this.seen = new Set();
    /** @type {Notice[]} */
    this.notices = [];
    this.changedAt = -TOAST_DELAY_MS;
    window.addEventListener("artifactflow:show", (event) => {
      const { detail: key } = /** @type {CustomEvent<string>} */ (event);
      const ids = this.notices.find((notice) => notice.key === key)?.ids ?? [];
      for (const id of ids) this.seen.add(id);
      show(ids);
    });
    window.addEventListener("click", ({ target }) => {
      if (target instanceof Element && target.closest(".jp-Notification-Toast-Close") && this.toast?.contains(target)) dismiss();
    }, true); // before the toast is removed
  }

  /** The toast of one of the notices. @returns {Element | undefined} */
  get toast() {
    const starts = this.notices.map(({ message }) => message.slice(0, MAX_NOTICE_CHARS));
    return [...document.querySelectorAll(TOASTS)].find(({ textContent }) => starts.some((start) => textContent?.startsWith(start)));
  }

  /** True while a toast replaces the line in the corner, or may soon appear. */
  get isToasted() {
    return performance.now() - this.changedAt < TOAST_DELAY_MS || this.toast !== undefined;
  }

  /**
   * Send all current notices to the extension, which ignores notices that it shows already.
   * @param {WaitingRequest[][]} byPanel the requests of each panel @param {WaitingRequest[]} requests each once, as in `Attention.requests`
   */
  update(byPanel, requests) {
    for (const own of byPanel) if (own.some(({ card }) => isInView(card))) own.forEach(({ id }) => this.seen.add(id));
    const unseen = Map.groupBy(requests.filter(({ id }) => !this.seen.has(id)), ({ panel }) => panel);
    const former = this.notices;
    this.notices = [...unseen.values()].map((own) => this.noticeOf(own));
    if (!former.length && !this.notices.length) return;
    const detail = { notices: this.notices, label: translate("Show") };
    const isShown = !window.dispatchEvent(new CustomEvent("artifactflow:waiting", { cancelable: true, detail }));
    if (isShown && this.notices.length && JSON.stringify(this.notices) !== JSON.stringify(former)) this.changedAt = performance.now();
  }

  /** @param {WaitingRequest[]} own the requests of a panel @returns {Notice} */
  noticeOf(own) {
    const name = notebookPath(own[0].panel).split("/").pop() ?? "";
    return { key: own[0].id, message: waitingText(name, own), ids: own.map(({ id }) => id) };
  }
}
