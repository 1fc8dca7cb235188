"""The manifest of a run names versions and hashes of its inputs, and contains no secret."""

import asyncio
import hashlib
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.engine.manifest import versions
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.report import manifest_changes
from artifactflow_nb.store.database import connect

PROMPT = "<agent_role>You are the lead agent. There are $max_tool_rounds rounds.</agent_role>"


def open_workbench(folder: Path, *turns: str, **options: Any) -> af.Workbench:
    model = {} if "base_url" in options or "replay" in options else {"model": ScriptedModel(turns or ["Yes."])}
    store = {} if "replay" in options else {"data_dir": folder / "data"}
    return af.Workbench(interactive=False, **model, **store, **options)


def look(wb: af.Workbench, doc: str = "Look a word up.", *, name: str = "look", agent: str | None = None) -> None:
    """Register a tool whose description is `doc`."""

    def handler(ctx: af.ToolContext, word: str) -> str:
        return word

    handler.__doc__ = doc
    wb.tool(handler, name=name, agent=agent)


def test_manifest_has_versions_agents_prompts_tools_and_sources(tmp_path: Path) -> None:
    """Models and temperatures are part of the agents."""
    with open_workbench(tmp_path, "One.", "Two.", temperature=0.25) as wb:
        run = wb.ask("Who?").wait(20)
        found = run.manifest
        other = wb.ask("And?", model="scripted").wait(20).manifest
    assert found["versions"] == dict(versions())
    assert set(found["versions"]) == {"artifactflow-nb", "langgraph", "openai", "pydantic", "python"}
    assert (found["flow"], found["mode"], found["search"]) == ("research", "live", "local")
    assert set(found["agents"]) == {"lead_agent", "search_agent", "crawl_agent"}
    assert found["agents"]["search_agent"] == {
        "model": "scripted",
        "provider": "scripted",
        "temperature": 0.25,
        "tool_protocol": "xml",
        "max_tool_rounds": 3,
        "prompt": "search_agent",
        "introduction": found["agents"]["search_agent"]["introduction"],
        "tools": ["web_search"],
    }
    assert set(found["tools"]) >= {"web_search", "web_fetch", "create_artifact", "call_subagent"}
    assert set(found["prompts"]) == {"lead_agent", "search_agent", "crawl_agent", "tools"}
    assert list(found["sources"]) == ["python-reference"]
    assert "seeds" not in found
    assert other == found


def test_prompt_has_the_hash_of_its_file(tmp_path: Path) -> None:
    """A user's own prompt does not change the hashes of other prompts."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "lead_agent.md").write_text(PROMPT)
    with open_workbench(tmp_path / "own", prompts=tmp_path / "prompts") as wb:
        own = wb.ask("Who?").wait(20).manifest["prompts"]
    with open_workbench(tmp_path) as wb:
        packaged = wb.ask("Who?").wait(20).manifest["prompts"]
    assert own["lead_agent"] == {"sha256": hashlib.sha256(PROMPT.encode()).hexdigest()[:16]}
    assert [name for name in packaged if packaged[name] != own[name]] == ["lead_agent"]


def test_tool_with_another_description_has_another_hash(tmp_path: Path) -> None:
    """The same tool defined again has the same hash."""
    with open_workbench(tmp_path, *["Yes."] * 3) as wb:
        found = []
        for doc in ("Look a word up.", "Look a word up.", "Look a word up, twice."):
            look(wb, doc)
            found.append(wb.ask("Who?").wait(20).manifest)
    first, again, changed = (manifest["tools"]["look"] for manifest in found)
    assert first == again != changed
    assert found[0]["agents"]["lead_agent"]["tools"][-1] == "look"
    assert manifest_changes(found[0], found[2], {"lead_agent"}) == ["tool look"]


def test_changed_source_has_another_hash(tmp_path: Path) -> None:
    """The hash of a folder depends on the contents of its files only, not on its path or the time of indexing."""
    found = []
    for name, text in (("a", "Shoes."), ("b", "Shoes."), ("c", "Hats.")):
        notes = tmp_path / name / "notes"
        notes.mkdir(parents=True)
        (notes / "one.md").write_text("# One\n\nThe hall.\n")
        (notes / "two.md").write_text(f"# Two\n\n{text}\n")
        with open_workbench(tmp_path / name, "One.", "Two.") as wb:
            wb.sources.add(notes)
            found.append(wb.ask("Who?").wait(20).manifest["sources"])
            if name == "b":
                (notes / "two.md").write_text("# Two\n\nHats.\n")
                found.append(wb.ask("Who?").wait(20).manifest["sources"])
    here, there, edited, other = found
    assert list(here) == ["notes/"]
    assert here == there != edited == other


def test_manifest_names_the_host_of_the_endpoint_and_no_secret(tmp_path: Path) -> None:
    """Key, user, password and query of the address are not in the manifest."""
    with ChatServer([Answer("Yes.")]) as server:
        host = server.base_url.split("/")[2]
        address = f"http://somebody:hunter2-pass@{host}/v1?key=query-secret-1"
        with open_workbench(tmp_path, base_url=address, api_key="sk-very-secret-0123456789", model="m") as wb:
            run = wb.ask("Who?").wait(20)
            stored = wb.runs_df(run, columns="replay")["manifest_json"].iloc[0]
    assert run.status == "completed"
    assert orjson.loads(stored)["agents"]["lead_agent"]["endpoint"] == host
    assert not [word for word in ("sk-very", "hunter2", "somebody", "query-secret") if word in stored]


def test_runs_df_has_the_manifest_as_json(tmp_path: Path) -> None:
    """The column belongs to the group `replay`; it is empty for a run of a release without manifests."""
    with open_workbench(tmp_path, "One.", "Two.") as wb:
        run, old = wb.ask("Who?").wait(20), wb.ask("And?").wait(20)
        with closing(connect(wb._store)) as db:
            db.execute("UPDATE runs SET manifest_json = '{}' WHERE run_id = ?", (old.run_id,))
        frame = wb.runs_df(columns="replay").set_index("run_id")["manifest_json"]
        assert orjson.loads(frame[run.run_id]) == run.manifest
        assert old.manifest == {}


def test_replay_has_the_manifest_of_its_recording(tmp_path: Path) -> None:
    """Frames do not depend on the installed releases; `repro` lists what changed."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, record=cassette) as wb:
        run = wb.ask("Who?").wait(20)
        assert run.manifest["mode"] == "record"
        version = run.manifest["versions"]["artifactflow-nb"]
    cassette.write_text(cassette.read_text().replace(f'"artifactflow-nb":"{version}"', '"artifactflow-nb":"0.0.1"'))
    af.accept_cassette(cassette)
    with open_workbench(tmp_path, replay=cassette) as wb:
        run = wb.ask("Who?").wait(20)
        assert run.manifest["versions"]["artifactflow-nb"] == "0.0.1"
        assert wb.repro().runs[0].changes == (f"artifactflow-nb 0.0.1 → {version}",)


def test_tool_with_a_secret_name_keeps_its_hash(tmp_path: Path) -> None:
    """The tool is named after a secret; a cassette has its hash all the same."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, record=cassette) as wb:
        look(wb, name="read_password")
        recorded = wb.ask("Who?").wait(20).manifest
    with open_workbench(tmp_path, replay=cassette) as wb:
        look(wb, name="read_password")
        assert wb.ask("Who?").wait(20).manifest == recorded
        assert wb.repro().runs[0].changes == ()


def test_manifest_takes_less_than_0_2_ms(tmp_path: Path) -> None:
    """Making and storing a manifest takes this CPU time, after the first run of a workbench."""
    with open_workbench(tmp_path) as wb:
        wb.ask("Who?").wait(20)
        engine = wb._thread.engine

        async def measured() -> float:
            start = time.process_time()
            for _ in range(100):
                manifest = await engine.manifest("research", None)
                orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)
            return (time.process_time() - start) * 10

        assert min(wb._thread.call(measured()) for _ in range(3)) < 0.2


def test_concurrent_runs_have_separate_manifests(tmp_path: Path) -> None:
    """Each manifest has the model of its own run."""

    async def ask(engine: af.engine.Engine, model: str) -> str:
        run = await engine.controller.begin("Who?", model=model)
        return str(run.run_id)

    with (
        ChatServer(lambda _request: Answer("Yes.")) as server,
        open_workbench(tmp_path, base_url=server.base_url, api_key="k", model="m") as wb,
    ):
        engine = wb._thread.engine

        async def all_of_them() -> list[str]:
            return await asyncio.gather(*(ask(engine, f"m{n}") for n in range(8)))

        agents_of_runs = [wb.run(run_id).manifest["agents"] for run_id in wb._thread.call(all_of_them())]
    assert [agents["crawl_agent"]["model"] for agents in agents_of_runs] == [f"m{n}" for n in range(8)]
