"""Questions about documentation that is installed: the topics of the Python language."""

import re
from pathlib import Path

from eval.installed import load_questions, write_collection
from support.offline_loop import Drive

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

CITED = re.compile(r"^\d+\. .* — local:python/([\w-]+)\.txt", re.MULTILINE)


async def test_topics_are_answered_or_declined(tmp_path: Path):
    """Both documents of two out of three double questions are quoted; questions without an answer are declined."""
    database = Database(tmp_path / "store.db")
    await database.open()
    sources = SourceManager(database, SystemClock())
    scope = list((await sources.add_folder(write_collection("python", tmp_path / "python"))).source_ids)
    found = {"expert": 0, "two": 0, "absent": 0}
    for kind in found:
        for needed, question in load_questions()["python"][kind]:
            cited = CITED.findall(await Drive(OfflineModel(), sources, scope).ask(question))
            right = all(any(name in cited for name in names) for names in needed)
            found[kind] += not cited if kind == "absent" else right
    await database.close()
    assert found["expert"] >= 5
    assert found["two"] >= 2
    assert found["absent"] >= 3
