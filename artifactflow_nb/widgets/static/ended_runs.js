/**
 * Buttons in the saved outputs of ended runs, while the kernel knows the runs: copy the answer or the report, ask again,
 * replace the output by a chat or, after a failure, by a new run, and open a table as a frame. Uses tree.js, field.js and
 * effects.js.
 *
 * An ended run has no live view. One widget for the notebook finds the outputs by their class, `af-of-<run id>`; the kernel
 * tells which runs it knows. Outputs of other notebooks of the page are left to the kernels of those notebooks.
 */

const ENDED_RUN = /(?:^| )af-of-(\S+)/;
const ENDED_KERNEL = ["restarting", "autorestarting", "terminating", "dead"];
const ENDED_CHECK_INTERVAL_MS = 700;
const SHORT_ID_CHARS = 12;
/** Id of the artifact that has the agent's plan, which is no report. */
const PLAN_ID = "task_plan";
/** @type {{[status: string]: [act: string, label: string, name: string][]}} */
const ENDED_ACTIONS = {
  completed: [
    ["copy", translate("Copy"), translate("Copy the answer as Markdown")],
    ["copy_report", translate("Copy the report"), translate("Copy the report as Markdown")],
    ["regenerate", translate("Regenerate"), translate("Regenerate: ask this again, as another version")],
    ["chat", translate("Continue in chat"), translate("Continue this conversation in a chat, here")],
  ],
  failed: [
    ["retry", translate("Retry"), translate("Retry: ask this once more, in a new run")],
    ["chat", translate("Open in chat"), translate("Continue this conversation in a chat, here")],
  ],
};

/** @param {Element} artifact */
const idOfArtifact = (artifact) => artifact.querySelector(":scope > summary code")?.textContent ?? "";

/** The artifacts that an output shows. @param {Element} output */
const artifactsOf = (output) => [...output.querySelectorAll(":scope > .af-tree > .af-written > .af-artifact")];

/** Tables in the order of `run.tables`: first of the answer, then of the artifacts by id. @param {Element} output */
function tablesOf(output) {
  const artifacts = artifactsOf(output).sort((a, b) => (idOfArtifact(a) < idOfArtifact(b) ? -1 : 1));
  const texts = [...output.querySelectorAll(":scope > .af-tree > .af-answer"), ...artifacts];
  return texts.flatMap((text) => [...text.querySelectorAll(".af-code-box > table")]);
}

class EndedRuns {
  /** @param {any} model the widget's model */
  constructor(model) {
    this.model = model;
    this.outputs = document.getElementsByClassName("af-ended");
    /** Statuses of the runs that the kernel knows, by id; "" for other runs. @type {Map<string, string>} */
    this.statuses = new Map();
    this.onMessage = (/** @type {any} */ message) => this.receive(message);
    model.on("msg:custom", this.onMessage);
    this.onClose = () => this.close();
    model.on("comm_live_update", this.onClose);
    this.session = model.widget_manager?.context?.sessionContext;
    this.onStatus = (/** @type {any} */ _context, /** @type {string} */ status) => ENDED_KERNEL.includes(status) && this.close();
    this.session?.statusChanged?.connect(this.onStatus);
    this.timer = setInterval(() => this.update(), ENDED_CHECK_INTERVAL_MS);
  }

  update() {
    if (this.session?.isDisposed || (this.session && !this.session.session?.kernel)) return this.close(); // the notebook was closed
    const unknown = new Set();
    for (const output of this.outputs) {
      if (!isInNotebook(this.model, output)) continue;
      const id = ENDED_RUN.exec(output.className)?.[1] ?? "";
      const status = this.statuses.get(id);
      if (status === undefined) unknown.add(id);
      else if (status && !output.querySelector(":scope > .af-ended-actions")) {
        output.append(this.makeButtons(output, id, status));
        this.offerFrames(output, id);
      }
    }
    for (const id of unknown) this.statuses.set(id, "");
    if (unknown.size) this.model.send({ type: "ask", runs: [...unknown] });
  }

  /** @param {Element} output @param {string} id @param {string} status */
  makeButtons(output, id, status) {
    const bar = element("div", "af-ended-actions af-controls", { role: "group", "aria-label": translate("This run") });
    const message = element("span", "af-quiet", { role: "status" });
    for (const [act, label, name] of ENDED_ACTIONS[status] ?? ENDED_ACTIONS.failed) {
      if (act === "copy" && !output.querySelector(":scope > .af-tree > .af-answer")) continue;
      if (act === "copy_report" && artifactsOf(output).every((artifact) => idOfArtifact(artifact) === PLAN_ID)) continue;
      const button = plainButton(label, () => {
        message.textContent = "";
        this.pressed = { bar, message };
        this.model.send({ type: "act", act, run: id });
      });
      button.classList.add("af-small");
      button.title = name;
      bar.append(button);
    }
    bar.append(message);
    return bar;
  }

  /** Add a button to each table; the button adds a cell with the code that returns the table as a frame. @param {Element} output @param {string} id */
  offerFrames(output, id) {
    tablesOf(output).forEach((table, index) => {
      const source = `table = wb.run("${id.slice(0, SHORT_ID_CHARS)}").tables[${index}]\ntable`;
      const button = plainButton(translate("Open as a DataFrame"), async () => {
        const message = await addCell(this.model, button, { name: "cell", source, cell_type: "code" });
        const line = output.querySelector(":scope > .af-ended-actions > [role=status]");
        if (line) line.textContent = message;
      });
      button.classList.add("af-small", "af-copy-code", "af-open-table");
      table.parentElement?.querySelector(".af-code-tools")?.prepend(button);
    });
  }

  /** @param {any} message */
  async receive(message) {
    const { bar, message: line } = this.pressed ?? {};
    if (message.type === "runs") {
      for (const [id, status] of Object.entries(message.statuses)) this.statuses.set(id, status);
      this.update();
    } else if (message.type === "copy" && line) {
      const report = await copyAndReport(message.text);
      line.textContent = report;
      if (report === COPIED) setTimeout(() => line.textContent === COPIED && (line.textContent = ""), COPIED_MS);
    } else if (message.type === "failed" && line) {
      line.textContent = message.message;
    } else if (message.type === "output" && bar) {
      this.replaceOutput(bar.parentElement, message.data);
    }
  }

  /** Replace an output by a live view, in the notebook or in a page without a notebook. @param {HTMLElement} root @param {object} data */
  replaceOutput(root, data) {
    const cells = [...(root.closest(".jp-Notebook")?.querySelectorAll(".jp-Cell") ?? [])];
    const index = cells.findIndex((cell) => cell.contains(root));
    const outputs = this.model.widget_manager?.context?.model?.cells?.get(index)?.outputs;
    const mark = ENDED_RUN.exec(root.className)?.[0] ?? "";
    for (let i = 0; i < (outputs?.length ?? 0); i += 1) {
      if (!String(outputs.get(i).data["text/html"] ?? "").includes(mark)) continue;
      outputs.set(i, { output_type: "display_data", data, metadata: {} });
      return;
    }
    root.innerHTML = data["text/html"];
    root.classList.remove("af-ended");
  }

  close() {
    this.session?.statusChanged?.disconnect(this.onStatus);
    clearInterval(this.timer);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("comm_live_update", this.onClose);
    for (const added of [...document.querySelectorAll(".af-ended-actions, .af-open-table")]) {
      if (isInNotebook(this.model, added)) added.remove();
    }
  }
}
