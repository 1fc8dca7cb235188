/**
 * Controls of an approval card: Approve, Deny, a form for other parameters, a form for an answer, the scope of the decision
 * and a note to the agent. Uses form.js.
 *
 * A decision is sent with `perform("decide", {request, verdict, note, scope, params})`; `params` is null, or the values of
 * the form. After a decision the card is disabled until the kernel removes it; after an error it can be used again.
 *
 * @typedef {{request: string, tool: string, title: string, fields: FieldData[], edit: string, submit: string,
 *   answer: string, answerField: string, note: string, allowed: string[], hosts: string[]}} ApprovalData `fields` is empty
 *   if nothing can be edited, `answer` if no answer is possible; `allowed` has the possible outcomes, none for all; `hosts`
 *   is not empty if the decision is about hosts; the others are labels
 */

const APPROVAL_SCOPES = { once: "This time", run: "Always in this run", conversation: "Always in this conversation" };
const HOST_SCOPES = { once: "In this run", conversation: "Always in this conversation", always: "Always for this host" };
const APPROVAL_RESULTS = { approve: "Approved.", deny: "Denied.", instruct: "Answered." };
const APPROVAL_PENDING = "The run continues once the work in progress and the other decisions are done.";

class ApprovalControls {
  /** @param {ApprovalData} data @param {Perform} perform */
  constructor(data, perform) {
    Object.assign(this, { data, perform });
    this.root = dressedElement("fieldset", "af-approval-controls", { "aria-label": `Your decision: ${data.title}` });
    this.status = dressedElement("p", "af-approval-status af-quiet", { "aria-live": "polite" });
    this.error = dressedElement("p", "af-field-error", { role: "alert" });
    this.choices = element("div", "af-approval-choices");
    if (this.allows("approved")) {
      const approve = this.makeButton("Approve", () => this.decide("approve"));
      approve.classList.add("af-primary");
      this.choices.append(approve);
    }
    if (this.allows("denied")) this.choices.append(this.makeButton("Deny", () => this.decide("deny")));
    this.options = element("div", "af-approval-terms");
    this.options.append(this.makeScope(), this.makeNote());
    this.root.append(this.choices);
    if (data.fields.length && this.allows("edited")) this.addForm(data.edit, this.makeEdit(), { withOptions: true });
    if (data.answer && this.allows("instructed")) this.addForm(data.answer, this.makeAnswer(), { withOptions: false });
    this.root.append(this.options, this.error, this.status);
    this.root.dataset.lmSuppressShortcuts = "true"; // keep JupyterLab from handling the keys of the card
    this.root.addEventListener("keydown", (event) => event.stopPropagation());
  }

  /** True if a decision may have this outcome. @param {string} outcome */
  allows(outcome) {
    return !this.data.allowed.length || this.data.allowed.includes(outcome);
  }

  /** A button with the tool in its accessible name, because several cards may be open. @param {string} label @param {() => void} act */
  makeButton(label, act) {
    const button = plainButton(label, act);
    button.setAttribute("aria-label", `${label} ${this.data.tool}`);
    return button;
  }

  makeScope() {
    this.scope = dressedElement("select", "af-input", { "aria-label": `Applies: scope of your decision on ${this.data.tool}` });
    this.scope.append(...Object.entries(this.data.hosts.length ? HOST_SCOPES : APPROVAL_SCOPES).map(([value, label]) => new Option(label, value)));
    const label = element("label", "af-approval-scope");
    label.append("Applies", this.scope);
    return label;
  }

  makeNote() {
    const name = `${this.data.note} about ${this.data.tool}, optional`;
    this.note = dressedElement("input", "af-input af-approval-note", { type: "text", "aria-label": name, autocomplete: "off" });
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

  /** Add a form and the button that displays it in place of the buttons. @param {string} label @param {HTMLElement} form @param {object} options */
  addForm(label, form, { withOptions }) {
    form.hidden = true;
    const opener = this.makeButton(label, () => {
      this.opened = { form, opener };
      form.hidden = false;
      this.choices.hidden = true;
      this.options.hidden = !withOptions;
      if (withOptions) form.querySelector(".af-form-buttons").before(this.options);
      this.error.textContent = "";
      form.querySelector(".af-input, .af-field-checkbox > .af-check")?.focus();
    });
    opener.setAttribute("aria-expanded", "false");
    this.choices.append(opener);
    this.root.append(form);
  }

  /** Display the buttons again; the form keeps its input. */
  close() {
    const { form, opener } = this.opened;
    form.hidden = true;
    this.choices.hidden = this.options.hidden = false;
    this.error.before(this.options);
    opener.focus();
  }

  /** @param {"approve" | "deny"} verdict */
  async decide(verdict) {
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    this.error.textContent = "";
    const result = await this.send(verdict, this.note.value, null);
    if (!result.failed) return;
    this.error.textContent = result.message;
    if (this.root.contains(focused)) focused.focus();
  }

  /**
   * @param {"approve" | "deny" | "instruct"} verdict @param {string} note
   * @param {{[name: string]: any} | null} params @returns {Promise<ActionResult>}
   */
  async send(verdict, note, params) {
    this.root.disabled = true;
    this.root.dataset.decided = "yes"; // when the card is removed, `KeyedTree` focuses the last step
    this.status.textContent = "Waiting for the kernel …";
    const { request } = this.data;
    const result = await this.perform("decide", { request, verdict, note, scope: this.scope.value, params });
    this.root.disabled = !result.failed;
    if (result.failed) delete this.root.dataset.decided;
    this.status.textContent = result.failed ? "" : result.message || `${APPROVAL_RESULTS[verdict]} ${APPROVAL_PENDING}`;
    return result;
  }
}

/** @param {ApprovalData} data @param {Perform} perform @returns {HTMLElement} */
function makeApprovalControls(data, perform) {
  return new ApprovalControls(data, perform).root;
}

/**
 * Controls of a question: a button for each choice, a field for any other answer, and a button that leaves it open.
 *
 * @param {{request: string, title: string, choices: string[]}} data @param {Perform} perform @returns {HTMLElement}
 */
function makeQuestionControls(data, perform) {
  const { request, title, choices } = data;
  const root = dressedElement("fieldset", "af-approval-controls", { "aria-label": `Your answer: ${title}` });
  const status = dressedElement("p", "af-approval-status af-quiet", { "aria-live": "polite" });
  const error = dressedElement("p", "af-field-error", { role: "alert" });

  /** @param {"instruct" | "deny"} verdict @param {string} note @returns {Promise<ActionResult>} */
  async function send(verdict, note) {
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    root.disabled = true;
    root.dataset.decided = "yes"; // when the card is removed, `KeyedTree` focuses the last step
    error.textContent = "";
    status.textContent = "Waiting for the kernel …";
    const result = await perform("decide", { request, verdict, note });
    root.disabled = !result.failed;
    if (result.failed) delete root.dataset.decided;
    status.textContent = result.failed ? "" : result.message || (verdict === "deny" ? "Left open." : APPROVAL_RESULTS[verdict]);
    if (result.failed && root.contains(focused)) focused.focus();
    return result;
  }

  /** Send what a button means, and display its failure. @param {"instruct" | "deny"} verdict @param {string} note */
  async function press(verdict, note) {
    const result = await send(verdict, note);
    if (result.failed) error.textContent = result.message;
  }

  const buttons = element("div", "af-approval-choices");
  buttons.append(...choices.map((choice) => plainButton(choice, () => press("instruct", choice))));
  const label = choices.length ? "Another answer" : "Your answer";
  const fields = [{ name: "note", kind: "text", value: "", label, keep: true }];
  const spec = { fields, submit: "Send answer", act: "decide", label: `Your answer: ${title}` };
  const form = makeForm(spec, (_act, { values }) => send("instruct", values.note));
  // Not the form's cancel button: Escape would press it, and leave the question open for good.
  form.querySelector(".af-form-buttons").append(plainButton("Go on without an answer", () => press("deny", "")));
  root.append(...(choices.length ? [buttons] : []), form, error, status);
  root.dataset.lmSuppressShortcuts = "true"; // keep JupyterLab from handling the keys of the card
  root.addEventListener("keydown", (event) => event.stopPropagation());
  return root;
}
