"""Runs that can be cited: the crate, the methods, `CITATION.cff`; and secrets in none of the outlets."""

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.collector import collecting
from support.lake_runs import NOTE, QUESTION, READ, lake_run, write

import artifactflow_nb as af

OpenWorkbench = Callable[..., af.Workbench]

REPORT = f"# Depth\n\n{NOTE[:-1]} [1].\n\n## Sources\n\n1. Lake: Lake — local:papers/lake.md#lake\n"


@pytest.fixture
def run(workbench: OpenWorkbench, tmp_path: Path) -> tuple[af.Workbench, af.Run]:
    """A run that read a source, wrote a report after an approval, and had a budget."""
    return lake_run(workbench, tmp_path, REPORT, budget={"tokens": 90_000})


def graph(path: Path) -> dict[str, dict[str, Any]]:
    """The entities of a crate by id."""
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("ro-crate-metadata.json"))
    assert document["@context"] == "https://w3id.org/ro/crate/1.1/context"
    return {entity["@id"]: entity for entity in document["@graph"]}


def listed(value: Any) -> list[str]:
    return [each["@id"] for each in (value if isinstance(value, list) else [value])]


def test_crate_has_what_its_metadata_lists(run: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """Each file of the crate is an entity with its size and hash, and each reference leads to an entity."""
    wb, ended = run
    path = wb.crate.write(ended, tmp_path / "run.crate.zip", authors=["Ada Lovelace"])
    entities = graph(path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name != "ro-crate-metadata.json"}
    assert {"question.md", "answer.md", "artifacts/report.md", "claims.json", "methods.txt", "run.afrun"} < files.keys()
    assert set(listed(entities["./"]["hasPart"])) == files.keys()
    for name, content in files.items():
        assert entities[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert entities[name]["contentSize"] == str(len(content))
    references = [
        each["@id"]
        for entity in entities.values()
        for value in entity.values()
        for each in (value if isinstance(value, list) else [value])
        if isinstance(each, dict)
    ]
    assert [reference for reference in references if reference not in entities and "w3id.org" not in reference] == []
    assert [claim["status"] for claim in json.loads(files["claims.json"])] == ["supported"]


def test_crate_conforms_to_process_run_crate(run: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """The profile requires that the root names the profile, and each action an application and times."""
    wb, ended = run
    entities = graph(wb.crate.write(ended, tmp_path / "run.crate.zip"))
    root = entities["./"]
    assert listed(root["conformsTo"]) == ["https://w3id.org/ro/wfrun/process/0.5"]
    actions = [entity for entity in entities.values() if entity["@type"] == "CreateAction"]
    assert {f"#{ended.run_id}", f"#{ended.run_id}-lead_agent", f"#{ended.run_id}-crawl_agent"} == {
        action["@id"] for action in actions
    } == set(listed(root["mentions"]))  # fmt: skip
    for action in actions:
        assert entities[listed(action["instrument"])[0]]["@type"] == "SoftwareApplication"
        assert action["startTime"] <= action["endTime"]
    [main] = [action for action in actions if action["@id"] == f"#{ended.run_id}"]
    assert main["actionStatus"] == "http://schema.org/CompletedActionStatus"
    [source] = [entities[each] for each in listed(main["object"]) if each.startswith("#source")]
    assert source["identifier"] == "local:papers/lake.md#lake"


def test_similar_names_have_paths_and_entities_of_their_own(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Names that differ in a character or in case are different files and entities; the last version counts."""
    ids = ["a.b", "a_b", "A_B", "a b", "a/b"]
    writes = [af.ToolCall("create_artifact", {"id": each, "title": each, "content": f"Text {each}"}) for each in ids]
    rewrite = af.ToolCall("rewrite_artifact", {"id": "a_b", "content": "New text"})
    config = {"lead_agent": {"model": "a/b", "max_tool_rounds": 20}, "crawl_agent": {"model": "a-b"}}
    turns = [*READ, NOTE, *writes, rewrite, "Done."]
    wb = workbench(turns, interactive=False, approvals="approve", graph_config=config)
    ended = wb.ask("Write.").wait()
    assert ended.status == "completed"
    path = wb.crate.write(ended, tmp_path / "run.crate.zip")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("artifacts/")]
        assert len({name.lower() for name in names}) == len(names)
        assert {archive.read(name).decode() for name in names} == {f"Text {each}" for each in ids if each != "a_b"} | {
            "New text"
        }
    models = [entity["name"] for entity in graph(path).values() if ":model:" in entity["@id"]]
    assert sorted(models) == ["a-b", "a/b"]


def test_sealed_run_gives_the_same_crate(run: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """A second crate is the same, too, and the sealed run in the crate opens."""
    wb, ended = run
    first = wb.crate.write(ended, tmp_path / "1.zip").read_bytes()
    assert wb.crate.write(ended.run_id[:12], tmp_path / "2.zip").read_bytes() == first
    with af.open_run(ended.seal(tmp_path / "run.afrun")) as sealed:
        assert sealed.crate.write(sealed, tmp_path / "3.zip").read_bytes() == first
        assert sealed.crate.methods(sealed) == wb.crate.methods(ended)
        assert sealed.crate.citation(sealed) == wb.crate.citation(ended)
    with zipfile.ZipFile(tmp_path / "1.zip") as archive:
        archive.extract("run.afrun", tmp_path / "out")
    with af.open_run(tmp_path / "out" / "run.afrun") as sealed:
        assert sealed.response == ended.response
    with pytest.raises(af.errors.UsageError, match="There is a file"):
        wb.crate.write(ended, tmp_path / "1.zip")


def test_methods_have_the_figures_of_the_rows(run: tuple[af.Workbench, af.Run]) -> None:
    wb, ended = run
    text = wb.crate.methods(ended)
    calls = wb.llm_calls_df(ended)
    start, end = ended.started_at, ended.completed_at
    assert end is not None
    n_input, n_output = calls["input_tokens"].sum(), calls["output_tokens"].sum()
    assert text == (
        f"On {start.day} {start:%B %Y} ({start:%H:%M} to {end:%H:%M} UTC), the question “{QUESTION}” was put to "
        f"ArtifactFlow NB {af.__version__} and was worked on in the flow research (run {ended.run_id}). "
        "The work was done by crawl_agent and lead_agent with scripted (scripted, 5 calls). "
        "The sampling temperature was 0.3 and 0.7. The agents read 1 document of the person. "
        "Persons decided 1 request (1 approved). "
        f"The models took {n_input:,} tokens and wrote {n_output:,}. "
        "The cost was unknown, since 5 calls had no known price. The budget was 90,000 tokens. "
        "Claims were checked against the sources 1 time (1 supported)."
    )


def test_methods_say_what_was_not_found(workbench: OpenWorkbench) -> None:
    """A search without a result, a denied request and a failed run have sentences."""
    turns = [
        af.ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": "Find otters."}),
        af.ToolCall("web_search", {"query": "xyzzyplugh"}),
        "Nothing.",
        af.errors.ModelRejected("No."),
    ]
    wb = workbench(turns, interactive=False)
    text = wb.crate.methods(wb.ask("Where do otters sleep?").wait())
    assert "One search (provider: local) returned 0 results. Nothing was found for “xyzzyplugh”." in text
    assert "1 call of a model failed." in text
    assert text.endswith("The run ended as failed.")


PRICE = {"input": 1, "output": 2}


@pytest.mark.parametrize(
    ("prices", "n_unpriced", "sentence"),
    [
        ({"scripted": PRICE, "large": PRICE}, None, "The cost was {cost:.4f} US dollars."),
        ({"scripted": PRICE}, 2, "The cost was at least {cost:.4f} US dollars, since 2 calls had no known price."),
        ({}, 5, "The cost was unknown, since 5 calls had no known price."),
    ],
)
def test_cost_with_an_unknown_price_is_no_sum(
    workbench: OpenWorkbench, tmp_path: Path, prices: dict[str, Any], n_unpriced: int | None, sentence: str
) -> None:
    """Known prices give only a lower bound, in the methods; the trace of the run counts the calls without a price."""
    config = {"crawl_agent": {"model": "large"}}
    wb, ended = lake_run(workbench, tmp_path, prices=prices, graph_config=config)
    cost = wb.llm_calls_df(ended)["cost_usd"].sum()
    assert sentence.format(cost=cost) in wb.crate.methods(ended)
    [root] = [span for span in wb.otel.traces(ended)[0].spans if span.operation == "invoke_workflow"]
    assert root.facts["unpriced_calls"] == n_unpriced
    assert root.facts["cost_usd"] == (None if n_unpriced else pytest.approx(cost))


def test_citation_has_the_fields_that_the_format_requires(run: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """The fields are `authors`, `cff-version`, `message` and `title`; the hash is the hash of the sealed file."""
    wb, ended = run
    entry = yaml.safe_load(wb.crate.citation(ended, authors=["Ada Lovelace", "A: B #c"]))
    assert entry["cff-version"] == "1.2.0"
    assert entry["authors"] == [{"name": "Ada Lovelace"}, {"name": "A: B #c"}]
    assert (entry["title"], entry["type"], entry["version"]) == (QUESTION, "dataset", ended.run_id)
    digest = hashlib.sha256(ended.seal(tmp_path / "run.afrun").read_bytes()).hexdigest()
    assert entry["identifiers"][0]["value"] == f"sha256:{digest}"


def test_run_that_has_not_ended_is_refused(workbench: OpenWorkbench, tmp_path: Path) -> None:
    wb = workbench([write(REPORT), "Done."], interactive=False, approvals={"create_artifact": "ask"})
    waiting = wb.ask("Write.").wait()
    for export in (wb.crate.methods, wb.crate.citation, lambda each: wb.crate.write(each, tmp_path / "x.zip")):
        with pytest.raises(af.errors.Conflict, match="is waiting. Wait until the run has ended"):
            export(waiting)
    assert not (tmp_path / "x.zip").exists()
    waiting.approve().wait()


def test_missing_package_is_told_with_the_command(
    run: tuple[af.Workbench, af.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb, ended = run
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(af.errors.UsageError, match=r"pip install 'artifactflow-nb\[crate\]'"):
        wb.crate.write(ended, tmp_path / "x.zip")


KNOWN, SHAPED = "correct-horse-battery-5150", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def outlets(wb: af.Workbench, run: af.Run, folder: Path) -> dict[str, bytes]:
    """What each outlet writes about a run."""
    with zipfile.ZipFile(wb.crate.write(run, folder / "run.crate.zip")) as archive:
        found = {f"crate/{name}": archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "run.crate.zip") as archive:
        archive.extract("run.afrun", folder)
    with zipfile.ZipFile(folder / "run.afrun") as archive:
        found |= {f"sealed/{name}": archive.read(name) for name in archive.namelist()}
    for form in (wb.crate.latex, wb.crate.quarto):
        form(run.artifacts["report"], folder / "paper", replace=True)
    found |= {f"paper/{path.name}": path.read_bytes() for path in (folder / "paper").iterdir()}
    found["methods"] = wb.crate.methods(run).encode()
    found["citation"] = wb.crate.citation(run).encode()
    for dialect in ("genai", "openinference"):
        for content in (False, True):
            with collecting() as collector:
                wb.otel.send(run, to=collector.url, dialect=dialect, content=content)  # type: ignore[arg-type]
            found[f"traces/{dialect}/{content}"] = collector.bodies[0]
    return found


def test_no_outlet_has_a_secret(workbench: OpenWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question, arguments, results and a report have a secret of the environment and a text that looks like a key."""
    monkeypatch.setenv("LAKE_API_KEY", KNOWN)
    text = f"The keys are {KNOWN} and {SHAPED}, found in the lake."
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "lake.md").write_text(f"# Lake\n\n{text}", encoding="utf-8")
    report = af.ToolCall("create_artifact", {"id": "report", "title": f"Keys {SHAPED}", "content": f"# Keys\n\n{text}"})
    turns = [*READ, text, report, text]
    wb = workbench(turns, interactive=False, approvals="approve")
    wb.sources.add(papers)
    ended = wb.ask(f"Are {KNOWN} and {SHAPED} keys?").wait()
    assert ended.status == "completed"
    found = outlets(wb, ended, tmp_path)
    assert len(found) > 15
    assert b"found in the lake" in found["traces/genai/True"]
    assert b"found in the lake" in found["crate/answer.md"]
    assert b"found in the lake" in found["paper/report.tex"]
    for name, content in found.items():
        for secret in (KNOWN, SHAPED):
            assert secret.encode() not in content, name


def test_key_of_a_citation_has_no_secret(
    workbench: OpenWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys have a word of a title; the secret was unknown when the run was stored."""
    secret = "hunter2abcdef9"  # noqa: S105 - of this test only
    text = f"Deep [1].\n\n## Sources\n\n1. {secret} page \u2014 https://lake.example/\n"
    report = af.ToolCall("create_artifact", {"id": "report", "title": "Lakes", "content": text})
    wb = workbench([report, "Written."], interactive=False, approvals="approve")
    ended = wb.ask("How deep?").wait()
    monkeypatch.setenv("LAKE_PASSWORD", secret)
    for name, content in outlets(wb, ended, tmp_path).items():
        assert secret.encode() not in content, name
    assert "\\cite{secret}" in (tmp_path / "paper" / "report.tex").read_text(encoding="utf-8")
    assert "@misc{secret," in (tmp_path / "paper" / "references.bib").read_text(encoding="utf-8")
