"""Vectors of an endpoint: embedding in batches, its failures, the check, and searches by words and vectors."""

import json
import random
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.web_server import Reply, WebRequest, WebServer

import artifactflow_nb as af
from artifactflow_nb.errors import ModelError, ModelRejected, ModelUnavailable
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.embeddings import EmbeddingModel

NOUNS = ("harbour", "lantern", "granite", "heron", "compass", "barrel", "meadow", "anchor", "kettle")
N_NOTES = 40
RANDOM = random.Random(4)  # noqa: S311 - the same each time
SENTENCES = [f"The {' '.join(RANDOM.sample(NOUNS, len(NOUNS)))} are listed in this order." for _ in range(N_NOTES)]


def one_hot(n: int) -> list[float]:
    return [float(n == m) for m in range(N_NOTES)]


def oracle(text: str, position: int) -> list[float]:
    """The vector of a note; for a query, the vector of the note with the number of its position in the request."""
    note = re.match(r"Note (\d+)\.", text)
    return one_hot(int(note[1]) if note else position)


def noise(text: str, _position: int) -> list[float]:
    """A vector that says nothing."""
    return [random.Random(f"{text}/{n}").random() - 0.5 for n in range(N_NOTES)]  # noqa: S311 - the same


class EmbeddingServer(WebServer):
    """An endpoint for embeddings.

    Args:
        vector: The vector of a text at its position in the request.
        answer: Replaces the answer to a request of this number, from 0; None for the usual answer.
    """

    def __init__(
        self,
        vector: Callable[[str, int], list[float]] = oracle,
        answer: Callable[[int, Mapping[str, Any]], Reply | None] = lambda _number, _body: None,
    ) -> None:
        super().__init__({"/v1/embeddings": self._reply})
        self.batches: list[list[str]] = []
        self._vector = vector
        self.scripted = answer

    @property
    def base_url(self) -> str:
        return self.url("/v1")

    def _reply(self, request: WebRequest) -> Reply:
        body = json.loads(request.body)
        self.batches.append(body["input"])
        if (answer := self.scripted(len(self.batches) - 1, body)) is not None:
            return answer
        data = [{"index": n, "embedding": self._vector(text, n)} for n, text in enumerate(body["input"])]
        return as_json({"data": data[::-1], "model": body["model"]})


def as_json(value: object, status: int = 200, **headers: str) -> Reply:
    return Reply(json.dumps(value).encode(), status, "application/json", tuple(headers.items()))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for n, sentence in enumerate(SENTENCES):
        (folder / f"note{n:02}.md").write_text(f"# Note {n}\n\n{sentence}\n", encoding="utf-8")
    return folder


@pytest.fixture
def open_on(notes: Path, tmp_path: Path) -> Iterator[Callable[..., af.Workbench]]:
    opened: list[af.Workbench] = []

    def open_one(server: EmbeddingServer, **options: Any) -> af.Workbench:
        options = {"embedding_model": "embedder", "data_dir": tmp_path / "data", **options}
        wb = af.Workbench(base_url=server.base_url, model="chat", api_key="sk-secret-key", interactive=False, **options)
        wb.sources.add(notes)
        opened.append(wb)
        return wb

    yield open_one
    for wb in opened:
        wb.close()


def test_vectors_are_used_only_after_a_check_shows_that_they_help(open_on: Any) -> None:
    """Before the check no query is embedded; afterwards the search fuses both rankings and shows the similarity."""
    with EmbeddingServer() as server:
        wb = open_on(server, prices={"embedder": {"input": 2.0, "output": 0}})
        forecast = wb.sources.embed(dry_run=True)
        assert (forecast.passages, server.batches) == (N_NOTES, [])
        assert forecast.usd == pytest.approx(forecast.tokens * 2 / 1e6)
        assert f"40 passages to embed with embedder: about {forecast.tokens:,} tokens, about $0.00" in str(forecast)
        wb.sources.embed()
        assert wb.sources.embed().passages == 0
        n_batches = len(server.batches)
        words = wb.sources.search_df("compass heron meadow")
        assert words["similarity"].isna().all()
        assert len(server.batches) == n_batches
        check = wb.sources.choose_ranking()
        assert check["ranking"].tolist() == ["words", "words and vectors"]
        assert check["is_used"].tolist() == [False, True]
        assert check["hit_at_5"][1] > check["hit_at_5"][0]
        assert check["queries"].tolist() == [N_NOTES, N_NOTES]
        found = wb.sources.search_df("compass heron meadow")
        best = found["similarity"].idxmax()
        assert (found["address"][best], found["similarity"][best]) == ("local:notes/note00.md#note-0", 1.0)
        assert found["rank"][best] <= words["rank"][list(words["address"]).index("local:notes/note00.md#note-0")]


def test_vectors_that_do_not_help_are_not_used(open_on: Any) -> None:
    """If vectors do not improve the ranking, words alone rank, and a search sends no request to an endpoint."""
    with EmbeddingServer(noise) as server:
        wb = open_on(server)
        before = wb.sources.search_df("compass heron meadow")
        wb.sources.embed()
        assert wb.sources.choose_ranking(queries=10)["is_used"].tolist() == [True, False]
        n_batches = len(server.batches)
        assert wb.sources.search_df("compass heron meadow").equals(before)
        assert len(server.batches) == n_batches


def test_vectors_are_stored_as_16_bit_floats_and_leave_with_their_passage(
    open_on: Any, notes: Path, tmp_path: Path
) -> None:
    """A changed file loses its vectors and gets new vectors with the next call; other files are not embedded again."""
    with EmbeddingServer() as server:
        wb = open_on(server)
        wb.sources.embed()
        with closing(sqlite3.connect(tmp_path / "data" / "store.db")) as db:
            sizes = db.execute("SELECT count(*), min(length(vector)), max(length(vector)) FROM passage_vectors")
            assert sizes.fetchone() == (N_NOTES, 2 * N_NOTES, 2 * N_NOTES)
        (notes / "note00.md").write_text("# Note 0\n\nIt is about kettles now.\n", encoding="utf-8")
        (notes / "note01.md").unlink()
        wb.sources.add(notes)
        server.batches.clear()
        assert wb.sources.embed().passages == 1
        assert server.batches == [["Note 0. Note 0\n# Note 0\n\nIt is about kettles now."]]


def test_batch_limit_of_ten_makes_requests_smaller(open_on: Any) -> None:
    """The endpoint refuses more than ten texts; all passages get a vector, and later requests are small at once."""

    def answer(_number: int, body: Mapping[str, Any]) -> Reply | None:
        error = {"error": {"message": "batch size is invalid, it should not be larger than 10"}}
        return as_json(error, 400) if len(body["input"]) > 10 else None

    with EmbeddingServer(answer=answer) as server:
        wb = open_on(server)
        wb.sources.embed()
        sizes = [len(batch) for batch in server.batches]
        assert sizes[:3] == [40, 20, 10]
        assert max(sizes[3:]) == 10
        assert wb.sources.embed(dry_run=True).passages == 0


def test_interrupted_embedding_continues_where_it_ended(open_on: Any, notes: Path) -> None:
    """A failure in the second batch leaves the vectors of the first; the error has the progress and says what to do."""
    for n in range(N_NOTES, 100):
        (notes / f"note{n}.md").write_text(f"# Note {n}\n\nNumber {n}.\n", encoding="utf-8")
    broken = as_json({"error": {"message": "Incorrect API key provided: sk-secret-key"}}, 401)
    with EmbeddingServer(answer=lambda number, _body: broken if number >= 1 else None) as server:
        wb = open_on(server)
        with pytest.raises(ModelRejected, match="64 of 100 passages have a vector; call wb.sources.embed") as raised:
            wb.sources.embed()
        assert "status 401" in str(raised.value)
        assert "sk-secret-key" not in str(raised.value)
        server.scripted = lambda _number, _body: None
        server.batches.clear()
        assert wb.sources.embed().passages == 36
        assert [len(batch) for batch in server.batches] in ([36], [32, 4])


def test_wrong_dimension_is_an_error_that_stores_nothing(open_on: Any) -> None:
    """A vector of another length than the stored vectors comes from another model."""
    with EmbeddingServer(lambda text, _n: [1.0] * (3 if "Note 9." in text else 4)) as server:
        wb = open_on(server)
        with pytest.raises(
            af.errors.UsageError, match=r"'embedder' returned a vector of \d numbers, but the stored vectors have \d"
        ):
            wb.sources.embed()
        assert wb.sources.embed(dry_run=True).passages == N_NOTES


def test_another_model_replaces_the_vectors(open_on: Any, tmp_path: Path) -> None:
    """All passages are embedded again, and the result of the earlier check does not count."""
    with EmbeddingServer() as server:
        wb = open_on(server)
        wb.sources.embed()
        assert wb.sources.choose_ranking()["is_used"][1]
        wb.close()
        other = open_on(server, embedding_model="other")
        assert other.sources.search_df("compass heron")["similarity"].isna().all()
        with pytest.raises(af.errors.UsageError, match="no vectors of 'other'"):
            other.sources.choose_ranking()
        assert other.sources.embed().passages == N_NOTES
        assert other.sources.search_df("compass heron")["similarity"].isna().all()


def test_search_by_words_survives_an_endpoint_that_is_gone(open_on: Any) -> None:
    """Searches fall back to the ranking by words."""
    with EmbeddingServer() as server:
        wb = open_on(server)
        before = wb.sources.search_df("compass heron meadow")
        wb.sources.embed()
        assert wb.sources.choose_ranking()["is_used"][1]
        server.scripted = lambda _number, _body: as_json({"error": {"message": "no such model"}}, 404)
        assert wb.sources.search_df("compass heron meadow").equals(before)


def test_without_an_embedding_model_the_error_names_the_setting(notes: Path, tmp_path: Path) -> None:
    """The error is the same offline; nothing else changes."""
    with af.Workbench(data_dir=tmp_path / "data", interactive=False) as wb:
        wb.sources.add(notes)
        for call in (wb.sources.embed, wb.sources.choose_ranking):
            with pytest.raises(af.errors.UsageError, match="AF_EMBEDDING_MODEL"):
                call()
        assert wb.sources.search_df("compass heron")["similarity"].isna().all()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"data": []}, "returned 0 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": []}]}, "not a vector of numbers"),
        ({"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": [1]}]}, "not a vector of numbers"),
        ({"data": [{"index": "b", "embedding": [1]}]}, "returned 1 vectors for 2 texts"),
        ({"data": "none"}, "returned 0 vectors"),
        ([1, 2], "returned 0 vectors"),
    ],
)
async def test_malformed_vectors_are_an_error(answer: object, message: str) -> None:
    """The error names the model, and the request is not repeated."""
    with EmbeddingServer(answer=lambda _number, _body: as_json(answer)) as server:
        endpoint = OpenAIModel(server.base_url, None, "m")
        with pytest.raises(ModelError, match=f"'m' .*{message}"):
            await EmbeddingModel(endpoint, "m").embed(["a", "b"])
        await endpoint.aclose()
        assert len(server.batches) == 1


async def test_429_is_waited_for_and_then_an_error() -> None:
    """The endpoint's own delay counts; after three retries the error says that requests come too often."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    busy = as_json({"error": {"message": "slow down"}}, 429, **{"Retry-After": "7"})
    with EmbeddingServer(answer=lambda number, _body: busy if number < 2 else None) as server:
        endpoint = OpenAIModel(server.base_url, None, "m")
        model = EmbeddingModel(endpoint, "m", sleep=sleep)
        assert len(await model.embed(["a", "b"])) == 2
        server.scripted = lambda _number, _body: busy
        with pytest.raises(ModelUnavailable, match="status 429: slow down"):
            await model.embed(["a"])
        await endpoint.aclose()
    assert waited == [7.0] * 5


async def test_refused_connection_is_retried_only_if_the_address_has_answered_before() -> None:
    """A wrong address ends at once; a server that is started again meanwhile is waited for."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    with EmbeddingServer(lambda _text, _position: [1.0, 0.0]) as server:
        endpoint, other = OpenAIModel(server.base_url, None, "m"), OpenAIModel(server.base_url, None, "m")
        model = EmbeddingModel(endpoint, "m", sleep=sleep)
        await model.embed(["a"])
        await endpoint.aclose()
        port = server.port
    with socket.socket() as closed:  # bound, so that no other test listens there
        closed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        closed.bind(("127.0.0.1", port))
        with pytest.raises(ModelUnavailable, match="Is the server running"):
            await EmbeddingModel(other, "m", sleep=sleep).embed(["a"])
        assert waited == []
        with pytest.raises(ModelUnavailable, match="Is the server running"):
            await model.embed(["a"])
    assert waited == [1.0, 2.0, 4.0]
    await endpoint.aclose()
    await other.aclose()


EMBEDS = """
import sys
import artifactflow_nb as af
folder, data, url = sys.argv[1:]
wb = af.Workbench(
    base_url=url, model="chat", api_key="sk-key", embedding_model="embedder", data_dir=data, interactive=False
)
wb.sources.add(folder)
wb.sources.embed()
"""


def test_killed_embedding_continues_with_the_missing_passages(open_on: Any, notes: Path, tmp_path: Path) -> None:
    """After a kill during the second batch, another process embeds all passages but those of the first batch."""
    more = "\n".join(f"# Note {n}\n\nMore of note {n}.\n" for n in range(N_NOTES, 3 * N_NOTES))
    (notes / "more.md").write_text(more, encoding="utf-8")
    children: list[subprocess.Popen[bytes]] = []
    with EmbeddingServer(lambda _text, _position: [1.0, 0.0]) as server:

        def kill_in_second_batch(number: int, _body: Mapping[str, Any]) -> None:
            if number == 1:
                children[0].kill()

        server.scripted = kill_in_second_batch
        code = [sys.executable, "-c", EMBEDS, str(notes), str(tmp_path / "data"), server.base_url]
        children.append(subprocess.Popen(code))
        assert children[0].wait(30) == -signal.SIGKILL
        server.scripted = lambda _number, _body: None
        first, second = map(set, server.batches)
        wb = open_on(server)
        assert wb.sources.embed(dry_run=True).passages == 3 * N_NOTES - len(first)
        wb.sources.embed()
        again = [text for batch in server.batches[2:] for text in batch]
        assert len(again) == len(set(again)) == 3 * N_NOTES - len(first)
        assert second <= set(again)
        assert not first & set(again)
        assert wb.sources.embed(dry_run=True).passages == 0
