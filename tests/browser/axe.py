"""Accessibility checks with axe-core, which `make test` installs from the lock file of this folder (`npm ci`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from browser.lab import LabPage
from playwright.sync_api import Frame, Page

SCRIPT = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
"""The rules that depend on the theme."""
_RUN = """async ([selector, rules]) => {
    const within = (root) => [...root.querySelectorAll("*")].flatMap((node) => [
        ...(node.matches(selector) ? [node] : []), ...(node.shadowRoot ? within(node.shadowRoot) : []),
    ]);
    const visible = () => within(document).filter((root) => root.checkVisibility());
    let roots = visible();
    // While JupyterLab replaces an output, there is nothing for a moment.
    for (const until = performance.now() + 5000; !roots.length && performance.now() < until; roots = visible()) {
        await new Promise((done) => setTimeout(done, 50));
    }
    if (!roots.length) throw new Error(`No visible element matches ${selector}.`);
    // For elements below the window, axe takes the background at the lower edge of the window.
    roots[0].scrollIntoView();
    await new Promise(requestAnimationFrame);
    // axe ignores the contrast of elements within JupyterLab's clipping panels, so they must not clip. Other panels may
    // then lie behind a view, so it keeps its visible background.
    const parent = (node) => node.parentElement ?? node.getRootNode().host;
    const ancestors = new Set(roots);
    const backgrounds = roots.map((root) => {
        let node = root;
        while (parent(node) && getComputedStyle(node).backgroundColor.endsWith(", 0)")) node = parent(node);
        return getComputedStyle(node).backgroundColor;
    });
    for (const root of roots) {
        for (let node = parent(root); node; node = parent(node)) ancestors.add(node);
    }
    const before = [...ancestors].map((node) => [node, node.style.cssText]);
    before.forEach(([node]) => node.style.setProperty("overflow", "visible", "important"));
    roots.forEach((root, i) => root.style.setProperty("background-color", backgrounds[i], "important"));
    const result = await axe.run({ include: roots }, { resultTypes: ["violations"], ...rules }).finally(() => {
        before.forEach(([node, style]) => { node.style.cssText = style; });
    });
    return result.violations.map(({ id, impact, help, nodes }) => ({
        id, impact, help, nodes: nodes.map((node) => `${node.html.slice(0, 300)} | ${node.failureSummary}`),
    }));
}"""

_SETTLED = """async () => {
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    return !document.getAnimations().some((animation) => animation instanceof CSSTransition);
}"""
"""True once no colour fades from one theme to the other; a fade starts in the frame after the switch."""


def axe(page: Page, selector: str = ".af-run", rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return violations of the rules (default: all) within the visible elements of a selector, also in shadow roots.

    A violation has `id` (the rule), `impact`, `help` and `nodes` (elements with the reason). A selector without a
    visible element is an error.
    """
    _load(page)
    violations: list[dict[str, Any]] = page.evaluate(_RUN, [selector, {"runOnly": list(rules)} if rules else {}])
    return violations


def axe_in_page(page: Page | Frame) -> list[str]:
    """Violations of all rules in a whole page or frame of the product, a line for each element."""
    _load(page)
    return lines(page.evaluate("async () => (await axe.run(document)).violations"))


def lines(violations: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each element of the violations."""
    return [f"{violation['id']}: {str(node)[:600]}" for violation in violations for node in violation["nodes"]]


def _load(page: Page | Frame) -> None:
    if page.evaluate("typeof window.axe") == "undefined":
        page.evaluate(SCRIPT.read_text(encoding="utf-8"))


def axe_in_both_themes(page: LabPage, selector: str = ".af-run") -> list[str]:
    """Return violations in the current and then in the other theme, which stays active; one line each.

    Rules that do not depend on colours are checked once.
    """
    first, second = ("light", "dark") if page.is_light() else ("dark", "light")
    found = []
    for name, rules in ((first, []), (second, COLOUR_RULES)):
        page.theme(light=name == "light")
        page.page.wait_for_function(_SETTLED)
        found += [f"{name}: {line}" for line in lines(axe(page.page, selector, rules))]
    return found
