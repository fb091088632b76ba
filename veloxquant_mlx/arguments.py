"""What the commands share: their arguments, the folder behind ``--model``, the progress bar."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import paths
from .config import DEFAULT_METHOD
from .declared import Field
from .errors import ModelError, QuantizerConfigError
from .progress import Progress, silent
from .sampling import Sampling


def add_model(parser: argparse.ArgumentParser) -> None:
    """``--model``."""
    parser.add_argument(
        "--model",
        default="starter",
        metavar="M",
        help="a model folder, the OWNER/NAME of one found on this machine, or 'starter' (fetched once)",
    )


def add_method(parser: argparse.ArgumentParser) -> None:
    """``--method``, ``--preset`` and ``--set`` for a command that takes one cache."""
    parser.add_argument(
        "--method", default=DEFAULT_METHOD, metavar="NAME[:PRESET][,FIELD=VALUE...]",
        help="see 'veloxquant methods' (skvq)",
    )  # fmt: skip
    parser.add_argument("--preset", metavar="NAME", help="the preset, where --method names none")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="set one parameter; may be repeated"
    )


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def count_from_zero(text: str) -> int:
    """A whole number of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be at least 0")
    return value


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """``--temperature``, ``--top-p`` and all else that Sampling declares; its longest reply aside."""
    group = parser.add_argument_group("sampling")
    for spec in _sampling():
        unit = f" {spec.param.unit}" if spec.param.unit else ""
        default = "none" if spec.default is None else f"{spec.default:g}"
        group.add_argument(
            f"--{spec.name.replace('_', '-')}",
            type=_checked(spec),
            default=spec.default,
            metavar=spec.name[0].upper(),
            help=f"{spec.param.low:g} to {spec.param.high:g}{unit}. {spec.param.help} ({default})",
        )


def read_sampling(options: argparse.Namespace) -> Sampling:
    """What ``add_sampling`` took in."""
    return Sampling(**{spec.name: getattr(options, spec.name) for spec in _sampling()})


def _sampling() -> list[Field]:
    # A command has a limit of its own that begins lower than a conversation's.
    return [spec for spec in Sampling.fields() if spec.name != "max_tokens"]


def _checked(spec: Field) -> Callable[[str], Any]:
    """A value of one field, refused in its own words."""

    def read(text: str) -> Any:
        try:
            return getattr(Sampling(**{spec.name: spec.type(text)}), spec.name)
        except QuantizerConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    read.__name__ = f"{spec.type.__name__} value"
    return read


def resolve_model(name: str, progress: Progress) -> Path:
    """The folder a ``--model`` argument names; fetches the starter model when it is asked for.

    A name as ``veloxquant models`` lists it stands for that model. Raises ModelError for an OWNER/NAME that
    is not on this machine.
    """
    if name == "starter":
        from .models.starter import starter_model

        return starter_model(progress)
    path = Path(name).expanduser()
    if path.exists() or path.is_absolute():
        return path
    own = paths.models_dir() / path
    return own if own.is_dir() else _found(name) or path


def _found(name: str) -> Path | None:
    """The model that goes by this name on this machine. Raises ModelError for an OWNER/NAME none has."""
    from .models.find import find_models

    for model in find_models():
        if model.name == name:
            return model.path
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(
            f"There is no model {name} on this machine: 'veloxquant models' lists those that are here, and "
            f"'veloxquant download {name}' fetches one from the Hub."
        )
    return None


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """Progress as a bar on standard error that is gone in the end; nothing where that is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    # Drawn when it is told something, not by a thread of its own: what is being timed stays undisturbed.
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )
    with bar:
        task = bar.add_task("", total=None)

        def report(fraction: float | None, words: str) -> None:
            known = fraction is not None
            bar.update(task, description=words, total=1.0 if known else None, completed=fraction or 0.0)
            bar.refresh()

        yield report
