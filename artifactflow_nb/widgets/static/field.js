/**
 * One field of a form: label, help, control, what is wrong with it. The kernel joins tree.js in front of this file.
 *
 * A field that is as it was shown sends the value that the kernel gave, so nothing is lost that the page cannot hold.
 *
 * @typedef {{name: string,
 *   kind: "text" | "multiline" | "integer" | "number" | "checkbox" | "choice" | "json" | "list" | "items",
 *   value: string | boolean | string[] | number[] | null, items?: FieldData[][], blank?: FieldData[], label?: string, choices?: string[], required?: boolean,
 *   nullable?: boolean, doc?: string, placeholder?: string, rows?: number, hideLabel?: boolean, autofocus?: boolean,
 *   monospace?: boolean, keep?: boolean}} FieldData see artifactflow_nb/tools/forms.py
 */

const KIND_HINTS = { integer: "A whole number.", number: "A number.", list: "One on each line.", json: "JSON." };
const KINDS_OF_LINES = ["multiline", "json", "list"];
const KINDS_OF_TEXT = ["text", "multiline", "list"];

/** @param {string} name @param {string} css @param {object} attributes those that are undefined or false are left out */
function dressedElement(name, css, attributes = {}) {
  const made = element(name, css);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : String(value));
  }
  return made;
}

/** What stands in fields, by their names. @param {{data: FieldData, value: any}[]} fields */
function fieldValues(fields) {
  return Object.fromEntries(fields.map((field) => [field.data.name, field.value]));
}

/** A button that neither sends a form nor has an act of its own. @param {string} label @param {() => void} onClick */
function plainButton(label, onClick) {
  const made = /** @type {HTMLButtonElement} */ (dressedElement("button", "af-button", { type: "button" }));
  made.textContent = label;
  made.addEventListener("click", onClick);
  return made;
}

/** @param {FieldData} data @returns {Control} */
function fieldControl(data) {
  const { kind, value, placeholder, choices = [], nullable } = data;
  if (kind === "checkbox") {
    const box = dressedElement("input", "af-check", { type: "checkbox" });
    box.checked = value === true;
    return box;
  }
  if (kind === "choice") {
    const select = dressedElement("select", "af-input");
    const offered = choices.map((choice, i) => new Option(choice, String(i), false, choice === value));
    const isOpen = nullable || !choices.includes(value);
    select.append(...(isOpen ? [new Option(nullable ? "(none)" : "Choose …", "", false, value === null)] : []), ...offered);
    return select;
  }
  const isCode = data.monospace ? " af-code" : "";
  const inputmode = { integer: "numeric", number: "decimal" }[kind];
  const control = KINDS_OF_LINES.includes(kind)
    ? dressedElement("textarea", `af-input af-lines${isCode}`, { placeholder, rows: data.rows || 2 })
    : dressedElement("input", `af-input${isCode}`, { type: "text", placeholder, inputmode });
  if (data.rows) control.style.setProperty("--af-rows", String(data.rows));
  control.autocomplete = "off";
  control.spellcheck = KINDS_OF_TEXT.includes(kind) && !data.monospace;
  control.value = Array.isArray(value) ? value.join("\n") : String(value ?? "");
  return control;
}

/** One field: label, help, control, and what is wrong with it. */
class FormField {
  /** @param {FieldData} data */
  constructor(data) {
    this.data = data;
    const id = `af-${Math.random().toString(36).slice(2)}`;
    const label = data.label || data.name;
    this.control = fieldControl(data);
    this.error = dressedElement("p", "af-field-error", { id: `${id}-error`, role: "alert" });
    const help = dressedElement("p", "af-field-help", { id: `${id}-help` });
    help.textContent = [data.doc, data.hideLabel ? "" : KIND_HINTS[data.kind]].filter(Boolean).join(" ");
    this.control.id = id;
    if (data.required && !KINDS_OF_TEXT.includes(data.kind) && data.kind !== "checkbox") {
      this.control.setAttribute("aria-required", "true");
    }
    this.control.setAttribute("aria-describedby", `${help.textContent ? `${id}-help ` : ""}${id}-error`);
    this.root = element("div", `af-field af-field-${data.kind}`);
    const named = dressedElement("label", "af-field-label", { for: id });
    named.textContent = label;
    if (data.hideLabel) this.control.setAttribute("aria-label", label);
    const head = element("div", "af-field-head");
    if (!data.hideLabel) head.append(named);
    if (data.nullable && KINDS_OF_TEXT.includes(data.kind)) head.append(this.makeNone(label));
    this.root.append(...(head.childNodes.length ? [head] : []), ...(help.textContent ? [help] : []), this.control, this.error);
    if (this.control.tagName === "TEXTAREA") this.control.addEventListener("input", () => this.grow());
    this.initial = this.state;
  }

  /** Where no value at all is something else than an empty text: a box that says so. @param {string} label */
  makeNone(label) {
    this.none = dressedElement("input", "af-check", { type: "checkbox", "aria-label": `No value for ${label}` });
    this.none.checked = this.data.value === null;
    this.none.addEventListener("change", () => {
      if (this.none.checked) this.control.value = "";
    });
    this.control.addEventListener("input", () => (this.none.checked = false));
    const wrapped = element("label", "af-field-none");
    wrapped.append(this.none, "no value");
    return wrapped;
  }

  /** What stands in it, to tell whether it was touched. */
  get state() {
    return JSON.stringify([this.control.value, this.control.checked, this.none?.checked]);
  }

  /** What the kernel is sent. */
  get value() {
    const { kind, choices = [], value } = this.data;
    const written = this.control.value;
    if (this.state === this.initial) return value;
    if (this.none?.checked) return null;
    if (kind === "checkbox") return this.control.checked;
    if (kind === "choice") return written === "" ? null : choices[Number(written)];
    if (kind === "list") return written.split("\n");
    // A browser makes every line end with a line feed; a text whose lines all ended otherwise has its own ends back.
    const isCrlf = typeof value === "string" && value.includes("\r\n") && !/(^|[^\r])\n|\r(?!\n)/.test(value);
    return isCrlf ? written.replace(/\n/g, "\r\n") : written;
  }

  /** What can be said without the kernel; empty if nothing is wrong. */
  get problem() {
    if (this.data.kind !== "json" || this.state === this.initial || !this.control.value.trim()) return "";
    try {
      JSON.parse(this.control.value);
      return "";
    } catch (error) {
      return `This is not JSON: ${error.message}`;
    }
  }

  /** The same, by its name. @returns {FieldErrors} */
  get problems() {
    return { [this.data.name]: this.problem };
  }

  /** @param {string} name of a field that something is wrong with */
  covers(name) {
    return name === this.data.name;
  }

  /** @param {FieldErrors} errors @returns {HTMLElement | undefined} what to correct */
  showErrors(errors) {
    const message = errors[this.data.name] ?? "";
    this.error.textContent = message;
    if (message) this.control.setAttribute("aria-invalid", "true");
    else this.control.removeAttribute("aria-invalid");
    return message ? this.control : undefined;
  }

  reset() {
    const [written, isChecked, isNone] = JSON.parse(this.initial);
    this.control.value = written;
    this.control.dispatchEvent(new Event("input")); // it is as tall as its text, and a draft of it is gone
    if (isChecked !== undefined) this.control.checked = isChecked;
    if (this.none) this.none.checked = isNone;
  }

  /** As tall as its text, where the style sheet alone cannot do it. */
  grow() {
    if (this.control.tagName !== "TEXTAREA" || CSS.supports("field-sizing", "content")) return;
    this.control.style.height = "auto";
    if (this.control.scrollHeight) this.control.style.height = `${this.control.scrollHeight + 2}px`;
  }
}
