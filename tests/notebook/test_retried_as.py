"""A variable with a run that was retried leads to the newer run."""

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from support.pages import ShownView

import artifactflow_nb as af
from artifactflow_nb.widgets.chat.view import ChatView


@pytest.mark.parametrize("is_clicked", [False, True])
def test_retried_run_knows_the_newest_run_for_its_question(tmp_path: Path, is_clicked: bool) -> None:
    """After Retry in a chat and after `regenerate`, views and frames of the old run say how to open the new run."""
    model = af.ScriptedModel(
        [af.errors.ModelRejected("No key."), af.errors.ModelRejected("No key."), "It rises.", "Yes."]
    )
    with af.Workbench(model=model, data_dir=tmp_path, interactive=True) as wb:
        run = wb.ask("Why?").wait(10)
        assert (run.status, run.retried_as) == ("failed", None)
        for _ in range(2):
            if is_clicked:
                chat = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
                result = chat.do("regenerate", {"message": wb.runs()[0].message_id})
                assert not result["failed"], result
                wb.runs()[0].wait(10)
            else:
                wb.conversation(run).regenerate().wait(10)
        retry = run.retried_as
        assert retry is not None
        assert (retry.run_id, retry.response) == (wb.runs()[0].run_id, "It rises.")
        assert retry.retried_as is None
        other = wb.ask("Is that so?", conversation_id=retry).wait(10)
        assert other.retried_as is None
        for method in ("timeline", "artifact_panel", "runs_df", "llm_calls_df", "artifacts_df"):
            shown = io.StringIO()
            with redirect_stderr(shown):
                getattr(wb, method)(run)
                getattr(wb, method)(run.retried_as)
            sentence = f"This is {run.run_id}, which was retried: wb.{method}(run.retried_as) is about {retry.run_id}."
            assert " ".join(shown.getvalue().split()) == sentence
