"""A configuration in words, both ways: ``skvq:Balanced,skvq_bits_key=4``."""

import json
import re
from collections.abc import Sequence
from typing import Any

from .config import KVCacheConfig, method_class
from .errors import VeloxQuantError

_NEXT_FIELD = re.compile(r",(?=\s*[A-Za-z_]\w*\s*=)")
"""Commas between fields, not those inside a list such as [8,4,2]."""


def read_config(method: str, preset: str | None, assignments: Sequence[str]) -> KVCacheConfig:
    """A configuration from command-line words.

    Args:
        method: its key. preset: name in any case, or None for the defaults.
        assignments: ``FIELD=VALUE`` each; they win over the preset.

    Raises VeloxQuantError, as QuantizerConfigError naming the field where one is at fault.
    """
    declared = method_class(method)
    values: dict[str, Any] = {}
    if preset is not None:
        by_name = {name.lower(): name for name in declared.presets}
        values |= declared.preset(by_name.get(preset.lower(), preset)).as_dict()
        del values["method"]
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise VeloxQuantError(
                f"A parameter is set as FIELD=VALUE, for example skvq_bits_key=4, not '{assignment}'."
            )
        values[name.strip()] = _value(text.strip())
    return declared(**values)


def read_method(text: str) -> KVCacheConfig:
    """The configuration that ``NAME[:Preset][,field=value...]`` stands for; raises as ``read_config``."""
    parts = _NEXT_FIELD.split(text)
    name, _, preset = parts[0].partition(":")
    return read_config(name.strip(), preset.strip() or None, parts[1:])


def spell_method(config: KVCacheConfig) -> str:
    """The shortest words that ``read_method`` turns into ``config`` again."""
    preset = config.preset_name()
    base = type(config).preset(preset) if preset else type(config)()
    usual = base.as_dict()
    changed = [
        f"{name}={json.dumps(value, separators=(',', ':'))}"
        for name, value in config.as_dict().items()
        if value != usual[name]
    ]
    return ",".join([config.method if preset is None else f"{config.method}:{preset}", *changed])


def _value(text: str) -> Any:
    try:
        return json.loads(text.replace("True", "true").replace("False", "false").replace("None", "null"))
    except json.JSONDecodeError:
        return text
