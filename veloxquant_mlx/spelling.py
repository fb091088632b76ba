"""A configuration in words, both ways: ``skvq:Balanced,skvq_bits_key=4``; and as Python and as a command."""

import json
import re
import shlex
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


def read_method(text: str, preset: str | None = None, assignments: Sequence[str] = ()) -> KVCacheConfig:
    """The configuration that ``NAME[:Preset][,field=value...]`` stands for; raises as ``read_config``.

    ``preset`` is for a text without one; ``assignments`` win over the text's.
    """
    name, *fields = _NEXT_FIELD.split(text)
    name, _, own = (part.strip() for part in name.partition(":"))
    if own and preset:
        raise VeloxQuantError(f"Two presets were named, {own} and {preset}: leave one of them out.")
    return read_config(name, own or preset, [*fields, *assignments])


def spell_method(config: KVCacheConfig) -> str:
    """The shortest words that ``read_method`` turns into ``config`` again."""
    preset = config.preset_name()
    return ",".join([config.method if preset is None else f"{config.method}:{preset}", *_assignments(config)])


def spell_command(config: KVCacheConfig, model: str = "starter", prompt: str = "Hello") -> str:
    """A command line for a shell that answers one prompt through this configuration."""
    return shlex.join(
        ["veloxquant", "chat", "--model", model, "--method", spell_method(config), "--prompt", prompt]
    )


def spell_python(config: KVCacheConfig) -> str:
    """Python that makes this configuration and a cache of it; it needs a ``model`` of mlx_lm's."""
    changed = _changed(config, type(config)())
    arguments = [f"method={config.method!r}", *(f"{name}={value!r}" for name, value in changed.items())]
    call = f"KVCacheConfig({', '.join(arguments)})"
    if len(call) > 80:
        call = "KVCacheConfig(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"
    return (
        "from veloxquant_mlx import KVCacheBuilder, KVCacheConfig\n\n"
        f"config = {call}\n"
        "cache = KVCacheBuilder.for_model(model, config)  # model, tokenizer = mlx_lm.load(...)\n"
    )


def _assignments(config: KVCacheConfig) -> list[str]:
    """``FIELD=VALUE`` for what differs from the preset of the same values, or from the defaults."""
    preset = config.preset_name()
    base = type(config).preset(preset) if preset else type(config)()
    return [
        f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in _changed(config, base).items()
    ]


def _changed(config: KVCacheConfig, base: KVCacheConfig) -> dict[str, Any]:
    """Field -> value where the two differ."""
    values = {spec.name: getattr(config, spec.name) for spec in config.fields()}
    return {name: value for name, value in values.items() if value != getattr(base, name)}


def _value(text: str) -> Any:
    try:
        return json.loads(text.replace("True", "true").replace("False", "false").replace("None", "null"))
    except json.JSONDecodeError:
        return text
