"""A setting in as few words as tell it from others: the nearest preset and what differs from it."""

from studio.ui import words
from veloxquant_mlx.config import KVCacheConfig


def setting_words(config: KVCacheConfig) -> str:
    """``SKVQ Balanced``, or ``SKVQ Balanced, key bits 4, value bits 3``."""
    if name := config.preset_name():
        return f"{config.label} {name}"
    nearest, title = type(config)(), config.label
    differing = _differing(config, nearest)
    for name in config.presets:
        preset = type(config).preset(name)
        if title == config.label or len(_differing(config, preset)) < len(differing):
            nearest, title = preset, f"{config.label} {name}"
            differing = _differing(config, nearest)
    return ", ".join([title, *differing])


def _differing(config: KVCacheConfig, other: KVCacheConfig) -> list[str]:
    found = []
    for spec in config.fields():
        value = getattr(config, spec.name)
        if value != getattr(other, spec.name):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            shown = words.number(value) if number else str(value)
            found.append(f"{spec.param.label.lower()} {shown}")
    return found
