/**
 * The composer of a chat: completes `@` and `/`, recalls the last question, and sends files that are attached or dropped.
 * Uses field.js and place.js.
 *
 * @typedef {{insert: string, label: string, detail: string}} Completion
 */

/** The word before the cursor that is completed: `@` anywhere, `/` at the start of the text. */
const COMPLETED_WORD = /(?:^|\s)(@)(\S*)$|^(\/)(\S*)$/;

const PAPER_CLIP =
  '<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4">' +
  '<path d="M13.5 7.5 8 13a3.4 3.4 0 0 1-4.8-4.8l6-6a2.3 2.3 0 0 1 3.2 3.2l-6 6a1.1 1.1 0 0 1-1.6-1.6L10 4.6"/></svg>';

class Completions {
  /** @param {HTMLTextAreaElement} control @param {Perform} perform */
  constructor(control, perform) {
    Object.assign(this, { control, perform });
    this.selected = 0;
    /** @type {Completion[]} */
    this.options = [];
    this.list = element("ul", "af-complete", { role: "listbox", id: `${control.id}-options`, "aria-label": translate("Completions") });
    this.list.hidden = true;
    control.setAttribute("aria-autocomplete", "list");
    if (!matchMedia("(pointer: coarse)").matches) control.placeholder += translate(" Enter asks, Shift+Enter adds a line."); // a phone has no such keys
    control.addEventListener("input", () => this.request());
    control.addEventListener("blur", () => this.hide());
    control.addEventListener("keydown", (event) => this.onKey(event));
    control.addEventListener("af-complete", (event) => this.show(/** @type {CustomEvent} */ (event).detail));
  }

  /** The word before the cursor with its `@` or `/`; empty for any other word. */
  get word() {
    const match = COMPLETED_WORD.exec(this.control.value.slice(0, this.control.selectionStart));
    return match ? `${match[1] ?? match[3]}${match[2] ?? match[4]}` : "";
  }

  request() {
    const { word } = this;
    if (word) void this.perform("complete", { mark: word[0], words: word.slice(1) });
    else this.hide();
  }

  /** @param {{word: string, options: Completion[]}} completions */
  show({ word, options }) {
    if (word !== this.word || focusedElement() !== this.control) return; // the person has typed more
    this.options = options;
    this.list.replaceChildren(...options.map((option, index) => this.makeOption(option, index)));
    this.list.hidden = options.length === 0;
    this.placeList();
    this.select(0);
  }

  /** Show the list over the text above the field, or below a field that is at the top of the window. */
  placeList() {
    this.list.removeAttribute("data-below");
    const top = Math.max(scrollerOf(this.control)?.getBoundingClientRect().top ?? 0, 0);
    this.list.toggleAttribute("data-below", this.list.getBoundingClientRect().top < top);
  }

  /** @param {Completion} option @param {number} index */
  makeOption({ label, detail }, index) {
    const item = element("li", "af-complete-option", { role: "option", id: `${this.list.id}-${index}` });
    const name = element("span", "af-complete-label");
    const kind = element("span", "af-quiet");
    name.textContent = label;
    kind.textContent = detail;
    item.append(name, kind);
    item.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // keeps the focus in the field
      this.choose(index);
    });
    return item;
  }

  /** @param {number} index wraps around */
  select(index) {
    const items = [...this.list.children];
    this.selected = items.length ? (index + items.length) % items.length : 0;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === this.selected)));
    const item = items[this.selected];
    if (item && !this.list.hidden) {
      this.control.setAttribute("aria-controls", this.list.id);
      this.control.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    }
  }

  /** Replace the word before the cursor by an option, or carry out a command. @param {number} index */
  choose(index) {
    const { control, word } = this;
    const end = control.selectionStart;
    const { insert } = this.options[index];
    this.hide();
    if (word[0] === "/") {
      control.value = insert;
      control.form?.requestSubmit();
      return;
    }
    const text = `${insert} `;
    control.setRangeText(text, end - word.length, end, "end");
    control.dispatchEvent(new Event("input", { bubbles: true }));
  }

  hide() {
    this.list.hidden = true;
    this.control.removeAttribute("aria-activedescendant");
    this.control.removeAttribute("aria-controls");
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (isComposing(event) || event.shiftKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowUp" && !this.control.value) void this.perform("recall", {});
    if (this.list.hidden) return;
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) this.select(this.selected + by);
    else if (event.key === "Enter" || event.key === "Tab") {
      const { label, insert } = this.options[this.selected];
      // The options may belong to an earlier word.
      if (!`${label} ${insert}`.toLowerCase().includes(this.word.slice(1).toLowerCase())) return;
      this.choose(this.selected);
    }
    else if (event.key === "Escape") this.hide();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** @param {File} file @returns {Promise<string>} */
function base64Of(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result).replace(/^[^,]*,/, "")));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

class Attachments {
  /** @param {KernelForm} form @param {number} maxBytes of one file */
  constructor(form, maxBytes) {
    Object.assign(this, { form, maxBytes });
    this.input = element("input", "", { type: "file", multiple: true, tabindex: "-1", "aria-hidden": true });
    this.input.hidden = true;
    this.input.addEventListener("change", () => this.send([...(this.input.files ?? [])]));
    this.button = plainButton("", () => this.input.click());
    this.button.innerHTML = PAPER_CLIP;
    this.button.classList.add("af-small", "af-attach");
    this.button.setAttribute("aria-label", translate("Attach files to the sources"));
    this.button.title = translate("Attach files to the sources");
    const { root } = form;
    root.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.stopPropagation(); // else JupyterLab uploads the file to its file browser
      root.classList.add("af-drop");
    });
    root.addEventListener("dragleave", () => root.classList.remove("af-drop"));
    root.addEventListener("drop", (event) => {
      root.classList.remove("af-drop");
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      event.stopPropagation();
      this.send([...event.dataTransfer.files]);
    });
  }

  /** @param {File[]} files */
  async send(files) {
    const { form } = this;
    const large = files.find((file) => file.size > this.maxBytes);
    if (large) {
      form.showErrors({}, translate("{name}: {bytes} bytes, the limit is {most}.", { name: large.name, bytes: large.size.toLocaleString("en"), most: this.maxBytes.toLocaleString("en") }));
      return;
    }
    form.showErrors({});
    form.status.textContent = translate("Reading the files …");
    const contents = await Promise.all(files.map(async (file) => ({ name: file.name, base64: await base64Of(file) })));
    const result = await form.perform("attach", { files: contents });
    this.input.value = "";
    form.status.textContent = result.failed ? "" : result.message;
    if (result.failed) form.showErrors({}, result.message);
  }
}
