/**
 * The side panel, the launcher card and the commands of JupyterLab and Notebook 7: they show the page of the server
 * extension (server/static) in frames, so that the styles of the page and JupyterLab's do not meet. The frames and this
 * file send messages to each other. The name of the file contains its hash, as that of the entry.
 */
const COUNT_INTERVAL_MS = 5000;
const CATEGORY = "Research";
const ICON = '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><path class="jp-icon3" fill="#616161" fill-rule="evenodd" d="M10 2a8 8 0 1 0 4.9 14.3l5.4 5.4 1.4-1.4-5.4-5.4A8 8 0 0 0 10 2zm0 2a6 6 0 1 1 0 12 6 6 0 0 1 0-12zM6.5 7.5h7V9h-7zm0 3h7V12h-7z"/></svg>';

const isDark = () => document.body.dataset.jpThemeLight === "false";
const COLOURS = ["--jp-content-font-color1", "--jp-content-font-color2", "--jp-content-link-color", "--jp-border-color2", "--jp-brand-color0", "--jp-brand-color1", "--jp-ui-inverse-font-color0", "--jp-layout-color1"];

/** The message that gives the page the colours of JupyterLab. */
function themeMessage() {
  const style = getComputedStyle(document.body);
  return { type: "theme", isDark: isDark(), colours: COLOURS.map((name) => [name, style.getPropertyValue(name)]) };
}

/** The class of a panel with the page of the server extension; the page is loaded when the panel is first shown. */
function makePanelClass(Widget, page) {
  return class extends Widget {
    /** @param {string} id @param {string} view the view that the page shows first @param {object} icon */
    constructor(id, view, icon) {
      super();
      this.id = id;
      this.view = view;
      Object.assign(this.title, { caption: CATEGORY, icon, closable: true });
      this.node.setAttribute("aria-label", CATEGORY);
      this.node.setAttribute("role", "region");
      this.unsent = [];
    }

    /** Send a message to the page, which may still have to be loaded. @param {object} message */
    send(message) {
      if (this.isLoaded) this.frame.contentWindow.postMessage(message, location.origin);
      else this.unsent.push(message);
    }

    async onAfterShow() {
      this.send({ type: "seen", isSeen: true });
      if (this.frame) return;
      this.frame = document.createElement("iframe");
      this.frame.title = CATEGORY;
      this.frame.style.cssText = "width: 100%; height: 100%; border: 0";
      this.node.replaceChildren(this.frame);
      const answer = await fetch(page).catch(() => ({ ok: false }));
      if (!answer.ok) return this.explain();
      this.frame.addEventListener("load", () => {
        this.isLoaded = true;
        this.send(themeMessage());
        for (const message of this.unsent.splice(0)) this.send(message);
      });
      this.frame.src = `${page}?embedded=${isDark() ? "dark" : "light"}#${this.view}`;
    }

    onAfterAttach() {
      if (this.isVisible) this.onAfterShow();
    }

    onAfterHide() {
      if (this.frame) this.send({ type: "seen", isSeen: false });
    }

    /** Say why there is no page; the next time that the panel is shown, it tries again. */
    explain() {
      const text = document.createElement("p");
      text.style.cssText = "padding: 8px 12px; color: var(--jp-ui-font-color1)";
      text.textContent =
        "The server of this JupyterLab has no ArtifactFlow NB. Install it in the environment of the server: pip install artifactflow-nb";
      this.frame = undefined;
      this.node.replaceChildren(text);
    }
  };
}

/** The selected text of a cell, or the whole cell: the one that was clicked for a menu, otherwise the active one. */
function selectedText(app, { isFromMenu }) {
  const notebook = app.shell.currentWidget?.content;
  const clicked = isFromMenu ? app.contextMenuHitTest((node) => node.classList.contains("jp-Cell")) : null;
  const cell = clicked ? notebook?.widgets?.find(({ node }) => node === clicked) : notebook?.activeCell;
  const source = cell?.model?.sharedModel.getSource() ?? "";
  const selection = cell?.editor?.getSelection?.();
  const [start, end] = selection ? [selection.start, selection.end].map((place) => cell.editor.getOffsetAt(place)) : [0, 0];
  const onPage = getSelection();
  const marked = clicked && !clicked.contains(onPage?.anchorNode ?? null) ? "" : onPage?.toString();
  return marked || source.slice(Math.min(start, end), Math.max(start, end)) || source;
}

/** Let files that are dragged from the file browser be dropped on a panel. */
function acceptFiles(panel) {
  const paths = (event) => (event.mimeData.hasData("application/x-jupyter-icontents") ? event.mimeData.getData("application/x-jupyter-icontents") : []);
  const accept = (event) => {
    if (!paths(event).length) return;
    event.preventDefault();
    event.stopPropagation();
    event.dropAction = event.proposedAction;
  };
  for (const type of ["lm-dragenter", "lm-dragover"]) panel.node.addEventListener(type, accept, true);
  panel.node.addEventListener("lm-drop", (event) => {
    accept(event);
    for (const path of paths(event)) panel.send({ type: "add", path: path.replace(/^[^/:]+:/, "") }); // without the drive
  }, true);
}

/** Make the plugin. @param {(name: string) => Promise<any>} load loads a shared module; undefined where there is none */
export async function makeResearch(load) {
  const names = ["@lumino/widgets", "@jupyterlab/ui-components", "@jupyterlab/apputils", "@jupyterlab/launcher"];
  const [widgets, ui, apputils, launchers] = await Promise.all(names.map(load));
  const optional = [apputils.ICommandPalette, apputils.IThemeManager, launchers?.ILauncher];

  function activate(app, palette, themes, launcher) {
    if (app.name === "Voila") return; // it shows outputs only, and its server has no page of ours
    const { commands, contextMenu, serviceManager, shell } = app;
    const page = `${serviceManager.serverSettings.baseUrl}artifactflow/`;
    const icon = new ui.LabIcon({ name: "artifactflow-nb:research", svgstr: ICON });
    const Panel = makePanelClass(widgets.Widget, page);
    const side = new Panel("artifactflow-side", "home", icon);
    acceptFiles(side);
    /** The tab in the main area, while it is open. */
    let main;

    const commandsOfMenu = {
      "artifactflow:open": {
        label: "Research",
        caption: "Ask a question, with the conversations beside it",
        icon,
        execute: () => {
          if (!main || main.isDisposed) {
            main = new Panel("artifactflow-main", "chat", icon);
            main.title.label = CATEGORY;
            acceptFiles(main);
          }
          if (!main.isAttached) shell.add(main, "main");
          shell.activateById(main.id);
          return main; // the launcher gives it its place
        },
      },
      "artifactflow:side": {
        label: "Research: What Waits and Runs",
        execute: () => shell.activateById(side.id),
      },
      "artifactflow:ask-selection": {
        label: "Ask About This Selection",
        isEnabled: (args) => selectedText(app, args).trim() !== "",
        execute: (args) => {
          const quoted = selectedText(app, args).trim().split("\n").map((line) => `> ${line}`);
          side.send({ type: "fill", text: quoted.join("\n") });
          shell.activateById(side.id);
        },
      },
    };
    for (const [id, command] of Object.entries(commandsOfMenu)) {
      commands.addCommand(id, command);
      palette?.addItem({ command: id, category: CATEGORY });
    }
    launcher?.add({ command: "artifactflow:open", category: CATEGORY, rank: 1 });
    contextMenu.addItem({ command: "artifactflow:ask-selection", args: { isFromMenu: true }, selector: ".jp-Notebook .jp-Cell", rank: 0 });
    shell.add(side, "left", { rank: 900 });
    themes?.themeChanged.connect(() => [side, main].forEach((panel) => panel?.isLoaded && panel.send(themeMessage())));

    /** Show at the tab how many requests wait. */
    async function count() {
      if (document.visibilityState !== "visible") return;
      const answer = await fetch(`${page}api/v1/pending`);
      if (!answer.ok) return clearInterval(timer); // the panel says why
      const { requests } = await answer.json();
      side.title.label = requests.length ? String(requests.length) : "";
      side.title.caption = requests.length ? `${CATEGORY}: ${requests.length} waiting for you` : CATEGORY;
    }
    const timer = setInterval(() => count().catch(() => {}), COUNT_INTERVAL_MS); // JupyterLab itself says that its server is gone
  }

  return {
    id: "artifactflow-nb:research",
    description: "Shows conversations, runs and waiting requests of ArtifactFlow NB in a side panel.",
    autoStart: true,
    optional: optional.filter(Boolean),
    activate,
  };
}
