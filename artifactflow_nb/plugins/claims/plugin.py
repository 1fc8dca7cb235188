"""The plugin `claims` as the engine sees it."""

from artifactflow_nb.engine.plugin import Plugin

CLAIMS = Plugin("claims")
