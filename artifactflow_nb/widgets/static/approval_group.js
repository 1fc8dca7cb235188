/**
 * The bar below several approval cards, with buttons that decide the cards at once. Uses approval.js and focus.js.
 */

/** Buttons that decide the cards with a checked checkbox; hidden for a single card. */
class ApprovalGroup {
  /** @param {HTMLElement} box contains the cards */
  constructor(box) {
    this.box = box;
    this.root = element("div", "af-approval-bar", { role: "group", "aria-label": translate("Your decision on several requests") });
    this.approve = plainButton("", () => this.decide("approve"));
    this.approve.classList.add("af-primary");
    this.deny = plainButton("", () => this.decide("deny"));
    const choices = element("div", "af-approval-choices");
    choices.append(this.approve, this.deny);
    const terms = element("div", "af-approval-terms");
    const [label, scope] = approvalScope(translate("several requests"), {});
    this.scope = scope;
    this.note = approvalNote(translate("Note to the agent"), translate("several requests"));
    terms.append(label, this.note);
    this.error = element("p", "af-field-error", { role: "alert" });
    this.root.append(choices, terms, this.error);
    handleDecisionKeys(this.root, { a: this.approve, d: this.deny });
    // form.css uses this height to scroll a focused element above the bar.
    new ResizeObserver(() => box.style.setProperty("--af-bar", `${this.root.offsetHeight}px`)).observe(this.root);
    this.observer = new MutationObserver(() => this.update());
    this.observer.observe(box, { childList: true, subtree: true });
    this.update();
  }

  /** The controls of the cards that can be decided together. @returns {ApprovalControls[]} */
  get cards() {
    const all = [...this.box.querySelectorAll(".af-approval")].map((card) => APPROVAL_CONTROLS.get(card));
    return all.filter((controls) => controls?.isPlain);
  }

  update() {
    const hadFocus = this.root.contains(focusedElement());
    const cards = this.cards;
    this.root.hidden = cards.length < 2;
    this.box.toggleAttribute("data-several", !this.root.hidden);
    for (const card of cards) {
      if (!card.checkbox) card.makeCheckbox(() => this.update());
      card.terms = this.root.hidden ? card : this;
    }
    this.setScopes(cards.every(({ data }) => data.hosts.length) ? HOST_SCOPES : APPROVAL_SCOPES);
    const n = cards.filter(({ checkbox }) => checkbox.checked).length;
    for (const [button, verb] of [[this.approve, translate("Approve")], [this.deny, translate("Deny")]]) {
      button.textContent = translate(n === cards.length ? "{verb} all {n}" : "{verb} {n} of {total}", { verb, n, total: cards.length });
      button.disabled = n === 0;
    }
    if (hadFocus && (this.root.hidden || n === 0) && !focusOpenCard(otherCards(this.root))) parkFocus(this.box);
    this.observer.takeRecords(); // discard the records of these changes
  }

  /** Offer these scopes, unless the select offers them already. @param {{[scope: string]: string}} scopes */
  setScopes(scopes) {
    if (this.scopes === scopes) return;
    this.scopes = scopes;
    this.scope.replaceChildren(...Object.entries(scopes).map(([value, label]) => new Option(label, value)));
  }

  /** @param {"approve" | "deny"} choice */
  async decide(choice) {
    this.error.textContent = "";
    const chosen = this.cards.filter(({ checkbox, root }) => checkbox.checked && !root.disabled);
    const results = await Promise.all(chosen.map((card) => card.send(choice, this.note.value, null, this.scope.value)));
    this.error.textContent = results.filter(({ failed }) => failed).map(({ message }) => message).join(" ");
  }
}

/** @param {HTMLElement} box @returns {HTMLElement} */
function makeApprovalGroup(box) {
  return new ApprovalGroup(box).root;
}
