/**
 * The page of a server: the panels of the notebook, connected by HTTP. The address names the view and the conversation,
 * `#chat/conv-…`, so a reload and a bookmark come back to both. A wide window has the conversations and the report
 * beside the chat.
 *
 * The side panel of JupyterLab (widgets/labextension) shows this page in a frame, as `?embedded=dark#home`.
 */
import panel, { translate } from "./panel.js";

const API = "api/v1";
const WAITING_INTERVAL_MS = 5000;
const RETRY_MS = 2000;
/** A window that nobody has seen for this time is disconnected. */
const HIDDEN_MS = 60_000;
const [status, host, report, heading] = ["status", "host", "report", "name"].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
const wide = matchMedia("(min-width: 80rem)");
/** The theme of JupyterLab, `light` or `dark`, if its side panel shows the page. */
const embedded = new URLSearchParams(location.search).get("embedded");

/** Headers with Jupyter's token against requests of other sites, if the page has a token. */
function requestHeaders() {
  const token = /(?:^|; )_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  return { "Content-Type": "application/json", ...(token ? { "X-XSRFToken": token } : {}) };
}

/** One connection for the messages of all views: a browser opens at most six connections to a server. */
class Connection {
  constructor() {
    this.id = "";
    /** @type {Map<string, RemoteModel>} */
    this.models = new Map();
    this.connect();
  }

  connect() {
    clearTimeout(this.retry);
    this.source = new EventSource(`${API}/views`);
    this.source.onmessage = (event) => this.receive(JSON.parse(event.data));
    this.source.onerror = () => this.failed();
  }

  failed() {
    this.id = "";
    status.classList.toggle("lost", this.wasConnected);
    status.textContent = translate(this.wasConnected ? "The connection is lost. Trying again …" : "Connecting …");
    // After an answer that is not a stream, the browser does not reconnect.
    if (this.source?.readyState === EventSource.CLOSED) this.retry = setTimeout(() => this.connect(), RETRY_MS);
  }

  /** @param {any} message */
  receive(message) {
    if (message.type !== "connected") return this.models.get(message.view)?.receive(message);
    this.id = message.connection;
    this.wasConnected = true;
    status.textContent = "";
    status.classList.remove("lost");
    for (const model of this.models.values()) model.open();
  }

  /** Send a message to a view. @param {string} view @param {any} message @returns {Promise<string>} the error, or an empty string */
  async post(view, message) {
    const query = message.type === "act" ? `?name=${this.models.get(view)?.name}` : ""; // for the log of a proxy
    try {
      const body = JSON.stringify({ view, message });
      const answer = await fetch(`${API}/views/${this.id}${query}`, { method: "POST", headers: requestHeaders(), body });
      if (answer.ok) return "";
      return (await answer.json()).message;
    } catch {
      return translate("The server did not answer. Try again."); // the server has stopped, or its answer is not JSON
    }
  }

  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.id = "";
  }
}

const connection = new Connection();

/** The model of a panel, in place of a widget's model: messages to and from a view. */
class RemoteModel {
  static number = 0;

  /** @param {string} name @param {string} conversation id; empty for none */
  constructor(name, conversation) {
    this.name = name;
    this.conversation = conversation;
    this.key = `${name}-${++RemoteModel.number}`;
    this.isOpen = false;
    /** @type {((message: any) => void)[]} */
    this.listeners = [];
    /** @type {object[]} */
    this.unsent = [];
    connection.models.set(this.key, this);
    this.open();
  }

  /** @param {string} _name */
  get(_name) {
    return `page-${this.key}`;
  }

  /** @param {string} event @param {(message: any) => void} listener */
  on(event, listener) {
    if (event === "msg:custom") this.listeners.push(listener);
  }

  off() {
    this.listeners = [];
  }

  async open() {
    this.isOpen = false;
    if (!connection.id) return;
    const { name, conversation } = this;
    const problem = await connection.post(this.key, { type: "open", name, conversation, list: wide.matches });
    if (problem) {
      status.textContent = translate("This view could not be opened. Choose another view, or reload the page.");
      return;
    }
    this.isOpen = true;
    for (const each of [{ type: "hello" }, ...this.unsent.splice(0)]) this.send(each);
  }

  /** @param {any} message */
  receive(message) {
    if (message.type !== "conversation") return this.listeners.forEach((listener) => listener(message));
    this.conversation = message.id ?? "";
    if (shown.main?.model === this) updateAddress(this.name, this.conversation);
  }

  /** @param {any} message */
  async send(message) {
    if (!this.isOpen || !connection.id) {
      if (message.type === "act") this.unsent.push(message);
      return;
    }
    const problem = await connection.post(this.key, message);
    if (!problem || message.type !== "act") return;
    const result = { type: "result", page: message.page, id: message.id, message: problem, failed: true, errors: {} };
    this.listeners.forEach((listener) => listener(result));
  }

  close() {
    connection.models.delete(this.key);
    if (this.isOpen && connection.id) connection.post(this.key, { type: "close" });
  }
}

/** @typedef {{model: RemoteModel, close: () => void}} ShownView */
/** @type {{main?: ShownView, report?: ShownView}} the views of the page by region */
const shown = {};
let conversation = "";

/** Replace the view in a region of the page. @param {"main" | "report"} region @param {string} name of the view @param {string} id of the conversation */
function replaceView(region, name, id) {
  closeView(region);
  const model = new RemoteModel(name, id);
  const box = document.createElement("div");
  box.className = `af-host af-host-${model.get("key")}`;
  (region === "main" ? host : report).replaceChildren(box);
  shown[region] = { model, close: panel.initialize({ model }) };
}

/** @param {"main" | "report"} region */
function closeView(region) {
  shown[region]?.close();
  shown[region]?.model.close();
  delete shown[region];
}

/** Name the shown view and conversation in the address, and the conversation in the links. @param {string} view @param {string} id of the conversation */
function updateAddress(view, id) {
  conversation = id || conversation;
  if (location.hash !== `#${view}${id ? `/${id}` : ""}`) history.replaceState(null, "", `#${view}${id ? `/${id}` : ""}`);
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a"))) {
    const name = link.dataset.view;
    link.href = `#${name}${name !== "approvals" && conversation ? `/${conversation}` : ""}`;
    if (name === view) {
      link.setAttribute("aria-current", "page");
      heading.textContent = link.firstChild?.textContent ?? "";
    } else link.removeAttribute("aria-current");
  }
  const hasReport = view === "chat" && id && wide.matches;
  document.body.classList.toggle("beside", view === "chat" && wide.matches);
  if (!hasReport) {
    closeView("report");
    report.replaceChildren();
  } else if (shown.report?.model.conversation !== id) {
    replaceView("report", "artifacts", id);
  }
}

/** Show the view that the address names. */
function showAddressedView() {
  const [name, id = ""] = (location.hash.slice(1) || "chat").split("/");
  if (name === "main") return; // the link that skips the navigation
  if (!connection.id) status.textContent = translate("Connecting …");
  replaceView("main", name, decodeURIComponent(id));
  updateAddress(name, decodeURIComponent(id));
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
    // the view displays the lost connection
  }
}

/** Connect or disconnect with the visibility of the page. @param {boolean} isSeen */
function changeVisibility(isSeen) {
  clearTimeout(changeVisibility.timer);
  if (!isSeen) changeVisibility.timer = setTimeout(() => connection.close(), HIDDEN_MS);
  else if (connection.source?.readyState === EventSource.CLOSED) connection.connect();
}
/** @type {number | undefined} */
changeVisibility.timer = undefined;

/** Show the chat, and write a text into the form for the next question. @param {string} text */
function fillComposer(text) {
  if (shown.main?.model.name !== "chat") {
    updateAddress("chat", conversation);
    showAddressedView();
  }
  const fill = () => {
    const field = /** @type {HTMLTextAreaElement | null} */ (host.querySelector(".af-compose textarea"));
    if (!field) return false;
    field.value = [field.value.trim(), text].filter(Boolean).join("\n\n") + "\n\n";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
    return true;
  };
  if (fill()) return;
  const observer = new MutationObserver(() => fill() && observer.disconnect());
  observer.observe(host, { subtree: true, childList: true });
}

/** Add files to the sources, and show the result. @param {{path: string} | {files: {name: string, base64: string}[]}} body */
async function addSources(body) {
  status.textContent = translate("Reading the files …");
  try {
    const answer = await fetch(`${API}/sources`, { method: "POST", headers: requestHeaders(), body: JSON.stringify(body) });
    status.textContent = (await answer.json()).message;
  } catch {
    status.textContent = translate("The server did not answer. Try again.");
  }
}

/** @param {File} file @returns {Promise<{name: string, base64: string}>} */
async function encodeFile(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return { name: file.name, base64: btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), "")) };
}

/**
 * Change a link to a local source to the server's route for sources, at the passage that the citation quotes; the path of
 * the link is relative to the working folder, not to the page. @param {Event} event
 */
function redirectSourceLink(event) {
  const link = /** @type {Element} */ (event.target).closest?.(".af-run a[href]");
  const [path, fragment = ""] = (link?.getAttribute("href") ?? "").split("#");
  if (!link || !path || path.startsWith(API) || URL.canParse(path)) return;
  const words = link.closest(".af-passage")?.querySelector("mark")?.textContent?.trim().split(/\s+/) ?? [];
  const ends = [words.slice(0, 4), words.slice(-4)].map((few) => encodeURIComponent(few.join(" ")).replaceAll("-", "%2D"));
  const passage = words.length > 8 ? `#:~:text=${ends.join(",")}` : "";
  link.setAttribute("href", `${API}/source?path=${encodeURIComponent(decodeURIComponent(path))}${fragment.startsWith("page=") ? `#${fragment}` : passage}`);
}
for (const kind of ["click", "auxclick"]) document.addEventListener(kind, redirectSourceLink, { capture: true });

if (embedded !== null) {
  addEventListener("message", ({ origin, data }) => {
    if (origin !== location.origin) return;
    if (data.type === "fill") fillComposer(data.text);
    else if (data.type === "add") addSources({ path: data.path });
    else if (data.type === "seen") changeVisibility(data.isSeen);
    else if (data.type === "theme") {
      setTheme(data.isDark);
      for (const [name, colour] of data.colours) document.documentElement.style.setProperty(name, colour);
    }
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length) addSources({ files: await Promise.all(files.map(encodeFile)) });
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = (/** @type {boolean} */ isDark) => (document.body.dataset.jpThemeLight = String(!isDark));
if (embedded === null) dark.addEventListener("change", () => setTheme(dark.matches));
setTheme(embedded === null ? dark.matches : embedded === "dark");
document.body.classList.toggle("embedded", embedded !== null);
addEventListener("hashchange", showAddressedView);
wide.addEventListener("change", showAddressedView);
document.addEventListener("visibilitychange", () => changeVisibility(document.visibilityState === "visible"));
setInterval(() => document.visibilityState === "visible" && countWaiting(), WAITING_INTERVAL_MS);
showAddressedView();
countWaiting();
