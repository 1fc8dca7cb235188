"""What leaves the notebook as a file: executed notebooks with their pages; artifacts, conversations, projects."""

from artifactflow_nb.export.conversation import conversation_document
from artifactflow_nb.export.files import (
    FORMS,
    AnyPath,
    Form,
    artifact_bytes,
    document_bytes,
    document_name,
    file_name,
    write_artifact,
    write_document,
)
from artifactflow_nb.export.notebook import Exported, execute, export_html
from artifactflow_nb.export.project import project_document
from artifactflow_nb.export.takeaway import TakenAlong

__all__ = [
    "FORMS",
    "AnyPath",
    "Exported",
    "Form",
    "TakenAlong",
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
