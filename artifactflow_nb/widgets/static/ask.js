/**
 * What stands below a question to the person: Approve, Deny, other parameters, an answer instead, how long it holds, and
 * a note to the agent. The kernel joins form.js in front of this file.
 *
 * `perform("decide", {request, verdict, note, scope, params})` tells the kernel; `params` is null, or what stands in the
 * fields. When it was decided the card stays as it is until the kernel takes it away; when the kernel refuses, the card
 * says why and can be used again.
 *
 * @typedef {{request: string, tool: string, title: string, fields: FieldData[], edit: string, submit: string,
 *   answer: string, answerField: string, note: string}} AskData `fields` is empty where nothing can be edited, `answer`
 *   where nothing can be answered; what is behind them are labels
 */

const ASK_SCOPES = { once: "This time", run: "Always in this run", conversation: "Always in this conversation" };
const ASK_DONE = { approve: "Approved.", deny: "Denied.", instruct: "Answered." };
const ASK_GOES_ON = "The run goes on once the work in progress and the other decisions are done.";

class AskControls {
  /** @param {AskData} data @param {Perform} perform */
  constructor(data, perform) {
    Object.assign(this, { data, perform });
    this.root = dressedElement("fieldset", "af-ask-controls", { "aria-label": `Your decision: ${data.title}` });
    this.status = dressedElement("p", "af-ask-status af-quiet", { "aria-live": "polite" });
    this.refused = dressedElement("p", "af-field-error", { role: "alert" });
    this.choices = element("div", "af-ask-choices");
    const approve = this.makeChoice("Approve", () => this.decide("approve"));
    approve.classList.add("af-primary");
    this.choices.append(approve, this.makeChoice("Deny", () => this.decide("deny")));
    this.terms = element("div", "af-ask-terms");
    this.terms.append(this.makeScope(), this.makeNote());
    this.root.append(this.choices);
    if (data.fields.length) this.offer(data.edit, this.makeEdit(), { withTerms: true });
    if (data.answer) this.offer(data.answer, this.makeAnswer(), { withTerms: false });
    this.root.append(this.terms, this.refused, this.status);
    this.root.dataset.lmSuppressShortcuts = "true"; // JupyterLab's, for keys that are meant for the card
    this.root.addEventListener("keydown", (event) => event.stopPropagation());
  }

  /** A button whose name says what it is about: several cards may be open. @param {string} label @param {() => void} act */
  makeChoice(label, act) {
    const made = plainButton(label, act);
    made.setAttribute("aria-label", `${label} ${this.data.tool}`);
    return made;
  }

  makeScope() {
    this.scope = dressedElement("select", "af-input", { "aria-label": `Applies: how long your decision on ${this.data.tool} holds` });
    this.scope.append(...Object.entries(ASK_SCOPES).map(([value, label]) => new Option(label, value)));
    const shown = element("label", "af-ask-scope");
    shown.append("Applies", this.scope);
    return shown;
  }

  makeNote() {
    const name = `${this.data.note} about ${this.data.tool}, optional`;
    this.note = dressedElement("input", "af-input af-ask-note", { type: "text", "aria-label": name, autocomplete: "off" });
    this.note.placeholder = `${this.data.note} (optional)`;
    return this.note;
  }

  makeEdit() {
    const { tool, submit, edit } = this.data;
    const fields = this.data.fields.map((field) => ({ ...field, keep: true }));
    const spec = { fields, submit, act: "decide", label: `${edit} of ${tool}`, cancel: "Back" };
    return makeForm(spec, (_act, { values }) => this.send("approve", this.note.value, values), () => this.close());
  }

  makeAnswer() {
    const { tool, answer, answerField } = this.data;
    const fields = [{ name: "note", kind: "multiline", value: "", label: answerField, rows: 2, keep: true }];
    const spec = { fields, submit: "Send answer", act: "decide", label: `${answer}: ${tool}`, cancel: "Back" };
    return makeForm(spec, (_act, { values }) => this.send("instruct", values.note, null), () => this.close());
  }

  /** A button that opens a form in the place of the buttons. @param {string} label @param {HTMLElement} form @param {object} options */
  offer(label, form, { withTerms }) {
    form.hidden = true;
    const opener = this.makeChoice(label, () => {
      this.opened = { form, opener };
      form.hidden = false;
      this.choices.hidden = true;
      this.terms.hidden = !withTerms;
      if (withTerms) form.querySelector(".af-form-buttons").before(this.terms);
      this.refused.textContent = "";
      form.querySelector(".af-input, .af-field-checkbox > .af-check")?.focus();
    });
    opener.setAttribute("aria-expanded", "false");
    this.choices.append(opener);
    this.root.append(form);
  }

  /** Back to the buttons; what was written stays, for the next time. */
  close() {
    const { form, opener } = this.opened;
    form.hidden = true;
    this.choices.hidden = this.terms.hidden = false;
    this.refused.before(this.terms);
    opener.focus();
  }

  /** @param {"approve" | "deny"} verdict */
  async decide(verdict) {
    const pressed = /** @type {HTMLElement} */ (document.activeElement);
    this.refused.textContent = "";
    const result = await this.send(verdict, this.note.value, null);
    if (!result.failed) return;
    this.refused.textContent = result.message;
    if (this.root.contains(pressed)) pressed.focus();
  }

  /**
   * @param {"approve" | "deny" | "instruct"} verdict @param {string} note
   * @param {{[name: string]: any} | null} params @returns {Promise<ActionResult>}
   */
  async send(verdict, note, params) {
    this.root.disabled = true;
    this.root.dataset.decided = "yes"; // when the card goes, the focus is led back to the step that asked
    this.status.textContent = "Waiting for the kernel …";
    const { request } = this.data;
    const result = await this.perform("decide", { request, verdict, note, scope: this.scope.value, params });
    this.root.disabled = !result.failed;
    if (result.failed) delete this.root.dataset.decided;
    this.status.textContent = result.failed ? "" : result.message || `${ASK_DONE[verdict]} ${ASK_GOES_ON}`;
    return result;
  }
}

/** @param {AskData} data @param {Perform} perform @returns {HTMLElement} */
function makeAskControls(data, perform) {
  return new AskControls(data, perform).root;
}
