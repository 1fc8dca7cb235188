"""The front door: its three tables of public names are the same, and type checkers see each name."""

import ast
import operator
import re
from pathlib import Path
from types import ModuleType

import pytest

import artifactflow_nb as af
from artifactflow_nb import plugins
from artifactflow_nb.notebook.renamed import RENAMED

ROOT = Path(__file__).parents[2]
SOURCE = ast.parse(Path(af.__file__).read_text(encoding="utf-8"))
TYPED_API = ast.parse((Path(__file__).parents[1] / "typing" / "api.py").read_text(encoding="utf-8"))


def assigned(name: str) -> ast.expr:
    """The expression that the front door assigns to a name."""
    values = [
        node.value for node in SOURCE.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    assert len(values) == 1
    return values[0]


def checker_imports() -> dict[str, str]:
    """The modules of the names that are imported for type checkers."""
    (block,) = [node for node in SOURCE.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    names = {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}
    assert names.pop("*") == plugins.__name__
    return names


LAZY = {
    name: f"artifactflow_nb.{module}"
    for module, names in ast.literal_eval(assigned("_NAMES")).items()
    for name in names.split()
}


SUBMODULES = ast.literal_eval(assigned("_SUBMODULES"))


def test_all_is_a_literal_with_every_lazily_loaded_name() -> None:
    """`__all__` can be read without executing the module, and names each entry of the table once."""
    names = ast.literal_eval(assigned("__all__"))
    assert [*names, *plugins.__all__] == af.__all__
    assert sorted(plugins.__all__) == sorted(plugins.PUBLIC_NAMES)
    assert sorted(names) == sorted({"__version__", *SUBMODULES, *LAZY})


def test_checkers_and_the_lazy_table_find_each_name_in_the_same_module() -> None:
    assert checker_imports() == LAZY | {
        name: f"artifactflow_nb.{module.rpartition('.')[0]}".rstrip(".") for name, module in SUBMODULES.items()
    }


MODULES = LAZY | {name: f"artifactflow_nb.{module}" for name, module in plugins.PUBLIC_NAMES.items()}


@pytest.mark.parametrize("name", MODULES)
def test_public_name_resolves_to_the_object_of_its_module(name: str) -> None:
    value = getattr(af, name)
    assert (value.__name__ if isinstance(value, ModuleType) else value.__module__) == MODULES[name]


def test_typed_api_uses_every_public_name() -> None:
    """The module that mypy checks covers the whole front door with at least 60 asserted types."""
    attributes = [node for node in ast.walk(TYPED_API) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in attributes if ast.unparse(node.value) == "af"}
    assert set(af.__all__) - used == set()
    calls = [node for node in ast.walk(TYPED_API) if isinstance(node, ast.Call)]
    assert sum(ast.unparse(call.func) == "assert_type" for call in calls) >= 60


MEMBERS = {
    "af": "AgentConfig AgentModel Budget DebugMiddleware Decision Library NoAnswer OfflineModel OpenAIModel Price Rate "
    "Reviewer Run ScriptedModel Settings ToolCall ToolContext ToolResult Workbench __version__ accept_cassette adapt "
    "cassette_df check_notebook compare engine errors extend graders open_run plots testing tool trust_folder",
    "wb": "approvals_df artifact_panel artifacts artifacts_df ask chat claims claims_df close columns_df conversation "
    "conversations crate created_at data data_dir events_df flows forecast graph_config home is_open literature "
    "llm_calls_df messages_df metrics metrics_df models otel panel pending plan_steps_df projects query register_agent "
    "register_flow repro run runs runs_df settings sources sources_df store studies timeline tool tool_calls_df "
    "tree",
    "wb.sources": "add choose_ranking embed refresh search_df",
    "wb.store": "backup import_run path prune storage_df withdraw",
}
"""The front door, by object: whoever adds a name adds it here, or to a smaller object."""


@pytest.mark.parametrize("name", MEMBERS)
def test_front_door_has_these_names_each_with_a_sentence(name: str, tmp_path: Path) -> None:
    """The first line of a docstring is the sentence that `?` and the reference show."""
    with af.Workbench(model=af.ScriptedModel([]), data_dir=tmp_path, interactive=False) as wb:
        owner = operator.attrgetter(name.partition(".")[2])(wb) if "." in name else {"af": af, "wb": wb}[name]
        public = [each for each in dir(owner) if not each.startswith("_") or each == "__version__"]
        assert sorted(public) == sorted(MEMBERS[name].split())
        for member in public:
            described = getattr(type(owner), member, None) or getattr(owner, member)
            if callable(described) or isinstance(described, property | ModuleType):
                assert re.search(r"[.:]$", str(described.__doc__).strip().splitlines()[0]), f"{name}.{member}"


def test_renamed_members_lead_to_the_new_ones_with_a_warning(tmp_path: Path) -> None:
    """Each old name warns and works, and the table of CHANGELOG.md has all old names."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    with af.Workbench(model=af.ScriptedModel(["Yes.", "No."]), data_dir=tmp_path, interactive=False) as wb:
        for old, (new, _) in RENAMED.items():
            with pytest.warns(DeprecationWarning, match=re.escape(f"wb.{old} is called {new} now.")):
                assert callable(getattr(wb, old))
            assert f"`wb.{old}" in changes
        run = wb.ask("Is it so?").wait(10)
        with pytest.warns(DeprecationWarning, match="regenerate"):
            again = wb.regenerate(run).wait(10)  # type: ignore[attr-defined]
        assert again.response == "No."
        with pytest.warns(DeprecationWarning, match="delete"):
            wb.delete_conversation(run)  # type: ignore[attr-defined]
        assert len(wb.conversations()) == 0


@pytest.mark.parametrize(
    "name", [name for names in ast.literal_eval(assigned("_MOVED")).values() for name in names.split()]
)
def test_moved_name_is_the_object_of_its_module(name: str) -> None:
    [module] = [module for module, names in ast.literal_eval(assigned("_MOVED")).items() if name in names.split()]
    with pytest.warns(DeprecationWarning, match=rf"af\.{name} is called af\.{module}\.{name} now\."):
        assert getattr(af, name) is getattr(getattr(af, module), name)
    assert name not in dir(af)
