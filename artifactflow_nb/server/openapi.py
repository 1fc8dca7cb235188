"""Routes, and their description as an OpenAPI document."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from artifactflow_nb import __version__

_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Route:
    """A path of the interface.

    Attributes:
        path: The path below the prefix; `{name}` matches one segment.
        body: The JSON object of the request; None for a request without a body.
        is_documented: Whether the OpenAPI document lists the path; the page's own paths may change.
    """

    method: str
    path: str
    summary: str
    body: type[BaseModel] | None = None
    status: int = 200
    query: tuple[str, ...] = ()
    media_type: str = "application/json"
    is_documented: bool = True

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values of the placeholders in a path; None if the path does not match."""
        match = re.fullmatch(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(self.path)), path)
        return None if match is None else match.groupdict()


def describe(routes: Sequence[Route], base_path: str) -> dict[str, Any]:
    """Build the OpenAPI 3.1 document of these routes."""
    routes = [route for route in routes if route.is_documented]
    bodies = sorted({route.body for route in routes if route.body is not None}, key=lambda body: body.__name__)
    _, schemas = models_json_schema([(body, "validation") for body in bodies], ref_template=_REFERENCE)
    error = {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string"},
            "message": {"type": "string"},
            "decided": {"type": "object", "description": "For 409: by request id, who decided, what and when."},
        },
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ArtifactFlow NB", "version": __version__},
        "servers": [{"url": base_path}],
        "paths": paths,
        "components": {"schemas": {**schemas["$defs"], "Error": error}},
    }


def _operation(route: Route) -> dict[str, Any]:
    placeholders = re.findall(r"\{(\w+)\}", route.path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in placeholders
    ]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in route.query]
    if route.media_type == "text/event-stream":
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"}})
    content: dict[str, Any] = {} if route.status == 204 else {"content": {route.media_type: {}}}  # noqa: PLR2004 - a status code
    problem = {"application/json": {"schema": {"$ref": _REFERENCE.format(model="Error")}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "parameters": parameters,
        "responses": {
            str(route.status): {"description": "Success", **content},
            "4XX": {"description": "The request is refused, and nothing was changed.", "content": problem},
        },
    }
    if route.body is not None:
        reference = {"$ref": _REFERENCE.format(model=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return operation
