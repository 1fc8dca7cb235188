"""`ModelConnection`: the form that connects a model, with the endpoint's models, a test call and the code to run.

The key is never typed: the form asks for the name of the environment variable that contains the key.
"""

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.messages import Message
from artifactflow_nb.core.text.content_style import highlight
from artifactflow_nb.core.text.format import translate_count, translate_duration
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import FormError
from artifactflow_nb.models.base import AttemptStart, ModelReply, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.errors import public_url
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.nodes import Node

_DEFAULT_KEY = "OPENAI_API_KEY"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE_ADDRESS = "http://localhost:11434/v1"
_TEST_PROMPT = "Reply with the single word: ready"


class ModelConnection:
    """State of the form.

    Args:
        settings: The settings of the workbench, whose endpoint is proposed.

    Attributes:
        is_tested: Whether the chosen model has answered.
    """

    def __init__(self, settings: Settings) -> None:
        # The fields keep their initial values, because the page rebuilds a form when its data change.
        self._first_address = self._address = public_url(settings.base_url) if settings.base_url else ""
        self._first_model = self._model = settings.model or ""
        self._key_name = _DEFAULT_KEY
        self._models: tuple[str, ...] = ()
        self._is_checked = False
        self.is_tested = False

    def nodes(self) -> tuple[Node, ...]:
        """Return the form of the endpoint; then the form of its models, and the code."""
        endpoint = (
            Field(
                "address",
                "text",
                self._first_address,
                translate("Endpoint"),
                doc=translate("An OpenAI-compatible address."),
                placeholder=_EXAMPLE_ADDRESS,
                keep=True,
            ),
            Field(
                "key_name",
                "text",
                _DEFAULT_KEY,
                translate("Environment variable with the key"),
                doc=translate("The key is read from the variable, never stored. Empty for an endpoint without a key."),
                keep=True,
            ),
        )
        forms = [
            form_node(
                "connect-form",
                "list_models",
                translate("List its models"),
                translate("Connect a model"),
                endpoint,
                css="af-connect",
                is_sent_by_enter=True,
            )
        ]
        if self._is_checked:
            field = Field("model", "text", self._first_model, translate("Model"), keep=True)
            if self._models:
                value = self._first_model if self._first_model in self._models else self._models[0]
                field = Field("model", "choice", value, translate("Model"), self._models, keep=True)
            forms.append(
                form_node(
                    "test-form",
                    "test_model",
                    translate("Test call"),
                    translate("Test a model"),
                    [field],
                    css="af-connect",
                    is_sent_by_enter=True,
                )
            )
        if self.is_tested:
            code = Node("connect-code", f'<pre tabindex="0">{highlight(self.code, "python")}</pre>', css="af-md")
            add = form_node(
                "connect-add",
                "add_connection",
                translate("Add to notebook"),
                translate("Use the model"),
                (),
                css="af-connect",
            )
            forms += [code, add]
        return (Node("connect", kind="box", css="af-home-connect", children=tuple(forms)),)

    @property
    def code(self) -> str:
        """Python code that makes the connection."""
        key = f"    api_key=os.environ[{self._key_name!r}],\n" if self._key_name else ""
        imports = "import os\n\nimport artifactflow_nb as af" if key else "import artifactflow_nb as af"
        address = f"    base_url={self._address!r},\n" if self._address else ""
        return f"{imports}\n\nwb = af.Workbench(\n{address}    model={self._model!r},\n{key})"

    async def list_models(self, values: Mapping[str, Any]) -> str:
        """List the models of an endpoint.

        Errors: `FormError` for a variable that is not set; errors of `OpenAIModel`.
        """
        address, key_name = (str(values.get(name) or "").strip() for name in ("address", "key_name"))
        # The value may be a key that was pasted by mistake, so the value is neither stored nor repeated.
        if key_name and not _VARIABLE.fullmatch(key_name):
            raise FormError({"key_name": translate("Write the name of an environment variable, not the key.")})
        if key_name and not os.environ.get(key_name):
            problem = translate(
                "No environment variable of this name is set. Set it before Jupyter starts, or in a cell: "
                "import getpass, os; os.environ[name] = getpass.getpass()"
            )
            raise FormError({"key_name": problem})
        model = OpenAIModel(address or None, os.environ.get(key_name) if key_name else None, "")
        self._address, self._key_name = model.address if address else "", key_name
        self._models, self._is_checked, self.is_tested = (), True, False  # without a list, a name can be typed
        try:
            self._models = tuple(await model.list_models())
        finally:
            await model.aclose()
        return translate("The endpoint has {models}.", models=translate_count(len(self._models), "model"))

    async def test_model(self, values: Mapping[str, Any]) -> str:
        """Make a call to the chosen model, and return its time and tokens.

        Errors: `FormError` without a model; errors of `OpenAIModel`.
        """
        name = str(values.get("model") or "").strip()
        if not name:
            raise FormError({"model": translate("Choose a model.")})
        key = os.environ.get(self._key_name) if self._key_name else None
        model = OpenAIModel(self._address or None, key, name, timeout_s=60)
        request = ModelRequest((Message("user", _TEST_PROMPT),), max_retries=0)
        started = time.perf_counter()
        try:
            reply = None
            async for event in model.stream(request):
                started = time.perf_counter() if isinstance(event, AttemptStart) else started
                reply = event if isinstance(event, ModelReply) else reply
        finally:
            await model.aclose()
        self._model, self.is_tested = name, True
        ms = (time.perf_counter() - started) * 1000
        n_tokens = reply.usage.input_tokens + reply.usage.output_tokens if reply else 0
        tokens = translate_count(n_tokens, "token")
        return translate(
            "{model} answered in {time} with {tokens}. The workbench keeps its model until you run the code below.",
            model=name,
            time=translate_duration(ms),
            tokens=tokens,
        )
