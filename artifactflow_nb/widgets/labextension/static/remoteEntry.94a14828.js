/**
 * The extension of JupyterLab and Notebook 7, in two parts.
 *
 * Notifications: a script in an output cannot reach JupyterLab's notifications. So the panels
 * (widgets/static/notices.js) dispatch `artifactflow:waiting` on `window`, repeatedly, with all notices that should
 * exist. The button of a notification dispatches `artifactflow:show` with the key of its notice.
 *
 * Research: the side panel and its commands are in the other file of this folder.
 *
 * JupyterLab loads this file as it is. It registers the container of modules that a bundler would generate. The name of
 * the file contains the first 8 digits of its SHA-256, so that browsers load a changed file.
 */
(() => {
  /** After this time the toast closes; the notification stays in the list behind the bell. */
  const TOAST_MS = 10_000;
  const SHOW = "artifactflow:show-request";
  const RESEARCH = new URL("research.fd3645cd.js", document.currentScript.src);
  /** The shared modules of JupyterLab by name. */
  let shared = {};

  /** Load a shared module; undefined where the program has none, such as the launcher in Notebook 7. */
  async function load(name) {
    const versions = Object.values(shared[name] ?? {});
    return versions.length ? (await versions[0].get())() : undefined;
  }

  function activateNotifications({ commands }) {
    /** The existing notifications by the key of their notice; `id` is a promise. */
    const shown = new Map();

    function notify({ key, message }, label) {
      const actions = [{ label, commandId: SHOW, args: { key } }];
      return commands.execute("apputils:notify", { message, type: "warning", options: { autoClose: TOAST_MS, actions } });
    }

    async function dismiss(key) {
      const { id } = shown.get(key);
      shown.delete(key);
      commands.execute("apputils:dismiss-notification", { id: await id });
    }

    /** Change the text; show it again if the person has deleted the notification. */
    async function update(former, notice, label) {
      const id = await former;
      const change = { id, message: notice.message, type: "warning", autoClose: TOAST_MS };
      return (await commands.execute("apputils:update-notification", change)) ? id : notify(notice, label);
    }

    commands.addCommand(SHOW, {
      execute: ({ key }) => window.dispatchEvent(new CustomEvent("artifactflow:show", { detail: key })),
    });
    window.addEventListener("artifactflow:waiting", (event) => {
      if (!commands.hasCommand("apputils:notify")) return; // in Voila, for example
      event.preventDefault(); // tells the panels that there are notifications
      const { notices, label } = event.detail;
      const keys = new Set(notices.map(({ key }) => key));
      for (const key of [...shown.keys()].filter((key) => !keys.has(key))) dismiss(key);
      for (const notice of notices) {
        const { key, message } = notice;
        const former = shown.get(key);
        if (former?.message === message) continue;
        shown.set(key, { message, id: former ? update(former.id, notice, label) : notify(notice, label) });
      }
    });
  }

  const notifications = {
    id: "artifactflow-nb:notifications",
    description: "Says in notifications that a request of ArtifactFlow NB waits for a decision.",
    autoStart: true,
    activate: activateNotifications,
  };
  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB["artifactflow-nb"] = {
    init: (scope) => {
      shared = scope;
    },
    get: async () => {
      const { makeResearch } = await import(RESEARCH);
      const research = await makeResearch(load);
      return () => ({ __esModule: true, default: [notifications, research] });
    },
  };
})();
