"""What leaves the notebook as a file: executed notebooks with their pages, and artifacts in forms that others read."""

from artifactflow_nb.export.files import FORMS, Form, artifact_bytes, file_name, write_artifact
from artifactflow_nb.export.notebook import Exported, execute, export_html

__all__ = [
    "FORMS",
    "Exported",
    "Form",
    "artifact_bytes",
    "execute",
    "export_html",
    "file_name",
    "write_artifact",
]
