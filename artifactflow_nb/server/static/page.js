/**
 * The page of a server: the panels of the notebook, connected by HTTP. The address names the view and the conversation,
 * `#chat/conv-…`, so a reload and a bookmark come back to it.
 */
import panel, { uiText } from "./panel.js";

const API = "api/v1";
const WAITING_INTERVAL_MS = 5000;
const status = /** @type {HTMLElement} */ (document.getElementById("status"));
const host = /** @type {HTMLElement} */ (document.getElementById("host"));

/** Headers with Jupyter's token against requests of other sites, where there is one. */
function headers() {
  const token = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  return { "Content-Type": "application/json", ...(token ? { "X-XSRFToken": token } : {}) };
}

/** What a widget's model is to a panel: messages to and from a view. */
class RemoteModel {
  /** @param {string} name @param {string} conversation id; empty for none */
  constructor(name, conversation) {
    this.name = name;
    this.view = "";
    /** @type {((message: any) => void)[]} */
    this.listeners = [];
    /** @type {object[]} */
    this.unsent = [];
    const query = conversation ? `?conversation=${encodeURIComponent(conversation)}` : "";
    this.source = new EventSource(`${API}/views/${name}${query}`);
    this.source.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.source.onerror = () => this.failed();
  }

  /** @param {string} _name */
  get(_name) {
    return `page-${this.name}`;
  }

  /** @param {string} event @param {(message: any) => void} listener */
  on(event, listener) {
    if (event === "msg:custom") this.listeners.push(listener);
  }

  off() {
    this.listeners = [];
  }

  failed() {
    this.view = "";
    const isOver = this.source.readyState === EventSource.CLOSED;
    status.textContent = uiText(isOver ? "page_not_opened" : "page_connecting");
  }

  /** @param {any} message */
  receive(message) {
    if (message.type === "opened") {
      this.view = message.view;
      status.textContent = "";
      const unsent = [{ type: "hello" }, ...this.unsent.splice(0)];
      unsent.forEach((each) => this.send(each));
    } else if (message.type === "conversation") {
      remember(this.name, message.id ?? "");
    } else {
      this.listeners.forEach((listener) => listener(message));
    }
  }

  /** @param {any} message */
  async send(message) {
    if (!this.view) {
      if (message.type === "act") this.unsent.push(message);
      return;
    }
    let problem = uiText("page_server_silent");
    try {
      const body = JSON.stringify({ message });
      const answer = await fetch(`${API}/views/${this.view}`, { method: "POST", headers: headers(), body });
      if (answer.ok) return;
      problem = (await answer.json()).message ?? problem;
    } catch {
      // the server is gone, or its answer is not JSON
    }
    if (message.type !== "act") return;
    const result = { type: "result", page: message.page, id: message.id, message: problem, failed: true, errors: {} };
    this.listeners.forEach((listener) => listener(result));
  }

  close() {
    this.source.close();
  }
}

/** @type {{model: RemoteModel, close: () => void} | null} */
let shown = null;
let conversation = "";

/** Name the shown conversation in the address and in the links. @param {string} view @param {string} id */
function remember(view, id) {
  conversation = id || conversation;
  history.replaceState(null, "", `#${view}${id ? `/${id}` : ""}`);
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a"))) {
    const name = link.dataset.view;
    link.href = `#${name}${name !== "approvals" && conversation ? `/${conversation}` : ""}`;
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Show the view that the address names. */
function show() {
  const [name, id = ""] = (location.hash.slice(1) || "chat").split("/");
  if (name === "main") return; // the link that skips the navigation
  shown?.close();
  shown?.model.close();
  status.textContent = uiText("page_connecting");
  const model = new RemoteModel(name, decodeURIComponent(id));
  const place = document.createElement("div");
  place.className = `af-host-${model.get("key")}`;
  host.replaceChildren(place);
  remember(name, id);
  shown = { model, close: panel.initialize({ model }) };
}

/** Show how many requests wait for a decision. */
async function countWaiting() {
  try {
    const { requests } = await (await fetch(`${API}/pending`)).json();
    const badge = /** @type {HTMLElement} */ (document.getElementById("waiting"));
    badge.hidden = requests.length === 0;
    badge.textContent = String(requests.length);
    document.title = `${requests.length ? `(${requests.length}) ` : ""}ArtifactFlow`;
  } catch {
    // the view says that the server is gone
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = () => (document.body.dataset.jpThemeLight = String(!dark.matches));
dark.addEventListener("change", setTheme);
setTheme();
addEventListener("hashchange", show);
setInterval(() => document.visibilityState === "visible" && countWaiting(), WAITING_INTERVAL_MS);
show();
countWaiting();
