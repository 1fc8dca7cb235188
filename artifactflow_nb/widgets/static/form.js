/**
 * Forms that the kernel describes: an approval's parameters, the chat's composer, a search, a rename, an editor. The
 * kernel joins field.js and items.js in front of this file.
 *
 * `perform(act, args)` tells the kernel and promises its word; the form adds `values` to the args: what stands in its
 * fields, by name. While it waits nothing in it can be changed; what the kernel refuses is said at the fields that it is
 * about. Shift+Enter, Ctrl+Enter and Cmd+Enter send; so does Enter where the form is a single line. Escape cancels.
 *
 * @typedef {{fields: FieldData[], submit: string, act: string, args?: object, label?: string, cancel?: string,
 *   cancelAct?: string, draft?: boolean}} FormSpec
 *   `cancel`: the label of a second button; `cancelAct`: what it does where the page has nothing to close; `draft`:
 *   what was written and not sent outlives the page, see drafts.js
 * @typedef {{[field: string]: string}} FieldErrors what is wrong, by field
 */

class KernelForm {
  /** @param {FormSpec} data @param {Perform} perform @param {() => void} [close] what its cancel button does */
  constructor(data, perform, close) {
    Object.assign(this, { data, perform });
    this.close = close ?? (data.cancelAct ? () => void perform(data.cancelAct, data.args ?? {}) : null);
    this.fields = data.fields.map(makeField);
    const suppress = { "data-lm-suppress-shortcuts": "true" }; // JupyterLab's, for what is typed here
    this.root = dressedElement("form", "af-form", { "aria-label": data.label, novalidate: true, ...suppress });
    this.all = element("fieldset", "af-form-fields");
    this.status = dressedElement("p", "af-form-status", { "aria-live": "polite" });
    this.failed = dressedElement("p", "af-field-error", { role: "alert" });
    const submit = dressedElement("button", "af-button af-primary", { type: "submit" });
    submit.textContent = data.submit;
    const buttons = element("div", "af-form-buttons");
    buttons.append(submit, ...(data.cancel && this.close ? [plainButton(data.cancel, this.close)] : []), this.status);
    this.all.append(...this.fields.map((field) => field.root), this.failed, buttons);
    this.root.append(this.all);
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    const wanted = this.fields.find((field) => field.data.autofocus);
    if (wanted) requestAnimationFrame(() => wanted.control.focus({ preventScroll: true }));
    requestAnimationFrame(() => this.fields.forEach((field) => field.grow()));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    event.stopPropagation();
    if (event.isComposing) return; // the Enter that ends the composing of a Chinese word
    const isLine = event.target.tagName === "INPUT" && event.target.type === "text";
    const isAlone = this.fields.length === 1 && this.fields[0].control === event.target && isLine;
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey || isLine)) {
      event.preventDefault();
      if (event.shiftKey || event.ctrlKey || event.metaKey || isAlone) this.submit();
    } else if (event.key === "Escape" && this.close) {
      event.preventDefault();
      this.close();
    }
  }

  async submit() {
    if (this.all.disabled) return;
    const problems = Object.assign({}, ...this.fields.map((field) => field.problems));
    this.showErrors(problems);
    if (Object.values(problems).some(Boolean)) return;
    const values = fieldValues(this.fields);
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    this.all.disabled = true;
    this.status.textContent = "Waiting for the kernel …";
    const result = await this.perform(this.data.act, { ...this.data.args, values });
    this.all.disabled = false;
    this.status.textContent = result.failed ? "" : result.message;
    if (!result.failed) this.fields.filter((field) => !field.data.keep).forEach((field) => field.reset());
    if (document.activeElement === document.body) focused.focus({ preventScroll: true });
    if (result.failed) this.showErrors(result.errors, result.message);
  }

  /**
   * Say what is wrong at the fields that it is about, and the rest below; nothing takes back what was said before.
   * @param {FieldErrors} errors @param {string} message what is said where no field is to blame
   */
  showErrors(errors, message = "") {
    const blamed = this.fields.map((field) => field.showErrors(errors)).filter(Boolean);
    const others = Object.keys(errors).filter((name) => errors[name] && !this.fields.some((field) => field.covers(name)));
    this.failed.textContent = others.map((name) => errors[name]).join(" ") || (blamed.length ? "" : message);
    blamed[0]?.focus();
  }
}

/**
 * @param {FormSpec} data @param {Perform} perform @param {() => void} [close]
 * @returns {HTMLElement & {showErrors: (errors: FieldErrors, message?: string) => void}}
 */
function makeForm(data, perform, close) {
  const form = new KernelForm(data, perform, close);
  return Object.assign(form.root, { showErrors: form.showErrors.bind(form) });
}
