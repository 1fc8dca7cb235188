"""The plugins that come with the package, each a folder.

To take one out, remove its folder and its lines here and in `built_in.py`. What a plugin adds to `af`, to commands and
to `%af` is loaded on first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artifactflow_nb.plugins import graders as graders
    from artifactflow_nb.plugins.claims.report import check_notebook as check_notebook
    from artifactflow_nb.plugins.graphs.adapt import adapt as adapt
    from artifactflow_nb.plugins.library import Library as Library
    from artifactflow_nb.plugins.rates import Rate as Rate
    from artifactflow_nb.plugins.subscription import AgentModel as AgentModel

__all__ = ["AgentModel", "Library", "Rate", "adapt", "check_notebook", "graders"]

PUBLIC_NAMES = {
    "AgentModel": "plugins.subscription",
    "Library": "plugins.library",
    "Rate": "plugins.rates",
    "adapt": "plugins.graphs.adapt",
    "check_notebook": "plugins.claims.report",
    "graders": "plugins.graders",
}
"""Names of `af`, with the module that defines them; a name that the module does not define is the module itself."""

COMMANDS = {
    "acp": "artifactflow_nb.plugins.acp:add_acp",
    "check": "artifactflow_nb.plugins.claims.command:add_check",
    "mcp": "artifactflow_nb.plugins.mcp_server:add_mcp",
}
"""Commands of `python -m artifactflow_nb`, each with the function that adds its parser."""

MAGICS = {
    "check": ("artifactflow_nb.plugins.claims.command:check_this", "check a notebook (claims)", "[FILE]"),
}
"""Commands of `%af` that need no workbench: the function, which gets the arguments and the variables; the help."""
