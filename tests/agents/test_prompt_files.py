"""The packaged prompt files: their headers, and that they can be rendered."""

from pathlib import Path
from string import Template

import pytest

from artifactflow_nb.agents import prompts
from artifactflow_nb.agents.prompts import HEADER, PromptLibrary
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS
from artifactflow_nb.plugins.projects.spec import COMPOSE_FLOW

FILES = sorted(Path(prompts.__file__).parent.glob("*.md"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prompt_renders_with_the_variables_of_its_header(path: Path) -> None:
    """The header names exactly the placeholders of the text, and a model sees neither header nor placeholder."""
    text = path.read_text(encoding="utf-8")
    header = HEADER.match(text)
    assert header is not None
    assert header["agent"].startswith(("the ", "every "))
    variables = [name.strip() for name in header["variables"].split(",") if name.strip()]
    assert sorted(variables) == sorted(Template(text).get_identifiers())
    rendered = PromptLibrary().render(path.stem, **{name: f"value of {name}" for name in variables})
    assert rendered.startswith("<")
    assert "$" not in rendered
    assert all(f"value of {name}" in rendered for name in variables)


def test_every_agent_has_a_prompt_file_and_every_file_an_agent() -> None:
    """Each packaged prompt file belongs to an agent."""
    configs = [agent.config for flow in (*BUILT_IN_FLOWS.values(), COMPOSE_FLOW) for agent in flow.agents]
    used = {config.prompt or config.name for config in configs}
    others = {"agent_without_plans", "passage_scorer", "query_rewriter", "reviewer", "tools", "tools_native"}
    assert {path.stem for path in FILES} == used | others


def test_header_of_a_persons_own_file_is_left_out(tmp_path: Path) -> None:
    """A copy of a packaged file can be edited with its header; a text that only starts with a rule stays whole."""
    (tmp_path / "lead_agent.md").write_text("---\nfor: my lead\nvariables:\n---\nBe brief.", encoding="utf-8")
    (tmp_path / "search_agent.md").write_text("---\nBe quick.", encoding="utf-8")
    library = PromptLibrary(tmp_path)
    assert library.render("lead_agent") == "Be brief."
    assert library.render("search_agent") == "---\nBe quick."
