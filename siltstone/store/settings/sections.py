"""What the sections of ``siltstone.yaml`` have in common: they are frozen, and know their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _count(value: object) -> object:
    fits = isinstance(value, int | str) and not isinstance(value, bool)
    if not fits:
        raise ValueError(f"not a whole number: {value!r}")
    return value


Count = Annotated[int, BeforeValidator(_count), Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A part of the file. Unknown keys are refused, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class PluginSection(Section):
    """A section that names a plugin and holds the plugin's options under the plugin's own name.

    Attributes:
        options: what the plugin gets; not shown by ``repr``, since it may hold secrets.
    """

    options: Mapping[str, Any] = Field(default_factory=dict, repr=False, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _take_options(cls, data: Any) -> Any:
        """Move what stands under the plugin's name to ``options``; other names are refused."""
        if not isinstance(data, Mapping):
            return data
        values = dict(data)
        if "options" in values:
            raise ValueError("unknown key: options; options stand under the name of the plugin")
        name = values.get(cls.plugin_key())
        if isinstance(name, str) and name not in cls.model_fields and name in values:
            options = values.pop(name)
            if options is not None and not isinstance(options, Mapping):
                raise ValueError(f"what stands under {name!r} must be keys and values")
            values["options"] = options or {}
        return values

    @classmethod
    def plugin_key(cls) -> str:
        """The key that names the plugin: the first field of the section's own."""
        return next(name for name in cls.model_fields if name != "options")
