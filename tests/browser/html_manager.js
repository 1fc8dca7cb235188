/**
 * A page that is neither Jupyter nor marimo: it executes cells in a kernel and displays their widgets with html-manager.
 * Outputs are in a shadow root, and the page forces `[hidden]`, as hosts do. Needs require.js; see html_manager.py.
 */

const WIDGET_VIEW = "application/vnd.jupyter.widget-view+json";
const session = crypto.randomUUID();

/** A comm of the kernel, as html-manager needs it. */
class Comm {
  constructor(kernel, id) {
    this.kernel = kernel;
    this.comm_id = id;
  }
  send(data) {
    return this.kernel.send("comm_msg", { comm_id: this.comm_id, data });
  }
  close(data = {}) {
    return this.kernel.send("comm_close", { comm_id: this.comm_id, data });
  }
  on_msg(callback) {
    this.onMessage = callback;
  }
  on_close(callback) {
    this.onClose = callback;
  }
}

/** The channels of a kernel, through the websocket of its server. */
class Kernel {
  constructor(address, manager, outputs) {
    this.comms = new Map();
    this.manager = manager;
    this.outputs = outputs;
    this.socket = new WebSocket(address);
    this.socket.onmessage = ({ data }) => this.receive(JSON.parse(data));
    this.isOpen = new Promise((resolve, reject) => Object.assign(this.socket, { onopen: resolve, onerror: reject }));
  }

  send(type, content) {
    const header = { msg_id: crypto.randomUUID(), msg_type: type, session, username: "", version: "5.4", date: new Date().toISOString() };
    this.socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: "shell", buffers: [] }));
    return header.msg_id;
  }

  receive({ channel, header, content, ...message }) {
    if (channel !== "iopub") return;
    const comm = this.comms.get(content.comm_id);
    const received = { header, content, ...message };
    if (header.msg_type === "comm_open") {
      const opened = new Comm(this, content.comm_id);
      this.comms.set(content.comm_id, opened);
      this.manager.handle_comm_open(opened, received);
    } else if (header.msg_type === "comm_msg") comm?.onMessage?.(received);
    else if (header.msg_type === "comm_close") comm?.onClose?.(received);
    else if (header.msg_type.endsWith("display_data")) this.outputs.show(content.data, content.transient?.display_id);
    else if (header.msg_type === "error") this.outputs.show({ "text/plain": content.traceback.join("\n") });
  }
}

/** The outputs in a shadow root: the view of a widget, or else HTML or text; a newer one replaces an older one. */
class Outputs {
  constructor(host, manager) {
    this.root = host.attachShadow({ mode: "open" });
    this.root.append(Object.assign(document.createElement("style"), { textContent: "[hidden] { display: none !important }" }));
    this.manager = manager;
    this.elements = new Map();
  }

  async show(data, id = crypto.randomUUID()) {
    const isNew = !this.elements.has(id);
    if (isNew) this.elements.set(id, this.root.appendChild(document.createElement("div")));
    const element = this.elements.get(id);
    const { model_id: model } = data[WIDGET_VIEW] ?? {};
    if (model && isNew) {
      const view = await this.manager.create_view(await this.manager.get_model(model));
      await this.manager.display_view(view, element);
    } else if (!model && data["text/html"]) element.innerHTML = data["text/html"];
    else if (!model) element.textContent = data["text/plain"];
  }
}

/** Connect to a kernel, whose cells `window.execute` then executes. @param {string} address of the websocket, with the token */
function connect(address) {
  requirejs.config({ waitSeconds: 60 });
  const load = (...names) => new Promise((resolve, reject) => requirejs(names, (...modules) => resolve(modules), reject));
  return load("embed-amd").then(() => load("@jupyter-widgets/html-manager")).then(async ([{ HTMLManager }]) => {
    const manager = new HTMLManager({ loader: (name) => load(name).then(([module]) => module) });
    const kernel = new Kernel(`${address}&session_id=${session}`, manager, new Outputs(document.querySelector("main"), manager));
    await kernel.isOpen;
    window.execute = (code) => kernel.send("execute_request", { code, silent: false, store_history: true, user_expressions: {}, allow_stdin: false, stop_on_error: true });
  });
}
