"""Long runs: the cost of a round does not grow, and the stored prompts can be read."""

from contextlib import closing
from pathlib import Path
from typing import Any

from bench.long_run import long_run
from conftest import OpenWorkbench
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.rows import load_run_rows
from artifactflow_nb.store.database import connect

ROUNDS, TRIES = 400, 4
MANY = {"lead_agent": {"max_tool_rounds": 200}}


async def test_cost_of_a_round_does_not_grow(tmp_path: Path) -> None:
    """Neither CPU time, in the best of several tries, nor stored bytes of a round grow with earlier rounds."""
    ratios: list[float] = []
    while min(ratios, default=3) > 2 and len(ratios) < TRIES:
        run = await long_run(tmp_path / str(len(ratios)), ROUNDS)
        assert run.bytes_per_round(ROUNDS - 150, ROUNDS - 50) <= 2 * run.bytes_per_round(50, 150)
        ratios.append(run.late / run.early)
    assert min(ratios) <= 2, ratios


def looking(n_rounds: int) -> Any:
    """A script that calls a tool in this number of rounds per question, with different words in each call."""
    n = 0

    def script(_request: ModelRequest) -> str:
        nonlocal n
        n += 1
        return f"Round {n}." + (call("look") if n % (n_rounds + 1) else "")

    return script


@af.tool
async def look(ctx: af.ToolContext) -> str:
    """Look."""
    del ctx
    return "none"


@af.tool(permission="confirm")
async def act(ctx: af.ToolContext) -> str:
    """Act."""
    del ctx
    return "acted"


def prompts_of(store: Path, run: af.Run) -> list[Any]:
    with closing(connect(store, read_only=True)) as db:
        rows = load_run_rows(db, run.run_id)
    prompts = (rows.prompts[row["call_id"]] for row in rows["llm_calls"])
    return [[(role, rows.texts[sha256]) for role, sha256, *_ in prompt] for prompt in prompts]


def test_every_prompt_of_a_long_run_can_be_read(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Each stored prompt equals the prompt that the model received; deleting the conversation deletes the texts."""
    model = ScriptedModel(looking(150))
    wb = workbench(model=model, graph_config=MANY)
    wb.tool(look)
    run = wb.ask("Look on and on.").wait(120)
    assert run.status == "completed"
    assert prompts_of(tmp_path / "data" / STORE_FILE, run) == [
        [(message.role, message.content) for message in request.messages] for request in model.requests
    ]
    with closing(connect(tmp_path / "data" / STORE_FILE, read_only=True)) as db:
        assert db.execute("SELECT count(*) FROM texts").fetchone()[0] > 150
        wb.conversation(run.conversation_id).delete()
        assert db.execute("SELECT count(*) FROM texts").fetchone()[0] == 0


def test_sealed_long_run_contains_its_prompts(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """After an import elsewhere the prompts are the same; importing the run twice is allowed."""
    model = ScriptedModel(looking(120))
    wb = workbench(model=model, graph_config=MANY)
    wb.tool(look)
    run = wb.ask("Look on and on.").wait(120)
    sealed = run.seal(tmp_path / "run.afrun")
    mine = workbench(data_dir=tmp_path / "mine")
    imported = mine.store.import_run(sealed)
    assert mine.store.import_run(sealed).run_id == imported.run_id == run.run_id
    assert prompts_of(tmp_path / "mine" / STORE_FILE, imported) == [
        [(message.role, message.content) for message in request.messages] for request in model.requests
    ]
