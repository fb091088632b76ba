"""Start the studio: ``python -m studio`` or ``veloxquant-studio``."""

import time

_STARTED = time.perf_counter()

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from importlib.metadata import version  # noqa: E402
from pathlib import Path  # noqa: E402

from veloxquant_mlx.openblas import ensure_openblas  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app, or its self-test; returns the exit code."""
    if arguments is None:
        ensure_openblas()
    options = _parser().parse_args(arguments)
    from studio.core.log import start_log

    start_log()
    from PySide6.QtCore import Qt

    scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(options.theme)
    if options.self_test is not None:
        from studio.selftest import self_test

        return self_test(options.self_test, options.model or "starter", scheme, _STARTED)
    from studio.app import run

    return run(options.model, scheme)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="veloxquant-studio", description=__doc__)
    parser.add_argument("--version", action="version", version=version("veloxquant-studio"))
    parser.add_argument(
        "--model", metavar="M", help="open this model folder or .gguf file; 'starter' is fetched once"
    )
    parser.add_argument("--theme", choices=("light", "dark"), help="instead of the system's")
    parser.add_argument(
        "--self-test", type=Path, metavar="DIR",
        help="load a model, send one prompt, save report.json, window.png and timings.json, and exit",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
