"""The metadata of a crate: the run as actions in the profile Process Run Crate of RO-Crate 1.1."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from artifactflow_nb.core.text.format import count
from artifactflow_nb.errors import UsageError
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.recording.seal import ENDINGS
from artifactflow_nb.sources.citations import documents_read
from artifactflow_nb.sources.formats.sections import AnchorAllocator, slug
from artifactflow_nb.store.schema import from_microseconds

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_TYPES = {ending: media_type for media_type, ending in ENDINGS.items()} | {
    "cff": "application/yaml", "afrun": "application/zip"
}  # fmt: skip


def files_of(rows: RunRows) -> dict[str, tuple[bytes, str]]:
    """Return content and description of the texts of a run by path: question, answer, artifacts, checks of claims."""
    texts = {"question.md": (rows.run["question"], "The question")}
    texts["answer.md"] = rows.message["response"] or "", "The answer"
    names = AnchorAllocator()
    for row in {row["artifact_id"]: row for row in rows["artifact_versions"]}.values():  # the last version of each
        name = names.allocate(slug(row["artifact_id"], "artifact")[:80])
        ending = ENDINGS.get(row["content_type"], "txt")
        texts[f"artifacts/{name}.{ending}"] = row["content"], f"{row['title']} (version {row['version']})"
    if rows["claims"]:
        columns = ("artifact_id", "text", "status", "method", "reason", "address", "quote")
        checks = [{name: row[name] for name in columns} for row in rows["claims"]]
        texts["claims.json"] = orjson.dumps(checks, option=orjson.OPT_INDENT_2).decode(), "Claims, and their checks"
    return {path: (text.encode("utf-8", "replace"), description) for path, (text, description) in texts.items()}


class Metadata:
    """The entities of a crate about one run.

    Args:
        rows: The rows of the run, without secrets.

    Errors: `UsageError` without the package rocrate.
    """

    def __init__(self, rows: RunRows) -> None:
        try:
            from rocrate.rocrate import ROCrate
        except ImportError:
            raise UsageError(
                "A crate needs rocrate, which is not installed: pip install 'artifactflow-nb[crate]'"
            ) from None
        self._rows, self._run = rows, rows.run
        self._manifest = orjson.loads(rows.run["manifest_json"])
        self._crate = ROCrate(version="1.1")
        self._files: dict[str, Any] = {}

    def _add(self, kind: str, key: str, name: str, **properties: Any) -> Any:
        from rocrate.model.contextentity import ContextEntity

        values = {"@type": kind, "name": name, **{each: single(value) for each, value in properties.items() if value}}
        return self._crate.add(ContextEntity(self._crate, key, properties=values))

    def _software(self, kind: str, name: str, version: str, **properties: Any) -> Any:
        identifier = f"urn:artifactflow:{kind}:{quote(name, safe='')}"
        return self._add("SoftwareApplication", identifier, name, softwareVersion=version, **properties)

    def json(self, files: Mapping[str, tuple[bytes, str]], authors: Sequence[str], license_url: str) -> bytes:
        """Return `ro-crate-metadata.json`; for the arguments see `Crate.write`."""
        root, run = self._crate.root_dataset, self._run
        root["name"] = f"Run {run['run_id']} of ArtifactFlow NB"
        root["description"] = f"A run with its question, agents, models, tools, sources and results: {run['question']}"
        root["datePublished"] = iso(run["completed_at"])
        no_license = "The authors of this crate state no licence."
        root["license"] = license_url or self._add("CreativeWork", "#license", "No licence", description=no_license)
        root["conformsTo"] = self._add("CreativeWork", PROFILE, "Process Run Crate", version="0.5")
        names = authors or ["The person who asked the question"]
        persons = [self._add("Person", f"#person-{n}", name) for n, name in enumerate(names, 1)]
        root["author"] = single(persons)
        for path, (content, description) in files.items():
            self.add_file(path, content, description)
        root["mentions"] = single(self.actions(persons))
        return orjson.dumps(self._crate.metadata.generate(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    def add_file(self, path: str, content: bytes, description: str) -> None:
        """Add a file that the crate contains."""
        from rocrate.model.file import File

        digest, ending = hashlib.sha256(content).hexdigest(), path.rpartition(".")[2]
        properties = {"name": path, "description": description, "contentSize": str(len(content)), "sha256": digest,
                      "encodingFormat": _TYPES.get(ending, "text/plain")}  # fmt: skip
        self._files[path] = self._crate.add(File(self._crate, None, path, properties=properties))

    def sources(self) -> list[Any]:
        """Add the documents that agents read."""
        return [
            self._add(
                "CreativeWork", f"#source-{n}", each.title or each.address, identifier=each.address,
                sha256=hashlib.sha256(each.text.encode("utf-8", "replace")).hexdigest(),
                description="A source, with the hash of the text that an agent read",
                url=each.address if each.address.startswith("http") else "",
            )
            for n, each in enumerate(documents_read(self._rows["tool_calls"]), 1)
        ]  # fmt: skip

    def agents(self, calls: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
        """Add the models and the agents; return the agents by name."""
        named = [row for row in self._rows["llm_calls"] if row["request_model"]]
        used = sorted({(row["request_model"], row["provider"]) for row in named})
        providers = {name: ", ".join(provider for each, provider in used if each == name) for name, _ in used}
        models = {name: self._software("model", name, "as served", description=f"A model, served by {served_by}")
                  for name, served_by in providers.items()}  # fmt: skip
        agents = {}
        for name, own in calls.items():
            prompt = self._manifest.get("prompts", {}).get(name, {}).get("sha256", "")
            required = [models[model] for model in sorted({row["request_model"] for row in own} & models.keys())]
            about = f"An agent with the prompt {prompt}" if prompt else "An agent"
            version = self._run["package_version"]
            agents[name] = self._software("agent", name, version, description=about, softwareRequirements=required)
        return agents

    def actions(self, persons: Sequence[Any]) -> list[Any]:
        """Add the run and the calls of each agent as actions; return the actions."""
        run, calls = self._run, dict[str, list[Row]]()
        for row in self._rows["llm_calls"]:
            calls.setdefault(row["agent_name"], []).append(row)
        agents = self.agents(calls)
        tools = [self._software("tool", name, str(value.get("sha256", "")) or "unknown")
                 for name, value in sorted(self._manifest.get("tools", {}).items())]  # fmt: skip
        packages = [f"{name} {version}" for name, version in sorted(self._manifest.get("versions", {}).items())]
        software = self._software(
            "package", "ArtifactFlow NB", run["package_version"], hasPart=[*agents.values(), *tools],
            softwareRequirements=packages,
        )  # fmt: skip
        question = self._files["question.md"]
        results = [file for path, file in self._files.items() if path == "answer.md" or path.startswith("artifacts/")]
        is_completed = run["status"] == "completed"
        common = {"agent": persons, "result": results}
        actions = [
            self._add(
                "CreateAction", f"#{run['run_id']}", f"Run {run['run_id']}", instrument=software,
                description=f"The flow {run['flow']} worked on the question.", object=[question, *self.sources()],
                actionStatus=f"http://schema.org/{'Completed' if is_completed else 'Failed'}ActionStatus",
                error="" if is_completed else run["error_message"] or run["status"], **_times([run]), **common,
            )
        ]  # fmt: skip
        for name, own in calls.items():
            about = f"The agent {name} made {count(len(own), 'model call')}."
            instrument, identifier = agents[name], f"#{run['run_id']}-{quote(name, safe='')}"
            values = {"description": about, "instrument": instrument, "object": [question], **_times(own), **common}
            actions.append(self._add("CreateAction", identifier, f"Calls of {name}", **values))
        return actions


def iso(microseconds: int) -> str:
    """Return a time in ISO 8601, in whole seconds."""
    return from_microseconds(microseconds).isoformat(timespec="seconds")


def single(value: Any) -> Any:
    """Return the item of a list with one item, as the profile recommends, and any other value unchanged."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _times(rows: Sequence[Row]) -> dict[str, str]:
    start, end = min(row["started_at"] for row in rows), max(row["completed_at"] for row in rows)
    return {"startTime": iso(start), "endTime": iso(end)}
