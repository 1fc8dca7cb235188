"""The plugin `claims` as the engine sees it."""

from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.plugins.claims.frame import CHECKS, CLAIMS_FRAME
from artifactflow_nb.plugins.claims.language import lists
from artifactflow_nb.plugins.claims.marks import STYLES, load_marks
from artifactflow_nb.plugins.claims.versions import check_version

CLAIMS = Plugin(
    "claims",
    tables=(CHECKS,),
    frames=(CLAIMS_FRAME,),
    on_artifact_written=check_version,
    labels={"reason": {text: text for text in lists()["reasons"]}},
    text_marks=load_marks,
    styles=STYLES,
)
