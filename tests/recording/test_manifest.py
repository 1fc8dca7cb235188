"""What a run is made with is kept with it, names what changed, and holds no secret."""

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


def bench(folder: Path, *turns: str, **options: Any) -> af.Workbench:
    model = {} if "base_url" in options or "replay" in options else {"model": ScriptedModel(turns or ["Yes."])}
    store = {} if "replay" in options else {"data_dir": folder / "data"}
    return af.Workbench(interactive=False, **model, **store, **options)


def look(wb: af.Workbench, doc: str = "Look a word up.", *, name: str = "look", agent: str | None = None) -> None:
    """Offer a tool; with another `doc` it is another tool."""

    def handler(ctx: af.ToolContext, word: str) -> str:
        return word

    handler.__doc__ = doc
    wb.tool(handler, name=name, agent=agent)


def test_a_run_keeps_versions_agents_prompts_tools_and_sources(tmp_path: Path) -> None:
    """The manifest says with which releases, models, temperatures, prompts, tools and sources a run was made."""
    with bench(tmp_path, "One.", "Two.", temperature=0.25) as wb:
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


def test_the_hash_of_a_prompt_is_that_of_its_file(tmp_path: Path) -> None:
    """A person can make the hash of a prompt again, and a prompt of one's own changes no other."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "lead_agent.md").write_text(PROMPT)
    with bench(tmp_path / "own", prompts=tmp_path / "prompts") as wb:
        own = wb.ask("Who?").wait(20).manifest["prompts"]
    with bench(tmp_path) as wb:
        packaged = wb.ask("Who?").wait(20).manifest["prompts"]
    assert own["lead_agent"] == {"sha256": hashlib.sha256(PROMPT.encode()).hexdigest()[:16]}
    assert [name for name in packaged if packaged[name] != own[name]] == ["lead_agent"]


def test_a_tool_with_another_description_has_another_hash(tmp_path: Path) -> None:
    """Between two runs of one workbench, too; the same tool defined again has the same hash."""
    with bench(tmp_path, *["Yes."] * 3) as wb:
        found = []
        for doc in ("Look a word up.", "Look a word up.", "Look a word up, twice."):
            look(wb, doc)
            found.append(wb.ask("Who?").wait(20).manifest)
    first, again, changed = (manifest["tools"]["look"] for manifest in found)
    assert first == again != changed
    assert found[0]["agents"]["lead_agent"]["tools"][-1] == "look"
    assert manifest_changes(found[0], found[2], {"lead_agent"}) == ["tool look"]


def test_a_source_that_changed_has_another_hash(tmp_path: Path) -> None:
    """Folders are hashed by what their files hold, wherever and whenever they were indexed."""
    found = []
    for name, text in (("a", "Shoes."), ("b", "Shoes."), ("c", "Hats.")):
        notes = tmp_path / name / "notes"
        notes.mkdir(parents=True)
        (notes / "one.md").write_text("# One\n\nThe hall.\n")
        (notes / "two.md").write_text(f"# Two\n\n{text}\n")
        with bench(tmp_path / name, "One.", "Two.") as wb:
            wb.add_sources(notes)
            found.append(wb.ask("Who?").wait(20).manifest["sources"])
            if name == "b":
                (notes / "two.md").write_text("# Two\n\nHats.\n")
                found.append(wb.ask("Who?").wait(20).manifest["sources"])
    here, there, edited, other = found
    assert list(here) == ["notes/"]
    assert here == there != edited == other


def test_the_endpoint_is_its_host_and_nothing_is_secret(tmp_path: Path) -> None:
    """Neither the key nor a user, password or query of the address is in the manifest."""
    with ChatServer([Answer("Yes.")]) as server:
        host = server.base_url.split("/")[2]
        address = f"http://somebody:hunter2-pass@{host}/v1?key=query-secret-1"
        with bench(tmp_path, base_url=address, api_key="sk-very-secret-0123456789", model="m") as wb:
            run = wb.ask("Who?").wait(20)
            stored = wb.runs_df(run, columns="replay")["manifest_json"].iloc[0]
    assert run.status == "completed"
    assert orjson.loads(stored)["agents"]["lead_agent"]["endpoint"] == host
    assert not [word for word in ("sk-very", "hunter2", "somebody", "query-secret") if word in stored]


def test_the_frame_has_it_as_json(tmp_path: Path) -> None:
    """`runs_df` has it in the group `replay`, and a run of a release that kept none has an empty one."""
    with bench(tmp_path, "One.", "Two.") as wb:
        run, old = wb.ask("Who?").wait(20), wb.ask("And?").wait(20)
        with closing(connect(wb._store)) as db:
            db.execute("UPDATE runs SET manifest_json = '{}' WHERE run_id = ?", (old.run_id,))
        frame = wb.runs_df(columns="replay").set_index("run_id")["manifest_json"]
        assert orjson.loads(frame[run.run_id]) == run.manifest
        assert old.manifest == {}


def test_a_replay_has_the_manifest_of_its_recording(tmp_path: Path) -> None:
    """Frames are the same where other releases are installed; `repro` names what differs."""
    cassette = tmp_path / "c.jsonl"
    with bench(tmp_path, record=cassette) as wb:
        run = wb.ask("Who?").wait(20)
        assert run.manifest["mode"] == "record"
        version = run.manifest["versions"]["artifactflow-nb"]
    cassette.write_text(cassette.read_text().replace(f'"artifactflow-nb":"{version}"', '"artifactflow-nb":"0.0.1"'))
    af.accept_cassette(cassette)
    with bench(tmp_path, replay=cassette) as wb:
        run = wb.ask("Who?").wait(20)
        assert run.manifest["versions"]["artifactflow-nb"] == "0.0.1"
        assert wb.repro().runs[0].changes == (f"artifactflow-nb 0.0.1 → {version}",)


def test_names_that_sound_secret_hide_nothing(tmp_path: Path) -> None:
    """A tool named after what it reads keeps its hash in a cassette."""
    cassette = tmp_path / "c.jsonl"
    with bench(tmp_path, record=cassette) as wb:
        look(wb, name="read_password")
        recorded = wb.ask("Who?").wait(20).manifest
    with bench(tmp_path, replay=cassette) as wb:
        look(wb, name="read_password")
        assert wb.ask("Who?").wait(20).manifest == recorded
        assert wb.repro().runs[0].changes == ()


def test_a_manifest_costs_next_to_nothing(tmp_path: Path) -> None:
    """After the first run of a workbench, making one and storing it take less than 0.2 ms of CPU together."""
    with bench(tmp_path) as wb:
        wb.ask("Who?").wait(20)
        engine = wb._thread.engine

        async def measured() -> float:
            begun = time.process_time()
            for _ in range(100):
                told = await engine.manifest("research", None)
                orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
            return (time.process_time() - begun) * 10

        assert min(wb._thread.call(measured()) for _ in range(3)) < 0.2


def test_concurrent_runs_have_separate_manifests(tmp_path: Path) -> None:
    """The model that was chosen for a run stands in its manifest, and in no other."""

    async def ask(engine: af.Engine, model: str) -> str:
        run = await engine.controller.begin("Who?", model=model)
        return str(run.run_id)

    with (
        ChatServer(lambda _request: Answer("Yes.")) as server,
        bench(tmp_path, base_url=server.base_url, api_key="k", model="m") as wb,
    ):
        engine = wb._thread.engine

        async def all_of_them() -> list[str]:
            return await asyncio.gather(*(ask(engine, f"m{n}") for n in range(8)))

        told = [wb.run(run_id).manifest["agents"] for run_id in wb._thread.call(all_of_them())]
    assert [agents["crawl_agent"]["model"] for agents in told] == [f"m{n}" for n in range(8)]
