/** The functions that anywidget calls; loader.js passes the calls on. Runs after all other scripts of this folder. */

/** Called once per page, even if the widget is not displayed. @param {{model: any}} context */
function initialize({ model }) {
  addStyles(document);
  const shown = model.get("key") ? new Panel(model) : new EndedRuns(model);
  return () => shown.close();
}

/** Called for each view of the widget. @param {{model: any, el: HTMLElement}} context */
function render({ model, el }) {
  return panels.get(model.get("key"))?.render(el) ?? (() => {});
}

export default { initialize, render };
