"""The displayed part of a streamed reply."""

from artifactflow_nb.widgets.run.parts import StreamingText


def test_call_is_counted_and_named() -> None:
    """A call is displayed with its tool and length; the prose is unchanged."""
    text = StreamingText()
    text.prose.append("I write it.")
    for piece in ("", '{"id": "a', '"}'):
        text.append_call("create_artifact", piece)
    assert (text.prose.text, text.call_name, text.call_chars) == ("I write it.", "create_artifact", 12)
    text.settle("I write it.")
    assert (text.call_name, text.call_chars) == ("", 0)


def test_final_text_replaces_only_different_prose() -> None:
    """If the final text equals the streamed text, the rendered blocks are reused."""
    live = StreamingText()
    live.prose.append("Same text.")
    before = live.prose
    live.settle("Same text.")
    assert live.prose is before
