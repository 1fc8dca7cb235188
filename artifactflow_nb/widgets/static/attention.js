/**
 * Says that a decision is needed where the person looks: in the title of the page, by a line in the corner of the page while
 * no card is visible, and as a notification of JupyterLab. Uses output.js.
 *
 * All panels of the page, which are separate modules, share one object, `window.afAttention`.
 *
 * @typedef {{id: string, title: string, panel: Panel}} WaitingRequest
 */

const ATTENTION_INTERVAL_MS = 500;
/** A card that appears is usually visible: no notification for it. */
const NOTIFICATION_DELAY_MS = 1500;
const NOTIFICATION_SHOWN_MS = 10_000;
/** In any of the languages: another panel of the page may have another one. */
const TITLE_MARK = /^(?:\(\d+ waiting\) |（\d+ 个待处理）)/;

/**
 * Run a command of JupyterLab, as a link in an output does. Without trust in the output JupyterLab would ask the person, so
 * nothing happens then, nor in other pages.
 * @param {Panel} panel @param {string} command @param {object} args
 */
function runLabCommand(panel, command, args) {
  const trusted = [...panel.hosts].map((host) => host.closest(".jp-mod-trusted")).find(Boolean);
  if (!trusted || !panel.session) return;
  const link = document.createElement("span");
  link.dataset.commandlinkerCommand = command;
  link.dataset.commandlinkerArgs = JSON.stringify(args);
  trusted.append(link);
  link.click();
  link.remove();
}

class Attention {
  constructor() {
    /** @type {Map<string, WaitingRequest[]>} by panel id */
    this.byPanel = new Map();
    /** @type {Map<string, number>} time of the first sight of each request, by id; 0 if its notification is not needed */
    this.seen = new Map();
    this.bar = element("div", "af-attention");
    this.bar.setAttribute("role", "status");
    this.text = element("span");
    this.button = plainButton(uiText("page_show"), () => this.show());
    this.bar.append(this.text, this.button);
    this.titleObserver = new MutationObserver(() => this.markTitle());
    setInterval(() => this.update(), ATTENTION_INTERVAL_MS);
  }

  /** The waiting requests, each once. @returns {WaitingRequest[]} */
  get requests() {
    const all = [...this.byPanel.values()].flat();
    return all.filter((request, i) => all.findIndex(({ id }) => id === request.id) === i);
  }

  /** @param {string} panelId @param {WaitingRequest[]} requests */
  report(panelId, requests) {
    if (requests.length) this.byPanel.set(panelId, requests);
    else if (!this.byPanel.delete(panelId)) return;
    this.update();
  }

  update() {
    const requests = this.requests;
    const cards = requests.length ? [...document.querySelectorAll(".af-live .af-approval")] : [];
    const isSeen = cards.some((card) => {
      const { top, bottom, width } = card.getBoundingClientRect();
      return width && card.checkVisibility() && bottom > 60 && top < innerHeight - 60;
    });
    this.markTitle();
    if (requests.length && !isSeen) {
      const more = requests.length > 1 ? uiText("page_and_more", { n: requests.length - 1 }) : "";
      const text = uiText("page_waiting_for_you", { title: requests[0].title }) + more;
      if (this.text.textContent !== text) this.text.textContent = text;
      if (!this.bar.isConnected) document.body.append(this.bar);
    } else {
      this.bar.remove();
    }
    this.notify(requests, isSeen && !document.hidden);
  }

  /** @param {WaitingRequest[]} requests @param {boolean} isSeen */
  notify(requests, isSeen) {
    const now = performance.now();
    for (const { id, title, panel } of requests) {
      if (!this.seen.has(id)) this.seen.set(id, now);
      const since = this.seen.get(id) ?? 0;
      if (since && isSeen) this.seen.set(id, 0);
      else if (since && now - since > NOTIFICATION_DELAY_MS) {
        this.seen.set(id, 0);
        const options = { autoClose: NOTIFICATION_SHOWN_MS };
        runLabCommand(panel, "apputils:notify", { message: uiText("page_waiting_for_you", { title }), type: "warning", options });
      }
    }
  }

  markTitle() {
    const n = this.requests.length;
    const plain = document.title.replace(TITLE_MARK, "");
    const title = n ? uiText("page_n_waiting", { n }) + plain : plain;
    this.titleObserver.disconnect();
    if (document.title !== title) document.title = title;
    const node = document.querySelector("title"); // JupyterLab sets the title when a document changes
    if (n && node) this.titleObserver.observe(node, { childList: true });
  }

  /** Scroll to the first card, in the tab of its notebook, and focus it. */
  show() {
    const [request] = this.requests;
    if (!request) return;
    const { path } = request.panel.model.widget_manager?.context ?? {};
    if (path) runLabCommand(request.panel, "docmanager:open", { path });
    setTimeout(() => {
      const cards = [...document.querySelectorAll(".af-live .af-approval")];
      const card = /** @type {HTMLElement | undefined} */ (cards.find((each) => each.checkVisibility()) ?? cards[0]);
      card?.scrollIntoView({ block: "center" });
      card?.focus({ preventScroll: true });
    }, path ? 100 : 0);
  }
}

/** Report the open requests of a panel after an update; none of a panel that is closed or must not notify. @param {Panel} panel */
function reportRequests(panel) {
  if (!panel.model.get("notify") || (panel.reportedSeq === panel.seq && !panel.closed)) return;
  panel.reportedSeq = panel.seq;
  const entries = panel.closed || !panel.mounts[0] ? [] : [...panel.mounts[0].tree.entries.values()];
  const cards = entries.filter(({ kind }) => kind === "approval").map(({ data }) => JSON.parse(data));
  const shared = (/** @type {any} */ (window).afAttention ??= new Attention());
  shared.report(panel.id, cards.map(({ request, title }) => ({ id: request, title, panel })));
}
