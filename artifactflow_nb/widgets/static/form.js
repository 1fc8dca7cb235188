/**
 * Forms that the kernel describes: an approval's parameters, the chat's question, a search, a rename, an editor. Uses
 * field.js, items.js and composer.js.
 *
 * A form performs its action with the contents of its fields as `values`, by name. The form is disabled until the result
 * arrives; errors are displayed at their fields. Shift+Enter, Ctrl+Enter and Cmd+Enter send, and so does Enter in a form
 * with a single line. With `enter`, Enter sends from every field, and Shift+Enter begins a new line. Escape cancels.
 *
 * @typedef {{fields: FieldData[], submit: string, act: string, args?: object, label?: string, cancel?: string,
 *   cancelAct?: string, draft?: boolean, enter?: boolean, instant?: boolean, completes?: boolean, attach?: number}} FormSpec
 *   `cancel`: label of the second button; `cancelAct`: its action, unless `close` was passed; `draft`: store unsent
 *   input, see drafts.js; `completes`: complete `@` and `/` in the first field, and `attach`: the largest size of an
 *   attached file in bytes, see composer.js; `instant`: every change is sent, without a button
 * @typedef {{[field: string]: string}} FieldErrors messages by field
 */

const INSTANT_MS = 250;
const WAITING_FOR_KERNEL = translate("Waiting for the kernel …");

class KernelForm {
  /** @param {FormSpec} data @param {Perform} perform @param {() => void} [close] called by the cancel button */
  constructor(data, perform, close) {
    Object.assign(this, { data, perform });
    this.close = close ?? (data.cancelAct ? () => void perform(data.cancelAct, data.args ?? {}) : null);
    this.fields = data.fields.map(makeField);
    const suppress = { "data-lm-suppress-shortcuts": "true" }; // keep JupyterLab from handling the keys of the form
    this.root = element("form", "af-form", { novalidate: true, ...suppress });
    this.all = element("fieldset", "af-form-fields", { "aria-label": data.label });
    this.status = element("p", "af-form-status", { "aria-live": "polite" });
    this.failed = element("p", "af-field-error", { role: "alert" });
    const submit = element("button", "af-button af-primary", { type: "submit" });
    submit.textContent = data.submit;
    const buttons = element("div", "af-form-buttons");
    if (!data.instant) buttons.append(submit);
    buttons.append(...(data.cancel && this.close ? [plainButton(data.cancel, this.close)] : []), this.status);
    this.all.append(...this.fields.map((field) => field.root), this.failed, buttons);
    if (data.completes) this.fields[0].control.after(new Completions(this.fields[0].control, perform).list);
    if (data.attach) {
      const { button, input } = new Attachments(this, data.attach);
      this.all.insertBefore(button, this.fields[1]?.root ?? this.failed);
      this.all.append(input);
    }
    this.root.append(this.all);
    this.root.addEventListener("input", () => this.failed.textContent && (this.failed.textContent = ""));
    if (data.instant) this.root.addEventListener("input", () => this.sendSoon());
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    const first = this.fields.find((field) => field.data.autofocus);
    if (first) requestAnimationFrame(() => first.control.focus({ preventScroll: true }));
    requestAnimationFrame(() => this.fields.forEach((field) => field.grow()));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    event.stopPropagation();
    if (isComposing(event)) return;
    const isLine = event.target.tagName === "INPUT" && event.target.type === "text";
    const isAlone = this.fields.length === 1 && this.fields[0].control === event.target && isLine;
    const isSent = this.data.enter
      ? /INPUT|TEXTAREA|SELECT/.test(event.target.tagName) && !(event.shiftKey && event.target.tagName === "TEXTAREA")
      : event.shiftKey || isAlone;
    if (event.key === "Enter" && (isSent || event.ctrlKey || event.metaKey || isLine)) {
      event.preventDefault();
      if (isSent || event.ctrlKey || event.metaKey) this.submit();
    } else if (event.key === "Escape" && this.close) {
      event.preventDefault();
      this.close();
    }
  }

  /** Send the values once the reader pauses; the form stays usable, so that nothing interrupts the writing. */
  sendSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const result = await this.perform(this.data.act, { ...this.data.args, values: fieldValues(this.fields) });
      this.showErrors(result.errors ?? {}, result.failed ? result.message : "");
    }, INSTANT_MS);
  }

  async submit() {
    if (this.data.instant) return this.sendSoon();
    if (this.all.disabled) return;
    const problems = Object.assign({}, ...this.fields.map((field) => field.problems));
    this.showErrors(problems);
    if (Object.values(problems).some(Boolean)) return;
    const values = fieldValues(this.fields);
    const focused = /** @type {HTMLElement} */ (focusedElement());
    this.all.disabled = true;
    this.status.textContent = WAITING_FOR_KERNEL;
    const result = await this.perform(this.data.act, { ...this.data.args, values });
    this.all.disabled = false;
    // Keep a message that an effect of the action has displayed.
    if (result.failed || result.message || this.status.textContent === WAITING_FOR_KERNEL) {
      this.status.textContent = result.failed ? "" : result.message;
    }
    if (!result.failed) this.fields.filter((field) => !field.data.keep).forEach((field) => field.reset());
    if (focusedElement() === document.body) focused.focus({ preventScroll: true });
    if (result.failed) this.showErrors(result.errors, result.message);
  }

  /**
   * Display errors at their fields, and other errors below; without errors, remove earlier errors.
   * @param {FieldErrors} errors @param {string} message displayed if no error belongs to a field
   */
  showErrors(errors, message = "") {
    const invalid = this.fields.map((field) => field.showErrors(errors)).filter(Boolean);
    const others = Object.keys(errors).filter((name) => errors[name] && !this.fields.some((field) => field.covers(name)));
    this.failed.textContent = others.map((name) => errors[name]).join(" ") || (invalid.length ? "" : message);
    invalid[0]?.focus();
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
