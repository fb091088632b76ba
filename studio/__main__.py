"""Start the studio: ``python -m studio`` or ``veloxquant-studio``."""

import time

_STARTED = time.perf_counter()

import argparse  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from importlib.metadata import version  # noqa: E402
from pathlib import Path  # noqa: E402

from studio.core.fetching import FLAG  # noqa: E402
from veloxquant_mlx.openblas import ensure_openblas  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app, or its self-test; returns the exit code."""
    if arguments is None:
        ensure_openblas()
    options = _parser().parse_args(arguments)
    from studio.core.crashes import recorded
    from studio.core.log import start_log

    # Telemetry of the libraries below: nothing leaves the machine unasked.
    os.environ |= {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
    if options.fetch is not None:
        from studio.core.fetching import fetch

        return fetch(options.fetch, sys.stdout)
    start_log()
    with recorded(os.getpid()):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    from PySide6.QtCore import Qt

    scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(options.theme)
    model = options.model or options.path
    if options.print_report:
        return _print_report(options.print_report)
    if options.first_window:
        from studio.first_window import first_window

        return first_window(scheme, _STARTED)
    if options.self_test is not None:
        from studio.selftest import self_test

        return self_test(options.self_test, model, scheme, _STARTED)
    from studio.app import run

    return run(model, scheme)


def _print_report(paths: list[Path]) -> int:
    """For ``veloxquant report --pdf`` and ``--charts``: no window, no engine."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtGui import QGuiApplication

    from studio.ui.report_pages import print_reports
    from veloxquant_mlx.errors import VeloxQuantError

    app = QGuiApplication([])
    try:
        print_reports(paths)
    except VeloxQuantError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        app.shutdown()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="veloxquant-studio", description=__doc__)
    parser.add_argument("--version", action="version", version=version("veloxquant-studio"))
    parser.add_argument("path", nargs="?", metavar="MODEL", help="the same as --model, as desktops give it")
    parser.add_argument(
        "--model", metavar="M", help="open this model folder or .gguf file; 'starter' is fetched once"
    )
    parser.add_argument(FLAG, dest="fetch", help=argparse.SUPPRESS)
    parser.add_argument("--theme", choices=("light", "dark"), help="instead of the system's")
    parser.add_argument(
        "--self-test", type=Path, metavar="DIR",
        help="use the app once from end to end, try every method, save what was found in DIR, and exit",
    )  # fmt: skip
    parser.add_argument(
        "--print-report", nargs="+", type=Path, metavar="FILE",
        help="write the last file as PDF from the report, or the two to compare, before it, or the charts as "
        "PNG into the last folder, and exit",
    )  # fmt: skip
    parser.add_argument(
        "--first-window", action="store_true", help="open the window, print the seconds it took, and exit"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
