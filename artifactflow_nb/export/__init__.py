"""Export to files: artifacts, conversations, projects, reports, and executed notebooks with their HTML."""

from artifactflow_nb.export.conversation import conversation_document
from artifactflow_nb.export.files import (
    EXPORT_FORMATS,
    AnyPath,
    ExportFormat,
    ExportMixin,
    artifact_bytes,
    document_bytes,
    document_name,
    file_name,
    write_artifact,
    write_document,
)
from artifactflow_nb.export.notebook import ExportedNotebook, execute, export_html
from artifactflow_nb.export.project import project_document

__all__ = [
    "EXPORT_FORMATS",
    "AnyPath",
    "ExportFormat",
    "ExportMixin",
    "ExportedNotebook",
    "artifact_bytes",
    "conversation_document",
    "document_bytes",
    "document_name",
    "execute",
    "export_html",
    "file_name",
    "project_document",
    "write_artifact",
    "write_document",
]
