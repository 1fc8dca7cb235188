"""ArtifactFlow NB: a research workbench that lives in the notebook.

Names are loaded on first use, so that `import artifactflow_nb` costs next to nothing.
"""

__version__ = "0.1.0"
