"""How agents asked their models is read from a cassette, whatever run it stands in."""

import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.cassette import OPENS_WITHIN_MS, RUNS, _run, _Writer
from recordings.generated import a_run, a_turn
from recordings.replayed import WAIT_S, Stage, play_both, step_of
from scripts import delegate, who_asks

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import cassette_bytes
from artifactflow_nb.recordings.configured import configured
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import RecordedRun

N_AGENTS = 6


def opened(folder: Path, runs: list[RecordedRun]) -> Cassette:
    path = folder / "c.jsonl"
    path.write_bytes(cassette_bytes(runs))
    return Cassette.open(path)


def asking(name: str, model: str, temperature: float, path: str = "main/1.1", step: int = 1) -> Any:
    turn = a_turn(path, step)
    return replace(turn, agent=name, prompt=replace(turn.prompt, model=model, temperature=temperature))


def test_many_agents_with_models_of_their_own(tmp_path: Path) -> None:
    """Each of many agents is first asked in a run of its own, with a model of its own that the replay is not given."""

    def setup(wb: af.Workbench) -> None:
        for n in range(N_AGENTS):
            wb.register_agent(af.AgentConfig(f"agent_{n}", f"Knows {n}."))

    def script(request: ModelRequest) -> Any:
        if who_asks(request) != "lead":
            return "Found."
        return delegate(f"agent_{request.messages[1].content[-2]}", "Find.") if step_of(request) == 0 else "Done."

    (tmp_path / "prompts").mkdir()
    for n in range(N_AGENTS):
        (tmp_path / "prompts" / f"agent_{n}.md").write_text("You know.", encoding="utf-8")

    def scene(stage: Stage) -> Any:
        return [stage.ask(f"Ask {n}?").wait(WAIT_S).status for n in range(N_AGENTS)]

    models = {f"agent_{n}": ScriptedModel(lambda _: "Found.") for n in range(N_AGENTS)}
    for n, model in enumerate(models.values()):
        model.default_model = f"model-{n}"  # type: ignore[misc]
    record: dict[str, Any] = {"setup": setup, "prompts": tmp_path / "prompts"}
    said = play_both(tmp_path, scene, script, only_recorded={"agent_models": models}, **record)
    assert said == ["completed"] * N_AGENTS


def test_the_answer_does_not_depend_on_the_order_of_runs(tmp_path: Path) -> None:
    """An agent that asked in several ways is taken as it asked most often, and not as in a run with a chosen model."""
    found = []
    lead = a_turn()
    runs = [
        a_run("1", "One?", turns=[lead, asking("search_agent", "m", 0.5)]),
        a_run(
            "2", "Two?", turns=[lead, asking("search_agent", "m", 0.5), asking("crawl_agent", "own", 0.1, "main/1.2")]
        ),
        a_run("3", "Three?", turns=[lead, asking("search_agent", "m", 0.9)]),
        *(a_run(f"{n}", f"{n}?", turns=[lead], settings={"model": "chosen"}) for n in range(4, 9)),
    ]
    chosen = [replace(lead, prompt=replace(lead.prompt, model="chosen", temperature=0.2))]
    runs[3:] = [replace(run, turns=tuple(chosen)) for run in runs[3:]]
    for seed in range(10):
        random.Random(seed).shuffle(runs)  # noqa: S311 - the same each time is what is wanted
        found.append(configured(opened(tmp_path, runs)))
    assert all(one == found[0] for one in found)
    said = {name: (one.model, one.temperature, one.is_own) for name, one in found[0].items()}
    assert said == {
        "lead_agent": ("m", 0.5, False),
        "search_agent": ("m", 0.5, False),
        "crawl_agent": ("own", 0.1, True),
    }


def test_a_large_cassette_is_ready_at_once() -> None:
    """Opening 10 MB and finding out how all its agents asked stays within the time that opening may take."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.jsonl"
        path.write_bytes(cassette_bytes([_run(n, _Writer(n)) for n in range(RUNS)]))
        assert path.stat().st_size > 9_000_000
        took = []
        for _ in range(3):
            begun = time.perf_counter()
            deck = Deck.open("replay", path, Masker(()))
            assert deck.configured()
            took.append((time.perf_counter() - begun) * 1000)
    assert min(took) < OPENS_WITHIN_MS


@pytest.mark.parametrize("version", [1, 2])
def test_older_cassettes_open(tmp_path: Path, version: int) -> None:
    """A cassette of an older version is read, and says which it is."""
    path = tmp_path / "c.jsonl"
    content = cassette_bytes([a_run()])
    path.write_bytes(content.replace(b'{"cassette": 2', b'{"cassette": %d' % version))
    cassette = Cassette.open(path)
    assert (cassette.version, cassette.run("run-1").was_stopped) == (version, False)
