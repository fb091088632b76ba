"""``veloxquant serve``: an OpenAI-compatible endpoint on this computer, with compressed caches."""

import argparse
import json
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .arguments import add_model, count, progress_bar, resolve_model
from .spelling import read_method

if TYPE_CHECKING:
    from .server import Serving
    from .telemetry import CacheSnapshot

_USUAL = "skvq:Balanced"
_HERE = ("127.0.0.1", "localhost", "::1")


def add_serve(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "serve", parents=[common], help="answer OpenAI clients through a compressed cache"
    )
    add_model(parser)
    parser.add_argument(
        "--method", default=_USUAL, metavar="NAME[:PRESET][,FIELD=VALUE...]", help=f"the cache ({_USUAL})"
    )
    parser.add_argument("--host", default=_HERE[0], metavar="H", help="address to listen on (127.0.0.1)")
    parser.add_argument(
        "--port", type=_port, default=8080, metavar="P", help="port; 0 takes a free one (8080)"
    )
    parser.add_argument(
        "--max-tokens", type=count, default=512, metavar="N", help="of answers that ask for no number (512)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    config = read_method(options.method)

    from .server import serve

    if not options.verbose:
        # mlx_lm logs requests that are refused with all that is in them; the client is told the reason.
        logging.getLogger().setLevel(logging.CRITICAL)
        logging.getLogger("veloxquant_mlx").setLevel(logging.ERROR)

    bar = ExitStack()

    def ready(serving: "Serving") -> None:
        bar.close()
        if options.json:
            record = {"url": serving.url, "model": serving.model, "compute": serving.compute}
            record |= {"config": config.as_dict(), "plan": serving.plan.words}  # type: ignore[dict-item]
            print(json.dumps(record), flush=True)
            return
        print(f"{serving.model}, {serving.compute}, through {config.label}. {serving.plan.words}")
        print(f"Serving at {serving.url}, one request at a time; Ctrl-C ends it.", flush=True)
        if options.host not in _HERE:
            print(f"Everyone who reaches {options.host} can use it: there is no password.", flush=True)

    def answered(snapshot: "CacheSnapshot") -> None:
        if not options.json:
            print(_figures(snapshot), flush=True)

    with bar:
        progress = bar.enter_context(progress_bar(options.json))
        folder = resolve_model(options.model, progress)
        serve(
            folder, config, host=options.host, port=options.port, max_tokens=options.max_tokens,
            ready=ready, answered=answered, progress=progress,
        )  # fmt: skip
    return 0


def _figures(snapshot: "CacheSnapshot") -> str:
    ratio = snapshot.ratio
    smaller = "nothing compressed yet" if ratio is None else f"{ratio:.1f} times smaller, counted end to end"
    return (
        f"Answered: {snapshot.tokens:,} tokens in the cache, {snapshot.resident_bytes / 1e6:.1f} MB resident "
        f"against {snapshot.reference_bytes / 1e6:.1f} MB at 16 bits; {smaller}."
    )


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError("must be 0 to 65535")
    return value
