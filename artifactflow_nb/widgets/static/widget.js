/** The functions that anywidget calls; loader.js passes the calls on. Runs after all other scripts of this folder. */

/** Called once per page, even if the widget is not displayed. @param {{model: any}} context */
function initialize({ model }) {
  dressPage(document);
  const shown = model.get("key") ? new Panel(model) : new EndedRuns(model);
  return () => shown.close();
}

/**
 * Called for each view of the widget. Views side by side in an HBox share the width: the content of a view has no width of
 * its own, since its layout depends on the width of the view.
 * @param {{model: any, el: HTMLElement}} context
 */
function render({ model, el }) {
  el.style.flex ||= "1 1 0%";
  el.style.minWidth ||= "0";
  return panels.get(model.get("key"))?.render(el) ?? (() => {});
}

export default { initialize, render };
