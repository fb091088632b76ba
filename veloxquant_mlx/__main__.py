"""Command line: chat, measure, plan, report, serve, models, methods, download, import."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .arguments import progress_bar
from .chat_command import add_chat
from .config import KVCacheConfig, methods
from .errors import Cancelled, VeloxQuantError
from .measure_command import add_measure
from .openblas import ensure_openblas
from .plan_command import add_plan
from .report_command import add_report
from .serve_command import add_serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    The exit code is 0, 1 after an error told in one sentence, 130 after Ctrl-C, or 141 when the reader of
    what is printed went away.
    """
    if arguments is None:
        ensure_openblas()
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.ERROR, stream=sys.stderr)
    try:
        code = int(options.run(options) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _print_no_more()
        return 141
    except VeloxQuantError as error:
        return _refused(str(error), options.verbose)
    except OSError as error:
        _print_no_more()
        return _refused(
            f"The system refused a step of this ({error.strerror or error}); run it again with --verbose to "
            "see the details.",
            options.verbose,
        )
    except (KeyboardInterrupt, Cancelled):
        print("\nveloxquant: stopped.", file=sys.stderr)
        return 130
    except Exception as error:
        return _refused(
            f"Something unexpected stopped this ({type(error).__name__}); run it again with --verbose to see "
            "the details.",
            options.verbose,
        )


def _refused(sentence: str, verbose: bool) -> int:
    """Say why in one sentence; with ``verbose`` the error being handled goes on its way."""
    if verbose:
        raise
    print(f"veloxquant: {sentence}", file=sys.stderr)
    return 1


def _print_no_more() -> None:
    """Send what is still to be printed nowhere: Python would try, and fail, once more at its end."""
    own = sys.__stdout__
    if own is not None and sys.stdout is own:
        os.dup2(os.open(os.devnull, os.O_WRONLY), own.fileno())


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    common.add_argument("--verbose", action="store_true", help="log details and show tracebacks")
    parser = argparse.ArgumentParser(prog="veloxquant", description="KV-cache compression for MLX models.")
    parser.add_argument("--version", action="version", version=version("veloxquant-studio"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add_chat(commands, common)
    add_measure(commands, common)
    add_plan(commands, common)
    add_report(commands, common)
    add_serve(commands, common)

    found = commands.add_parser("models", parents=[common], help="list the models on this computer")
    found.add_argument("folders", nargs="*", type=Path, help="more folders to look in")
    found.set_defaults(run=_models)

    known = commands.add_parser("methods", parents=[common], help="list the caches and their parameters")
    known.set_defaults(run=_methods)

    fetching = commands.add_parser(
        "download", parents=[common],
        help="fetch a model from the Hugging Face Hub, or go on with one that was stopped",
    )  # fmt: skip
    fetching.add_argument("name", metavar="OWNER/NAME", help="the repository, or the address of its page")
    fetching.add_argument(
        "--forget", action="store_true", help="remove what has come of it instead; a whole model stays"
    )
    fetching.set_defaults(run=_download)

    importing = commands.add_parser(
        "import", parents=[common], help="convert a .gguf file into a model folder"
    )
    importing.add_argument("file", type=Path)
    importing.add_argument("--to", type=Path, metavar="FOLDER", help="where to put the folder")
    importing.set_defaults(run=_import)
    return parser


def _models(options: argparse.Namespace) -> int:
    from .models.find import find_models
    from .tables import model_table

    found = find_models(options.folders)
    if options.json:
        told = [{k: v for k, v in asdict(model).items() if k not in ("layout", "body")} for model in found]
        print(json.dumps(told, indent=2, default=str))
    elif found:
        print(model_table(found))
    else:
        print("No models found on this computer; 'veloxquant chat --model starter' fetches a small one.")
    return 0


def _methods(options: argparse.Namespace) -> int:
    from .tables import method_text

    known = methods()
    if options.json:
        print(json.dumps({key: _described(declared) for key, declared in known.items()}, indent=2))
    else:
        print("\n\n".join(method_text(key, declared) for key, declared in known.items()))
    return 0


def _described(declared: type[KVCacheConfig]) -> dict[str, Any]:
    return {
        "label": declared.label,
        "summary": declared.summary,
        "paper": declared.paper,
        "presets": declared.presets,
        "parameters": [
            {
                "name": spec.name, "type": spec.type.__name__, "optional": spec.optional,
                "default": spec.default, "label": spec.param.label, "unit": spec.param.unit,
                "help": spec.param.help,
                "low": spec.param.low, "high": spec.param.high, "step": spec.param.step,
                "choices": list(spec.param.choices), "extension": spec.param.extension,
            }
            for spec in declared.fields()
        ],
    }  # fmt: skip


def _download(options: argparse.Namespace) -> int:
    from .models.hub import download, forget

    if options.forget:
        forget(options.name)
        print(json.dumps({"folder": None}) if options.json else "Nothing of it is kept.")
        return 0
    with progress_bar(options.json) as progress:
        folder = download(options.name, progress)
    print(json.dumps({"folder": str(folder)}) if options.json else f"Downloaded into {folder}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from .models.gguf import import_gguf

    with progress_bar(options.json) as progress:
        folder = import_gguf(options.file.expanduser(), options.to, progress)
    print(json.dumps({"folder": str(folder)}) if options.json else f"Imported into {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
