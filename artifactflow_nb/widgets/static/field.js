/**
 * A field of a form: label, help, control and error. Uses tree.js and texts.js.
 *
 * An unchanged field sends its initial value, so values that a control cannot represent exactly are not altered.
 *
 * @typedef {{name: string,
 *   kind: "text" | "multiline" | "integer" | "number" | "checkbox" | "choice" | "json" | "list" | "items",
 *   value: string | boolean | string[] | number[] | null, items?: FieldData[][], blank?: FieldData[], label?: string, choices?: string[], choiceNames?: string[], required?: boolean,
 *   nullable?: boolean, doc?: string, placeholder?: string, rows?: number, hideLabel?: boolean, autofocus?: boolean,
 *   monospace?: boolean, keep?: boolean}} FieldData see artifactflow_nb/widgets/forms/form.py
 */

const KIND_HINTS = {
  integer: translate("A whole number."),
  number: translate("A number."),
  list: translate("One text on each line."),
  json: translate("JSON."),
};
const KINDS_OF_LINES = ["multiline", "json", "list"];
const KINDS_OF_TEXT = ["text", "multiline", "list"];

/** Values of fields, by name. @param {{data: FieldData, value: any}[]} fields */
function fieldValues(fields) {
  return Object.fromEntries(fields.map((field) => [field.data.name, field.value]));
}

/** A button with a handler; it does not submit a form. @param {string} label @param {() => void} onClick */
function plainButton(label, onClick) {
  const created = /** @type {HTMLButtonElement} */ (element("button", "af-button", { type: "button" }));
  created.textContent = label;
  created.addEventListener("click", onClick);
  return created;
}

/** @param {FieldData} data @returns {Control} */
function fieldControl(data) {
  const { kind, value, placeholder, choices = [], choiceNames, nullable } = data;
  if (kind === "checkbox") {
    const box = element("input", "af-check", { type: "checkbox" });
    box.checked = value === true;
    return box;
  }
  if (kind === "choice") {
    const select = element("select", "af-input");
    const options = choices.map((choice, i) => new Option(choiceNames?.[i] ?? choice, String(i), false, choice === value));
    const isOpen = nullable || !choices.includes(value);
    select.append(...(isOpen ? [new Option(translate(nullable ? "(none)" : "Choose …"), "", false, value === null)] : []), ...options);
    return select;
  }
  const isCode = data.monospace ? " af-code" : "";
  const inputmode = { integer: "numeric", number: "decimal" }[kind];
  const control = KINDS_OF_LINES.includes(kind)
    ? element("textarea", `af-input af-lines${isCode}`, { placeholder, rows: data.rows || 2 })
    : element("input", `af-input${isCode}`, { type: "text", placeholder, inputmode });
  if (data.rows) control.style.setProperty("--af-rows", String(data.rows));
  control.autocomplete = "off";
  control.spellcheck = KINDS_OF_TEXT.includes(kind) && !data.monospace;
  control.value = Array.isArray(value) ? value.join("\n") : String(value ?? "");
  return control;
}

class FormField {
  /** @param {FieldData} data */
  constructor(data) {
    this.data = data;
    const id = `af-${Math.random().toString(36).slice(2)}`;
    const label = data.label || data.name;
    this.control = fieldControl(data);
    this.error = element("p", "af-field-error", { id: `${id}-error`, role: "alert" });
    const help = element("p", "af-field-help", { id: `${id}-help` });
    help.textContent = [data.doc, data.hideLabel ? "" : KIND_HINTS[data.kind]].filter(Boolean).join(" ");
    this.control.id = id;
    if (data.required && !KINDS_OF_TEXT.includes(data.kind) && data.kind !== "checkbox") {
      this.control.setAttribute("aria-required", "true");
    }
    this.control.setAttribute("aria-describedby", `${help.textContent ? `${id}-help ` : ""}${id}-error`);
    this.root = element("div", `af-field af-field-${data.kind}`);
    const labelElement = element("label", "af-field-label", { for: id });
    labelElement.textContent = label;
    if (data.hideLabel) this.control.setAttribute("aria-label", label);
    const heading = element("div", "af-field-head");
    if (!data.hideLabel) heading.append(labelElement);
    if (data.nullable && KINDS_OF_TEXT.includes(data.kind)) heading.append(this.makeNone(label));
    this.root.append(...(heading.childNodes.length ? [heading] : []), ...(help.textContent ? [help] : []), this.control, this.error);
    if (this.control.tagName === "TEXTAREA") this.control.addEventListener("input", () => this.grow());
    this.initial = this.state;
  }

  /** Checkbox for no value, which differs from an empty text. @param {string} label */
  makeNone(label) {
    this.none = element("input", "af-check", { type: "checkbox", "aria-label": translate("No value for {label}", { label }) });
    this.none.checked = this.data.value === null;
    this.none.addEventListener("change", () => {
      if (this.none.checked) this.control.value = "";
    });
    this.control.addEventListener("input", () => (this.none.checked = false));
    const wrapped = element("label", "af-field-none");
    wrapped.append(this.none, translate("no value"));
    return wrapped;
  }

  /** State of the controls; a changed field differs from `initial`. */
  get state() {
    return JSON.stringify([this.control.value, this.control.checked, this.none?.checked]);
  }

  /** Value to send. */
  get value() {
    const { kind, choices = [], value } = this.data;
    const text = this.control.value;
    if (this.state === this.initial) return value;
    if (this.none?.checked) return null;
    if (kind === "checkbox") return this.control.checked;
    if (kind === "choice") return text === "" ? null : choices[Number(text)];
    if (kind === "list") return text.split("\n");
    // Browsers normalise line ends to line feeds; CRLF is restored if all lines of the initial text ended with CRLF.
    const isCrlf = typeof value === "string" && value.includes("\r\n") && !/(^|[^\r])\n|\r(?!\n)/.test(value);
    return isCrlf ? text.replace(/\n/g, "\r\n") : text;
  }

  /** Error that the page can find without the kernel, or an empty string. */
  get problem() {
    if (this.data.kind !== "json" || this.state === this.initial || !this.control.value.trim()) return "";
    try {
      JSON.parse(this.control.value);
      return "";
    } catch (error) {
      return translate("This is not JSON: {problem}", { problem: error.message });
    }
  }

  /** The error by field name. @returns {FieldErrors} */
  get problems() {
    return { [this.data.name]: this.problem };
  }

  /** True if an error with this name belongs to the field. @param {string} name */
  covers(name) {
    return name === this.data.name;
  }

  /** @param {FieldErrors} errors @returns {HTMLElement | undefined} the invalid control */
  showErrors(errors) {
    const message = errors[this.data.name] ?? "";
    this.error.textContent = message;
    if (message) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
    return message ? this.control : undefined;
  }

  reset() {
    const [text, isChecked, isNone] = JSON.parse(this.initial);
    this.control.value = text;
    this.control.dispatchEvent(new Event("input")); // adapts the height and removes the draft
    if (isChecked !== undefined) this.control.checked = isChecked;
    if (this.none) this.none.checked = isNone;
  }

  /** Adapt the height to the text in browsers without `field-sizing`. */
  grow() {
    if (this.control.tagName !== "TEXTAREA" || CSS.supports("field-sizing", "content")) return;
    this.control.style.height = "auto";
    if (this.control.scrollHeight) this.control.style.height = `${this.control.scrollHeight + 2}px`;
  }
}
