/** The actions of a view that the kernel has not answered yet. */

/** The kernel confirms an action at once, unless it has no subshells and a cell runs. */
const BUSY_AFTER_MS = 1500;
const BUSY = translate("A cell is running: the kernel performs your action as soon as it is free.");
const ACTION_TIMEOUT_MS = 15_000;
const NO_ANSWER = translate("The kernel has not answered. It may be busy with a cell; your action is performed as soon as it is free.");

class Actions {
  /** @param {(action: object) => void} send @param {() => Mount[]} mounts show the notices */
  constructor(send, mounts) {
    this.send = send;
    this.mounts = mounts;
    this.lastId = 0;
    /** @type {Map<number, {resolve: (result: ActionResult) => void, timers: number[]}>} */
    this.pending = new Map();
  }

  /** @param {string} act @param {object} args @returns {Promise<ActionResult>} */
  perform(act, args) {
    const id = ++this.lastId;
    return new Promise((resolve) => {
      const show = (/** @type {string} */ text) => () => this.mounts().forEach((mount) => mount.showNotice(text));
      const timers = [setTimeout(show(BUSY), BUSY_AFTER_MS), setTimeout(show(NO_ANSWER), ACTION_TIMEOUT_MS)];
      this.pending.set(id, { resolve, timers });
      this.send({ type: "act", id, act, args });
    });
  }

  /** Note that the kernel has received an action. @param {number} id */
  confirm(id) {
    clearTimeout(this.pending.get(id)?.timers[0]);
    for (const mount of this.mounts()) mount.clearNotice(BUSY);
  }

  /** @param {number} id @param {ActionResult} result */
  resolve(id, result) {
    const action = this.pending.get(id);
    if (!action) return;
    this.confirm(id);
    clearTimeout(action.timers[1]);
    this.pending.delete(id);
    for (const mount of this.mounts()) mount.clearNotice(NO_ANSWER);
    action.resolve(result);
  }

  close() {
    for (const { timers } of this.pending.values()) timers.forEach(clearTimeout);
  }
}
