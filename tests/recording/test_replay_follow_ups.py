"""Follow-ups of a user's graphs get the conversation, which is recorded and compared in a replay."""

from pathlib import Path
from typing import Any

import pytest
from support.graphs import ScriptedChat, ai_message, prebuilt
from support.recorded_scenes import Setup, Stage, open_scene, play_both

import artifactflow_nb as af


class Echo(ScriptedChat):
    """A model that answers with the messages of the prompt, or raises an error with `may_not`."""

    may_not: bool = False

    def _next(self, messages: list[Any]) -> Any:
        if self.may_not:
            raise RuntimeError("the model was asked")
        self.requests.append(messages)
        return ai_message("Seen: " + " | ".join(str(message.content) for message in messages))


def echoing(**arguments: Any) -> Setup:
    def setup(wb: af.Workbench) -> None:
        is_played = wb.settings.cassette_mode == "replay"
        wb.register_flow("mine", af.adapt(prebuilt(Echo(script=[], may_not=is_played), []), **arguments))

    return setup


def talk(stage: Stage) -> list[Any]:
    """A question, a follow-up, the same follow-up again, another first question and a follow-up."""
    wb = stage.wb
    first = stage.ask("One?", flow="mine").wait()
    second = stage.ask("Two?", flow="mine", conversation_id=first.conversation_id).wait()
    again = wb.conversation(second).regenerate().wait()
    edited = wb.conversation(first).edit("Uno?").wait()
    where = {"conversation_id": first.conversation_id, "parent_message_id": edited.message_id}
    other = stage.ask("Two?", flow="mine", **where).wait()
    stage.runs += [again, edited]
    return [run.response for run in (first, second, again, edited, other)]


def test_follow_ups_of_a_graph_are_played_byte_for_byte(tmp_path: Path) -> None:
    """Each branch is played in another store, without the model."""
    after = "Seen: One? | Seen: One? | Two?"
    assert play_both(tmp_path, talk, "", setup=echoing()) == [
        "Seen: One?",
        after,
        after,
        "Seen: Uno?",
        "Seen: Uno? | Seen: Uno? | Two?",
    ]


def test_follow_up_with_an_input_function_is_played(tmp_path: Path) -> None:
    """A replay does not call the function."""

    def scene(stage: Stage) -> Any:
        first = stage.ask("One?", flow="mine").wait()
        return stage.ask("Two?", flow="mine", conversation_id=first.conversation_id).wait().response

    def short(question: str, history: list[tuple[str, str]]) -> Any:
        return {"messages": [*history[-1:], ("user", question)]}

    assert play_both(tmp_path, scene, "", setup=echoing(input=short)) == "Seen: Seen: One? | Two?"


@pytest.mark.parametrize("answer", ["Yes.", "No."])
def test_follow_up_of_a_run_that_was_executed_again_is_live(tmp_path: Path, answer: str) -> None:
    """With `mode="auto"`, a conversation is played up to its first live run."""
    models: list[Echo] = []

    def setup(answer: str, *tools: Any) -> Setup:
        def register(wb: af.Workbench) -> None:
            models.append(Echo(script=[]))
            wb.register_flow("first", af.adapt(prebuilt(ScriptedChat(script=[ai_message(answer)]), list(tools))))
            wb.register_flow("mine", af.adapt(prebuilt(models[-1], [])))

        return register

    def look(word: str) -> str:
        """Look."""
        return word

    def ask(wb: af.Workbench) -> af.Run:
        return wb.ask("Two?", flow="mine", conversation_id=wb.ask("One?", flow="first").wait()).wait()

    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, setup=setup("Yes.")) as wb:
        recorded = ask(wb)
    with open_scene(tmp_path, replay=cassette, mode="auto", setup=setup(answer, look)) as wb:
        run = ask(wb)
        assert run.response == f"Seen: One? | {answer} | Two?"
        assert run.run_id != recorded.run_id
        assert run.conversation_id != recorded.conversation_id
        assert len(models[-1].requests) == 1


def test_sealed_follow_up_of_a_graph_needs_no_graph(tmp_path: Path) -> None:
    for options in ({"data_dir": tmp_path / "live"}, {"record": tmp_path / "c.jsonl"}):
        with open_scene(tmp_path, **options, setup=echoing()) as wb:
            first = wb.ask("One?", flow="mine").wait()
            path = wb.ask("Two?", flow="mine", conversation_id=first).wait().seal(tmp_path / f"{len(options)}.afrun")
        found = af.open_run(path).verify()
        assert (found.is_same, len(found.skipped)) == (True, 2)
        path.unlink()


def test_secrets_in_earlier_messages_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay finds its recording all the same."""
    key = "sk-proj-4f8a91c2e7b34d0f9a6c"
    monkeypatch.setenv("OTHER_API_KEY", key)

    def ask(wb: af.Workbench) -> str:
        first = wb.ask(f"Use {key}.", flow="mine").wait()
        return wb.ask("Again.", flow="mine", conversation_id=first).wait().status

    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, setup=echoing()) as wb:
        assert ask(wb) == "completed"
    assert key not in cassette.read_text()
    for known in (True, False):
        if not known:
            monkeypatch.delenv("OTHER_API_KEY")
        with open_scene(tmp_path, replay=cassette, setup=echoing()) as wb:
            assert ask(wb) == "completed"
