"""The Agent Client Protocol: editors and chats ask the workbench, and an agent of a command line can be its model.

`agent.py` is the agent that `python -m artifactflow_nb acp` starts, `command.py` the command, and `model.py` the model.
Nothing of the package imports this folder: `artifactflow_nb.plugins` names the command and the model.
"""
