/**
 * What was written and not sent yet. It lies in the page's session storage, by notebook, cell and output: there it
 * outlives that the page is loaded anew, that the kernel is restarted and that the cell is run again.
 */

class Drafts {
  /** @param {any} model the widget's model @param {string} host the class of the view's place */
  constructor(model, host) {
    this.model = model;
    this.host = host;
  }

  /** Where the draft of this view lies. @returns {string} */
  place() {
    const found = findOutput(this.model, this.host);
    const where = found ? [this.model.widget_manager?.context?.path, found.cell, found.index] : [this.host];
    return ["artifactflow-draft", ...where].join(":");
  }

  /**
   * Have a form begin with its draft, and keep what is written in it; a form that was sent is empty, and so is its draft.
   * @template {HTMLElement} Form @param {Form} form @returns {Form}
   */
  keep(form) {
    const control = form.querySelector("textarea");
    if (!control) return form;
    const place = this.place();
    control.value = this.stored((storage) => storage.getItem(place)) ?? "";
    control.addEventListener("input", () => {
      this.stored((storage) => (control.value ? storage.setItem(place, control.value) : storage.removeItem(place)));
    });
    return form;
  }

  /** Use the storage; a page that may have none, or whose is full, goes without. @template T @param {(storage: Storage) => T} use */
  stored(use) {
    try {
      return use(sessionStorage);
    } catch {
      return null;
    }
  }
}
