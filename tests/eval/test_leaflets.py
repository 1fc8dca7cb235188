"""Questions in a layperson's words about sixty leaflets in PDF."""

import re
from pathlib import Path

from eval.leaflets import questions, write_leaflets
from support.offline_loop import Drive

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

CITED = re.compile(r"^\d+\. .* — local:leaflets/([\w-]+)\.pdf#page-\d", re.MULTILINE)
QUOTED = re.compile(r"^> (.*) \[\d+\]$", re.MULTILINE)


async def test_leaflets_are_quoted_by_their_name(tmp_path: Path) -> None:
    """The named leaflet answers though it has no other word of the question; covers are not quoted."""
    database = Database(tmp_path / "store.db")
    await database.open()
    sources = SourceManager(database, SystemClock())
    scope = list((await sources.add_folder(write_leaflets(tmp_path / "leaflets"))).source_ids)
    cited = stated = silent = 0
    for question in questions():
        answer = await Drive(OfflineModel(), sources, scope).ask(question.text)
        quotes = QUOTED.findall(answer)
        assert not any("Contents" in quote or "reserved" in quote for quote in quotes)
        if question.leaflet:
            cited += set(CITED.findall(answer)) == {question.leaflet}
            stated += any(question.fact in quote for quote in quotes)
        else:
            silent += not quotes
    await database.close()
    assert (cited, silent) == (31, 8)
    assert stated >= 27
