/**
 * The script of every widget loads the module of widget.js, which the widgets of a page share, and passes the calls of
 * anywidget on. The kernel sends the module when a widget requests the module, and a busy kernel sends the module without a
 * request. Above this script the kernel inserts `KEY`, the hash of the module. The script is short, as each widget has a copy.
 */
/** @param {any} model @param {AbortSignal} signal @returns {Promise<any>} */
const load = (model, signal) => {
  const shared = ((globalThis.afModules ??= {})[KEY] ??= { askAt: 0, wait: 1000, ...Promise.withResolvers() });
  const receive = ({ type, script }) => {
    if (type !== "script" || shared.askAt === Infinity) return;
    shared.askAt = Infinity;
    shared.resolve(import(URL.createObjectURL(new Blob([script], { type: "text/javascript" }))));
  };
  const ask = () => {
    if (Date.now() < shared.askAt) return;
    shared.askAt = Date.now() + (shared.wait *= 2);
    model.send({ type: "script" });
  };
  model.on("msg:custom", receive);
  const timer = setInterval(ask, 250);
  const stop = () => {
    clearInterval(timer);
    model.off("msg:custom", receive);
  };
  signal.addEventListener("abort", stop);
  ask();
  return shared.promise.finally(stop);
};
/** @param {"initialize" | "render"} name */
const pass = (name) => (/** @type {any} */ context) => {
  const ended = new AbortController(), { signal } = ended;
  load(context.model, signal).then((module) => {
    if (!signal.aborted) signal.addEventListener("abort", module.default[name](context));
  });
  return () => ended.abort();
};
export default { initialize: pass("initialize"), render: pass("render") };
