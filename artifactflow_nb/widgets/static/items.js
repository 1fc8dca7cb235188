/**
 * A field for a list of objects with fields of their own, which can be edited, moved, added and removed. Uses field.js.
 *
 * The field sends the items in their order: the index of an unchanged item, `{of: index or null, values}` of other items.
 * Alt with an arrow key moves the focused item.
 */

/**
 * True if Alt with an arrow key opens this control (a select) or, on Apple systems, moves the cursor in this control.
 * @param {EventTarget | null} target
 */
function usesAltArrow(target) {
  const apple = /^(Mac|iP)/.test(navigator.platform);
  return target instanceof HTMLElement && target.matches(apple ? "select, textarea, input:not([type=checkbox])" : "select");
}

class Item {
  /** @param {ItemsField} list @param {number | null} of initial index; null for a new item @param {FieldData[]} fields */
  constructor(list, of, fields) {
    Object.assign(this, { list, of });
    this.fields = fields.map((data) => makeValueField({ ...data, doc: "", placeholder: data.doc }));
    this.root = element("li", "af-item");
    this.group = element("div", "af-item-fields", { role: "group" });
    this.number = element("span", "af-item-number");
    this.up = plainButton("↑", () => list.move(this, -1));
    this.down = plainButton("↓", () => list.move(this, 1));
    this.removeButton = plainButton(translate("Remove"), () => list.remove(this));
    this.up.setAttribute("aria-keyshortcuts", "Alt+ArrowUp");
    this.down.setAttribute("aria-keyshortcuts", "Alt+ArrowDown");
    this.up.title = "Alt+↑";
    this.down.title = "Alt+↓";
    const buttons = element("div", "af-item-buttons");
    buttons.append(this.number, this.up, this.down, this.removeButton);
    const isFolded = (/** @type {FormField} */ field) => list.folded.has(field.data.name);
    this.group.append(...this.fields.filter((field) => !isFolded(field)).map((field) => field.root));
    this.group.append(...this.makeMore(this.fields.filter(isFolded)));
    this.root.append(buttons, this.group);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Fold optional fields that are empty in all items. @param {FormField[]} fields */
  makeMore(fields) {
    if (!fields.length) return [];
    this.more = element("details", "af-item-more");
    const summary = element("summary");
    const names = fields.map((field) => field.data.label || field.data.name).join(translate(", "));
    summary.textContent = translate("More: {fields}", { fields: names });
    this.more.append(summary, ...fields.map((field) => field.root));
    return [this.more];
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by || !event.altKey || isComposing(event) || usesAltArrow(event.target)) return;
    event.preventDefault();
    this.list.move(this, by);
  }

  /** Update the number in texts and names. @param {number} index @param {number} n number of items */
  renumber(index, n) {
    const item = translate("{list} {number}", { list: this.list.label, number: index + 1 });
    this.number.textContent = `${index + 1}.`;
    this.group.setAttribute("aria-label", item);
    this.up.setAttribute("aria-label", translate("Move up: {item}", { item }));
    this.down.setAttribute("aria-label", translate("Move down: {item}", { item }));
    this.removeButton.setAttribute("aria-label", translate("Remove: {item}", { item }));
    this.up.setAttribute("aria-disabled", String(index === 0)); // not `disabled`: a disabled button loses the focus
    this.down.setAttribute("aria-disabled", String(index === n - 1));
  }

  get value() {
    const isTouched = this.of === null || this.fields.some((field) => field.state !== field.initial);
    return isTouched ? { of: this.of, values: fieldValues(this.fields) } : this.of;
  }

  /** @param {FieldErrors} errors by the names of its fields @returns {HTMLElement | undefined} the first invalid control */
  showErrors(errors) {
    const invalid = this.fields.map((field) => field.showErrors(errors)).find(Boolean);
    if (invalid && this.more?.contains(invalid)) this.more.open = true;
    return invalid;
  }
}

class ItemsField {
  /** @param {FieldData} data */
  constructor(data) {
    this.data = data;
    this.label = data.label || data.name;
    const id = `af-${Math.random().toString(36).slice(2)}`;
    this.root = element("div", "af-field af-field-items", { role: "group", "aria-labelledby": id });
    const labelElement = element("div", "af-field-label", { id });
    labelElement.textContent = this.label;
    const help = element("p", "af-field-help");
    help.textContent = data.doc ?? "";
    this.error = element("p", "af-field-error", { role: "alert" });
    this.status = element("p", "af-announcer", { "aria-live": "polite" });
    this.box = element("ol", "af-items", { role: "list" });
    this.control = plainButton(translate("Add"), () => this.add());
    this.control.setAttribute("aria-label", translate("Add to {list}", { list: this.label }));
    const isBlank = (/** @type {FieldData} */ field) => !field.required && (!field.value || field.value.length === 0);
    const items = data.items ?? [];
    const names = (data.blank ?? []).map((field) => field.name);
    this.folded = new Set(names.filter((_name, i) => [...items, data.blank].every((fields) => isBlank(fields[i]))));
    this.root.append(labelElement, ...(data.doc ? [help] : []), this.box, this.error, this.control, this.status);
    this.reset();
  }

  reset() {
    this.items = (this.data.items ?? []).map((fields, index) => new Item(this, index, fields));
    this.box.replaceChildren(...this.items.map((item) => item.root));
    this.renumber();
  }

  renumber() {
    this.items.forEach((item, index) => item.renumber(index, this.items.length));
  }

  add() {
    const item = new Item(this, null, this.data.blank ?? []);
    this.items.push(item);
    this.box.append(item.root);
    this.renumber();
    item.fields[0]?.control.focus();
  }

  /** @param {Item} item @param {number} by */
  move(item, by) {
    const from = this.items.indexOf(item);
    const to = from + by;
    if (to < 0 || to >= this.items.length) return;
    const focused = /** @type {HTMLElement} */ (focusedElement());
    this.items.splice(from, 1);
    this.items.splice(to, 0, item);
    this.box.insertBefore(item.root, this.items[to + 1]?.root ?? null);
    this.renumber();
    if (item.root.contains(focused)) focused.focus({ preventScroll: true }); // an element that is moved in the page loses the focus
    item.root.scrollIntoView({ block: "nearest" });
    this.status.textContent = translate("Item moved to position {number} of {total}.", { number: to + 1, total: this.items.length });
  }

  /** @param {Item} item */
  remove(item) {
    const index = this.items.indexOf(item);
    this.items.splice(index, 1);
    item.root.remove();
    this.renumber();
    const near = this.items[index] ?? this.items[index - 1];
    (near?.removeButton ?? this.control).focus();
    this.status.textContent = translate("Removed. {left} left.", { left: this.items.length });
  }

  /** Value to send. */
  get value() {
    const sent = this.items.map((item) => item.value);
    const isUntouched = sent.length === (this.data.items ?? []).length && sent.every((value, index) => value === index);
    return isUntouched ? this.data.value : sent;
  }

  /** Errors that the page can find without the kernel. @returns {FieldErrors} */
  get problems() {
    const { name } = this.data;
    const errors = this.items.flatMap((item, index) =>
      item.fields.flatMap((field) => Object.entries(field.problems).map(([column, text]) => [`${name}.${index}.${column}`, text])),
    );
    return Object.fromEntries(errors);
  }

  /** True if an error with this name belongs to the list. @param {string} name */
  covers(name) {
    return name === this.data.name || name.startsWith(`${this.data.name}.`);
  }

  /** @param {FieldErrors} errors @returns {HTMLElement | undefined} the first invalid control */
  showErrors(errors) {
    const remaining = new Map(Object.entries(errors).filter(([name, text]) => text && this.covers(name)));
    const invalid = this.items.map((item, index) => {
      const keys = item.fields.map((field) => [field.data.name, `${this.data.name}.${index}.${field.data.name}`]);
      const own = Object.fromEntries(keys.map(([column, key]) => [column, remaining.get(key) ?? ""]));
      keys.forEach(([, key]) => remaining.delete(key));
      return item.showErrors(own);
    });
    this.error.textContent = [...remaining.values()].join(" ");
    return invalid.find(Boolean) ?? (remaining.size ? this.control : undefined);
  }

  grow() {
    this.items.forEach((item) => item.fields.forEach((field) => field.grow()));
  }
}

/** @param {FieldData} data @returns {FormField | ChoicesField | ItemsField} */
function makeField(data) {
  return data.kind === "items" ? new ItemsField(data) : makeValueField(data);
}
