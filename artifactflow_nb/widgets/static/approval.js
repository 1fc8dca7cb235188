/**
 * Controls of an approval card: Approve, Deny, forms for other parameters and for an answer, scope and note. Uses form.js,
 * preview.js and focus.js.
 *
 * While a card has the focus, the keys `a` and `d` approve and deny, except in fields.
 *
 * A decision is sent with `perform("decide", {request, choice, note, scope, params})`; `params` is null or has the form's
 * values. After a decision the card is disabled until the kernel removes the card; an error enables the card again.
 *
 * @typedef {{request: string, subject: string, title: string, fields: FieldData[], edit: string, submit: string,
 *   answer: string, answerField: string, answerSubmit: string, note: string, allowed: string[], hosts: string[]}} ApprovalData `fields` is empty
 *   if nothing can be edited, `answer` if no answer is possible; `allowed` has the possible choices, or is empty for all
 *   choices; `hosts` has the hosts that the decision is about; the other strings are labels
 */

const APPROVAL_SCOPES = { once: translate("This time"), run: translate("Always in this run"), conversation: translate("Always in this conversation") };
const HOST_SCOPES = { once: translate("This time (in this run)"), conversation: translate("Always in this conversation"), always: translate("Always for this host") };
const APPROVAL_RESULTS = { approve: translate("Approved."), deny: translate("Denied."), instruct: translate("Answered.") };

/** The controls of each card, by its element. @type {WeakMap<Element, ApprovalControls>} */ const APPROVAL_CONTROLS = new WeakMap();

/**
 * Press the button for a key, unless a field has the focus; keep JupyterLab from handling the keys of the card.
 * @param {HTMLElement} root @param {{[key: string]: HTMLElement | undefined}} buttons by key
 */
function handleDecisionKeys(root, buttons) {
  root.dataset.lmSuppressShortcuts = "true";
  for (const [key, button] of Object.entries(buttons)) button?.setAttribute("aria-keyshortcuts", key);
  root.addEventListener("keydown", (event) => {
    if (event.defaultPrevented) return;
    event.stopPropagation();
    const isField = /** @type {Element} */ (event.target).matches("input:not([type=checkbox]), select, textarea");
    const button = buttons[event.key];
    if (!button || isField || event.repeat || event.ctrlKey || event.metaKey || event.altKey || isComposing(event)) return;
    event.preventDefault();
    if (performance.now() >= keysGuardedUntil) button.click();
  });
}

/**
 * The field for the scope of a decision, with its label.
 * @param {string} subject @param {{[scope: string]: string}} scopes @returns {[HTMLElement, HTMLSelectElement]}
 */
function approvalScope(subject, scopes) {
  const name = translate("Applies: scope of your decision on {subject}", { subject });
  const scope = /** @type {HTMLSelectElement} */ (element("select", "af-input", { "aria-label": name }));
  scope.append(...Object.entries(scopes).map(([value, label]) => new Option(label, value)));
  const label = element("label", "af-approval-scope");
  label.append(translate("Applies"), scope);
  return [label, scope];
}

/** The field for a note. @param {string} label @param {string} subject @returns {HTMLInputElement} */
function approvalNote(label, subject) {
  const attributes = { type: "text", "aria-label": translate("{label} about {subject}, optional", { label, subject }), autocomplete: "off" };
  const note = /** @type {HTMLInputElement} */ (element("input", "af-input af-approval-note", attributes));
  note.placeholder = translate("{label} (optional)", { label });
  return note;
}

class ApprovalControls {
  /** @param {ApprovalData} data @param {Perform} perform @param {HTMLElement} card */
  constructor(data, perform, card) {
    Object.assign(this, { data, perform, card });
    card.tabIndex = 0;
    card.setAttribute("role", "group");
    card.setAttribute("aria-label", translate("Request: {title}", { title: data.title }));
    APPROVAL_CONTROLS.set(card, this);
    this.root = element("fieldset", "af-approval-controls", { "aria-label": translate("Your decision: {title}", { title: data.title }) });
    this.status = element("p", "af-approval-status af-quiet", { "aria-live": "polite" });
    this.error = element("p", "af-field-error", { role: "alert" });
    this.choices = element("div", "af-approval-choices");
    const approve = this.allows("approved") ? this.makeButton(translate("Approve"), () => this.decide("approve")) : undefined;
    const deny = this.allows("denied") ? this.makeButton(translate("Deny"), () => this.decide("deny")) : undefined;
    approve?.classList.add("af-primary");
    this.choices.append(...[approve, deny].filter((button) => button !== undefined));
    /** Owner of the fields for note and scope: this card, or the bar below several cards. @type {{note: HTMLInputElement, scope: HTMLSelectElement}} */
    this.terms = this;
    /** True if the card can be decided together with other cards. */
    this.isPlain = Boolean(approve && deny);
    this.options = element("div", "af-approval-terms");
    this.options.append(this.makeScope(), this.makeNote());
    this.preview = new PreviewSize(card);
    this.root.append(this.preview.button, this.choices);
    if (data.fields.length && this.allows("edited")) this.addForm(data.edit, this.makeEdit(), { withOptions: true });
    if (data.answer && this.allows("instructed")) this.addForm(data.answer, this.makeAnswer(), { withOptions: false });
    this.root.append(this.options, this.error, this.status);
    handleDecisionKeys(card, { a: approve, d: deny });
  }

  /** Make the checkbox that includes the card in a decision on several cards. @param {() => void} onChange */
  makeCheckbox(onChange) {
    const name = translate("Include: {title}", { title: this.data.title });
    this.checkbox = /** @type {HTMLInputElement} */ (element("input", "af-check af-approval-check", { type: "checkbox", "aria-label": name }));
    this.checkbox.checked = true;
    this.checkbox.addEventListener("change", onChange);
    this.card.prepend(this.checkbox);
  }

  /** True if the request allows this choice, such as `approved`. @param {string} choice */
  allows(choice) {
    return !this.data.allowed.length || this.data.allowed.includes(choice);
  }

  /** A button with its subject in its accessible name, because several cards may be open. @param {string} label @param {() => void} act */
  makeButton(label, act) {
    const button = plainButton(label, act);
    const { subject } = this.data;
    const isNamed = label.toLowerCase().includes(subject); // the label names the subject, as in `Edit the plan`
    button.setAttribute("aria-label", isNamed ? label : translate("{label} {subject}", { label, subject }));
    return button;
  }

  makeScope() {
    const [label, scope] = approvalScope(this.data.subject, this.data.hosts.length ? HOST_SCOPES : APPROVAL_SCOPES);
    this.scope = scope;
    return label;
  }

  makeNote() {
    this.note = approvalNote(this.data.note, this.data.subject);
    return this.note;
  }

  makeEdit() {
    const { subject, submit, edit } = this.data;
    const fields = this.data.fields.map((field) => ({ ...field, keep: true }));
    const spec = { fields, submit, act: "decide", label: translate("{label} of {subject}", { label: edit, subject }), cancel: translate("Back") };
    return makeForm(spec, (_act, { values }) => this.send("approve", this.note.value, values, this.scope.value), () => this.close());
  }

  makeAnswer() {
    const { subject, answer, answerField, answerSubmit } = this.data;
    const fields = [{ name: "note", kind: "multiline", value: "", label: answerField, rows: 2, keep: true }];
    const spec = { fields, submit: answerSubmit, act: "decide", label: translate("{label}: {subject}", { label: answer, subject }), cancel: translate("Back") };
    return makeForm(spec, (_act, { values }) => this.send("instruct", values.note, null, this.scope.value), () => this.close());
  }

  /** Add a hidden form, and a button that shows the form in place of the buttons. @param {string} label @param {HTMLElement} form @param {object} options */
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

  /** @param {"approve" | "deny"} choice */
  async decide(choice) {
    const focused = /** @type {HTMLElement} */ (focusedElement());
    this.error.textContent = "";
    const { note, scope } = this.terms;
    const result = await this.send(choice, note.value, null, scope.value);
    if (!result.failed) return;
    this.error.textContent = result.message;
    if (this.root.contains(focused) && focusedElement() === this.card) focused.focus();
  }

  /**
   * @param {"approve" | "deny" | "instruct"} choice @param {string} note
   * @param {{[name: string]: any} | null} params @param {string} scope @returns {Promise<ActionResult>}
   */
  async send(choice, note, params, scope) {
    this.root.dataset.decided = "yes";
    // First move the focus, which a disabled control loses.
    if (this.card.contains(focusedElement())) focusNextCard(this.card);
    this.root.disabled = true;
    this.status.textContent = translate("Waiting for the kernel …");
    const { request } = this.data;
    const result = await this.perform("decide", { request, choice, note, scope, params });
    this.root.disabled = !result.failed;
    if (result.failed) delete this.root.dataset.decided;
    this.status.textContent = result.failed ? "" : result.message || `${APPROVAL_RESULTS[choice]} ${translate("The run continues once the work in progress and the other decisions are done.")}`;
    return result;
  }
}

/** @param {ApprovalData} data @param {Perform} perform @param {HTMLElement} card @returns {HTMLElement} */
function makeApprovalControls(data, perform, card) {
  return new ApprovalControls(data, perform, card).root;
}
