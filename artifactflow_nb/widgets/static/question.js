/**
 * Controls of a card that asks the person. Uses form.js, approval.js and focus.js.
 */

/**
 * Controls of a question: a button for each choice, a field for any other answer, and a button to go on without an answer.
 *
 * @param {{request: string, title: string, choices: string[]}} data @param {Perform} perform
 * @param {HTMLElement} card @returns {HTMLElement}
 */
function makeQuestionControls(data, perform, card) {
  const { request, title, choices } = data;
  const root = element("fieldset", "af-approval-controls", { "aria-label": translate("Your answer: {title}", { title }) });
  const status = element("p", "af-approval-status af-quiet", { "aria-live": "polite" });
  const error = element("p", "af-field-error", { role: "alert" });

  /** @param {"instruct" | "deny"} choice @param {string} note @returns {Promise<ActionResult>} */
  async function send(choice, note) {
    const focused = /** @type {HTMLElement} */ (focusedElement());
    root.dataset.decided = "yes";
    if (card.contains(focused)) focusNextCard(card); // first, because a disabled control loses the focus
    root.disabled = true;
    error.textContent = "";
    status.textContent = translate("Waiting for the kernel …");
    const result = await perform("decide", { request, choice, note });
    root.disabled = !result.failed;
    if (result.failed) delete root.dataset.decided;
    status.textContent = result.failed ? "" : result.message || (choice === "deny" ? translate("Left open.") : APPROVAL_RESULTS[choice]);
    if (result.failed && root.contains(focused) && focusedElement() === card) focused.focus();
    return result;
  }

  /** Send the decision of a button, and display an error. @param {"instruct" | "deny"} choice @param {string} note */
  async function press(choice, note) {
    const result = await send(choice, note);
    if (result.failed) error.textContent = result.message;
  }

  const buttons = element("div", "af-approval-choices");
  buttons.append(...choices.map((choice) => plainButton(choice, () => press("instruct", choice))));
  const label = translate(choices.length ? "Another answer" : "Your answer");
  const fields = [{ name: "note", kind: "text", value: "", label, keep: true }];
  const spec = { fields, submit: translate("Send answer"), act: "decide", label: translate("Your answer: {title}", { title }) };
  const form = makeForm(spec, (_act, { values }) => send("instruct", values.note));
  // This is not the form's cancel button, because Escape would press the button and leave the question open for good.
  form.querySelector(".af-form-buttons").append(plainButton(translate("Go on without an answer"), () => press("deny", "")));
  root.append(...(choices.length ? [buttons] : []), form, error, status);
  root.dataset.lmSuppressShortcuts = "true"; // keep JupyterLab from handling the keys of the card
  root.addEventListener("keydown", (event) => event.stopPropagation());
  return root;
}
