/**
 * A field for a list of texts that are chosen from given texts, with a checkbox for each text. Uses field.js.
 *
 * The field has the interface of `FormField`. Initial texts that are not among the choices can be kept or removed.
 */

class ChoicesField {
  /** @param {FieldData} data */
  constructor(data) {
    this.data = data;
    const id = `af-${Math.random().toString(36).slice(2)}`;
    const label = data.label || data.name;
    this.root = element("div", "af-field af-field-choices", { role: "group", "aria-labelledby": id });
    const labelElement = element("div", "af-field-label", { id });
    labelElement.textContent = label;
    const help = element("p", "af-field-help");
    help.textContent = data.doc ?? "";
    this.error = element("p", "af-field-error", { role: "alert" });
    const chosen = data.value ?? [];
    const names = new Map((data.choices ?? []).map((text, i) => [text, data.choiceNames?.[i] ?? text]));
    const box = element("div", "af-choices");
    this.boxes = [...new Set([...chosen, ...(data.choices ?? [])])].map((text) => {
      const check = /** @type {HTMLInputElement} */ (element("input", "af-check", { type: "checkbox" }));
      check.checked = check.defaultChecked = chosen.includes(text);
      const choice = element("label", "af-choice");
      choice.append(check, names.get(text) ?? text);
      box.append(choice);
      return { check, text };
    });
    this.control = this.boxes[0]?.check ?? box;
    this.root.append(labelElement, ...(data.doc ? [help] : []), box, this.error);
    this.initial = this.state;
  }

  get state() {
    return JSON.stringify(this.boxes.map(({ check }) => check.checked));
  }

  /** Value to send: the chosen texts, or the initial value. */
  get value() {
    return this.state === this.initial ? this.data.value : this.boxes.filter(({ check }) => check.checked).map(({ text }) => text);
  }

  /** @returns {FieldErrors} */
  get problems() {
    return {};
  }

  /** @param {string} name */
  covers(name) {
    return name === this.data.name;
  }

  /** @param {FieldErrors} errors @returns {HTMLElement | undefined} */
  showErrors(errors) {
    this.error.textContent = errors[this.data.name] ?? "";
    return this.error.textContent ? this.control : undefined;
  }

  reset() {
    for (const { check } of this.boxes) check.checked = check.defaultChecked;
  }

  grow() {}
}

/** The field for one value of a form or of an item. @param {FieldData} data @returns {FormField | ChoicesField} */
function makeValueField(data) {
  return data.kind === "list" && data.choices?.length ? new ChoicesField(data) : new FormField(data);
}
