/**
 * Drafts: unsent input. Drafts are stored in the session storage of the page by notebook, cell and output, and survive a
 * reload, a kernel restart and another execution of the cell.
 */

class Drafts {
  /** @param {any} model the widget's model @param {string} host class of the view's host element */
  constructor(model, host) {
    this.model = model;
    this.host = host;
  }

  /** Storage key of the draft of this view. @returns {string} */
  storageKey() {
    const output = findOutput(this.model, this.host);
    const address = output ? [this.model.widget_manager?.context?.path, output.cell, output.index] : [this.host];
    return ["artifactflow-draft", ...address].join(":");
  }

  /**
   * Fill a form with its draft, and store later input as the draft. Sending resets the form, which removes the draft.
   * @template {HTMLElement} Form @param {Form} form @param {boolean} hasDraft false to do nothing @returns {Form}
   */
  attach(form, hasDraft) {
    const control = form.querySelector("textarea");
    if (!control || !hasDraft) return form;
    const key = this.storageKey();
    control.value = this.withStorage((storage) => storage.getItem(key)) ?? "";
    control.addEventListener("input", () => {
      this.withStorage((storage) => (control.value ? storage.setItem(key, control.value) : storage.removeItem(key)));
    });
    return form;
  }

  /** Use the storage; null if the page has no storage or the storage is full. @template T @param {(storage: Storage) => T} use */
  withStorage(use) {
    try {
      return use(sessionStorage);
    } catch {
      return null;
    }
  }
}
