"""The persona of Jupyter AI: `@ArtifactFlow NB` in the chat asks the agent of this folder.

The entry point gets `ResearchPersona` from this module, whose import needs no Jupyter AI.
"""

import sys
from pathlib import Path
from typing import Any


def __getattr__(name: str) -> Any:
    """Make the class `ResearchPersona`, for Jupyter AI; `AttributeError` for another name."""
    if name != "ResearchPersona":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
    from jupyter_ai_persona_manager import PersonaDefaults

    class ResearchPersona(BaseAcpPersona):  # type: ignore[misc]
        """The persona, which starts `python -m artifactflow_nb acp` in the folder of the Jupyter server."""

        NOTEBOOK_EDITING_GUIDANCE = ""  # the agent edits no notebooks, and searches for the words of the prompt

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, executable=[sys.executable, "-m", "artifactflow_nb", "acp"], **kwargs)

        @property
        def defaults(self) -> PersonaDefaults:
            """The name, the description and the picture in the chat."""
            return PersonaDefaults(
                name="ArtifactFlow NB",
                description="Researches in your sources, asks before it writes, and cites.",
                avatar_path=str(Path(__file__).parent / "persona.svg"),
                system_prompt="",
            )

        async def is_authed(self) -> bool:
            """Return True: the key of the model is in the settings of the workbench."""
            return True

    return ResearchPersona
