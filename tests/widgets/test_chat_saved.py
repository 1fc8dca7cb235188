"""Size limits of a saved chat."""

import json
from pathlib import Path
from typing import Any

from conftest import OpenWorkbench
from support.long_conversations import add_conversation
from support.pages import ShownView

import artifactflow_nb as af
from artifactflow_nb.widgets.chat.view import ChatView

LIMIT = 400_000
LARGE = "涨潮之后是退潮。" * 15_000
"""An answer whose displayed beginning alone is above the limit: a Chinese character has three bytes."""
WAY = "wb.conversation(run).to_html() writes all answers to a file."


def answers(n: int, size: int) -> list[str]:
    """Answers of this size, each with a unique sentence at its end."""
    return [
        f"# Answer {i}\n\n" + "A *plain* sentence.\n\n" * (size // 20) + f"The end of {i}." for i in range(1, n + 1)
    ]


def saved_chat(wb: af.Workbench, n: int) -> dict[str, str]:
    """The saved output of a chat with this number of questions."""
    run: Any = None
    for i in range(1, n + 1):
        run = wb.ask(f"Question {i}?", conversation_id=run and run.conversation_id).wait(20)
    return wb.chat(run).saved_output()


def saved_bytes(saved_form: dict[str, str]) -> int:
    return len(json.dumps(saved_form, ensure_ascii=False).encode())


def test_short_chat_is_saved_in_full(workbench: OpenWorkbench) -> None:
    """A short chat is saved in full, without notes."""
    saved_form = saved_chat(workbench(answers(3, 5_000)), 3)
    for text in saved_form.values():
        assert all(f"The end of {i}." in text for i in (1, 2, 3))
        assert "hortened" not in text
        assert WAY not in text


def test_newest_of_many_long_answers_are_saved_in_full(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Thirty long answers take less than 400 KB: the newest are complete, older answers have a note."""
    wb = workbench(answers(30, 15_000))
    saved_form = saved_chat(wb, 30)
    assert saved_bytes(saved_form) < LIMIT
    for text in saved_form.values():
        assert "The end of 30." in text
        assert "The end of 1." not in text
        assert "Question 1?" in text
        assert WAY in text
        whole = [i for i in range(1, 31) if f"The end of {i}." in text]
        assert whole == list(range(whole[0], 31))
        assert text.count("Shortened: ") == whole[0] - 1
        assert f"Only the beginning of {whole[0] - 1} older answers" in text
    written = wb.conversation().to_html(tmp_path / "all.html").read_text()
    assert all(f"The end of {i}." in written for i in range(1, 31))


def test_newest_answer_is_saved_up_to_display_limit(workbench: OpenWorkbench) -> None:
    """A newest answer above all limits is saved up to 100,000 characters; earlier answers are shortened."""
    newest = "".join(f"Word {n:06} 涨潮之后是退潮" for n in range(6_000))
    saved_form = saved_chat(workbench([*answers(2, 100), newest]), 3)
    for text in saved_form.values():
        assert "Word 004500 " in text
        assert "Word 005600 " not in text
        assert "more characters. run.response has the whole answer" in text
        assert text.count("Shortened: ") == 2


def test_omitted_turns_are_counted(workbench: OpenWorkbench) -> None:
    """Of a thousand displayed questions, the questions within the limit are saved, and a note counts the others."""
    wb = workbench([LARGE])
    conversation_id = add_conversation(wb, 1000, "It is so. " * 100)
    wb.ask("And now?", conversation_id=conversation_id).wait(20)
    page = ShownView(wb._thread, ChatView(wb._thread, conversation_id))
    while any(name.startswith("Show ") for name in page.buttons):
        page.press(next(name for name in page.buttons if name.startswith("Show ")))
    text = page.view.saved_output()["text/plain"]
    n_saved = text.count("Shortened: ")
    assert 20 < n_saved < 200
    assert f"Earlier: {1000 - n_saved} questions that are not shown here." in text
    assert "Question 0?" not in text
    assert "Question 999?" in text


def test_shortened_answer_is_sanitised(workbench: OpenWorkbench) -> None:
    """An answer cut within code or a link has no active content, and does not affect the text after it."""
    hostile = "~~~\n<script>alert(1)</script>\n" + "x\n" * 400
    saved_form = saved_chat(workbench([hostile, "<img src=x onerror=alert(1)>" * 40, LARGE]), 3)
    assert "<script" not in saved_form["text/html"]
    assert "<img" not in saved_form["text/html"]
    assert saved_form["text/html"].count("Shortened: ") == 2
