/**
 * Controls of a card that asks the person. Uses form.js, approval.js and focus.js.
 */

/**
 * Controls of a question: a button for each choice, a field for any other answer, and a button that leaves it open.
 *
 * @param {{request: string, title: string, choices: string[]}} data @param {Perform} perform
 * @param {HTMLElement} card @returns {HTMLElement}
 */
function makeQuestionControls(data, perform, card) {
  const { request, title, choices } = data;
  const root = dressedElement("fieldset", "af-approval-controls", { "aria-label": uiText("page_your_answer_to", { title }) });
  const status = dressedElement("p", "af-approval-status af-quiet", { "aria-live": "polite" });
  const error = dressedElement("p", "af-field-error", { role: "alert" });

  /** @param {"instruct" | "deny"} choice @param {string} note @returns {Promise<ActionResult>} */
  async function send(choice, note) {
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    root.dataset.decided = "yes";
    if (card.contains(focused)) moveFocusOn(card); // first, because a disabled control loses the focus
    root.disabled = true;
    error.textContent = "";
    status.textContent = uiText("page_waiting");
    const result = await perform("decide", { request, choice, note });
    root.disabled = !result.failed;
    if (result.failed) delete root.dataset.decided;
    status.textContent = result.failed ? "" : result.message || (choice === "deny" ? uiText("page_left_open") : APPROVAL_RESULTS[choice]);
    if (result.failed && root.contains(focused) && document.activeElement === card) focused.focus();
    return result;
  }

  /** Send what a button means, and display its failure. @param {"instruct" | "deny"} choice @param {string} note */
  async function press(choice, note) {
    const result = await send(choice, note);
    if (result.failed) error.textContent = result.message;
  }

  const buttons = element("div", "af-approval-choices");
  buttons.append(...choices.map((choice) => plainButton(choice, () => press("instruct", choice))));
  const label = uiText(choices.length ? "page_another_answer" : "page_your_answer");
  const fields = [{ name: "note", kind: "text", value: "", label, keep: true }];
  const spec = { fields, submit: uiText("page_send_answer"), act: "decide", label: uiText("page_your_answer_to", { title }) };
  const form = makeForm(spec, (_act, { values }) => send("instruct", values.note));
  // Not the form's cancel button: Escape would press it, and leave the question open for good.
  form.querySelector(".af-form-buttons").append(plainButton(uiText("page_go_on"), () => press("deny", "")));
  root.append(...(choices.length ? [buttons] : []), form, error, status);
  root.dataset.lmSuppressShortcuts = "true"; // keep JupyterLab from handling the keys of the card
  root.addEventListener("keydown", (event) => event.stopPropagation());
  return root;
}
