"""axe-core in the page: what a person who cannot see or point would stumble over.

It is installed from the lock file beside this one (`npm ci`), as `make test` does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from browser.lab import LabPage

SCRIPT = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
_SERIOUS = ("serious", "critical")
_EXCUSED = ("label-content-name-mismatch", 'role="treeitem"')
"""A rule, and whom it does not concern: a node of the tree says its question whole, where the drawing cuts it short."""
OF_COLOUR = ["color-contrast", "link-in-text-block"]
"""The rules that a theme can break: it changes colours, and nothing of what is there."""
_RUN = """async ([selector, rules]) => {
    const seen = () => [...document.querySelectorAll(selector)].filter((root) => root.checkVisibility());
    let roots = seen();
    // For a moment there is nothing, where JupyterLab draws an output anew.
    for (const until = performance.now() + 5000; !roots.length && performance.now() < until; roots = seen()) {
        await new Promise((done) => setTimeout(done, 50));
    }
    if (!roots.length) throw new Error(`Nothing that ${selector} names can be seen.`);
    // axe judges what lies below the window by what lies behind the window's lower edge.
    roots[0].scrollIntoView();
    await new Promise(requestAnimationFrame);
    // Within the clipping panels of JupyterLab axe takes nothing for visible, and would look at no contrast. While they
    // do not clip, other panels may lie behind a view: it keeps the ground that it is seen on.
    const above = new Set(roots);
    const grounds = roots.map((root) => {
        let node = root;
        while (node.parentElement && getComputedStyle(node).backgroundColor.endsWith(", 0)")) node = node.parentElement;
        return getComputedStyle(node).backgroundColor;
    });
    for (const root of roots) {
        for (let node = root.parentElement; node; node = node.parentElement) above.add(node);
    }
    const before = [...above].map((node) => [node, node.style.cssText]);
    before.forEach(([node]) => node.style.setProperty("overflow", "visible", "important"));
    roots.forEach((root, i) => root.style.setProperty("background-color", grounds[i], "important"));
    const found = await axe.run({ include: roots }, { resultTypes: ["violations"], ...rules }).finally(() => {
        before.forEach(([node, style]) => { node.style.cssText = style; });
    });
    return found.violations.map(({ id, impact, help, nodes }) => ({
        id, impact, help, nodes: nodes.map((node) => `${node.html.slice(0, 300)} | ${node.failureSummary}`),
    }));
}"""

_SETTLED = """async () => {
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    return !document.getAnimations().some((animation) => animation instanceof CSSTransition);
}"""
"""No colour fades from one theme to the other; a fade starts with the frame after the switch."""


def axe(page: LabPage, selector: str = ".af-run", rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The violations of serious or critical impact within the visible elements of a selector, of these rules or of all.

    Each has `id` (the rule), `impact`, `help` and `nodes` (what violates it, and why). A selector that names nothing
    visible is an error.
    """
    if page.page.evaluate("typeof window.axe") == "undefined":
        page.page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.page.evaluate(_RUN, [selector, {"runOnly": list(rules)} if rules else {}])
    rule, whom = _EXCUSED
    for violation in found:
        if violation["id"] == rule:
            violation["nodes"] = [node for node in violation["nodes"] if whom not in node]
    return [violation for violation in found if violation["impact"] in _SERIOUS and violation["nodes"]]


def axe_in_both_themes(page: LabPage, selector: str = ".af-run") -> list[str]:
    """The same for the theme of the page and then for the other one, in which it stays; a line each.

    What has nothing to do with colours is looked at once.
    """
    first, second = ("light", "dark") if page.is_light() else ("dark", "light")
    lines = []
    for name, rules in ((first, []), (second, OF_COLOUR)):
        page.theme(light=name == "light")
        page.page.wait_for_function(_SETTLED)
        lines += [f"{name}: {found['id']}: {node}" for found in axe(page, selector, rules) for node in found["nodes"]]
    return lines
