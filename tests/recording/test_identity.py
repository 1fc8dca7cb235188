"""The key of a recording depends on question, place, settings and count, not on ids and times."""

from typing import Any

from artifactflow_nb.recording.identity import Ask, question_keys


def ask(question: str = "Why?", message_id: str = "msg-1", parent: str | None = None, **changes: Any) -> Ask:
    settings = changes.pop("settings", {"budget": {"tokens": 1000}})
    return Ask(question, changes.pop("flow", "research"), settings, message_id, parent)


def key(*asks: Ask) -> str:
    """The key of the last of these questions."""
    return question_keys(asks)[-1]


def test_key_depends_on_question_flow_model_budget_fork_parent_and_ordinal() -> None:
    others = [
        ask("Who?"),
        ask(flow="plan"),
        ask(settings={"model": "m", "budget": {"tokens": 1000}}),
        ask(settings={"budget": {"tokens": 2000}}),
        ask(settings={"budget": {"tokens": 1000}, "fork": {"of": "run-1", "number": 2}}),
        ask(parent="msg-0"),
    ]
    assert len({key(ask()), key(ask(), ask(message_id="msg-2")), *map(key, others)}) == 8


def test_key_does_not_depend_on_ids_and_other_settings() -> None:
    settings = {"sources": ["x"], "budget": {"tokens": 1000}}
    assert key(ask()) == key(ask(message_id="msg-7", settings=settings))
    forks = [ask(settings={"fork": {"of": of, "number": 2}}) for of in ("run-1", "run-2")]
    assert key(forks[0]) == key(forks[1])


def test_same_questions_in_the_same_order_have_the_same_keys() -> None:
    """The ids of messages do not matter."""
    first = key(ask(message_id="a"), ask("And?", "b", "a"))
    second = key(ask(message_id="x"), ask("And?", "y", "x"))
    assert first == second != key(ask("What?", "x"), ask("And?", "y", "x"))


def test_question_after_a_message_of_an_earlier_process_has_its_key() -> None:
    (first,) = question_keys([ask(message_id="a")])
    together = question_keys([ask(message_id="a"), ask("And?", "b", "a")])
    assert question_keys([ask("And?", "b", "a")], {"a": first}) == together[1:]
