"""``veloxquant measure``: several caches on one text, in figures."""

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_model, count, count_from_zero, progress_bar, resolve_model
from .atomic import write_atomic
from .errors import VeloxQuantError
from .spelling import read_method

if TYPE_CHECKING:
    from .fidelity import Measurement

_USUAL = "skvq:Balanced"


def add_measure(commands: Any, common: argparse.ArgumentParser) -> None:
    """Hook the command into the parser's ``commands``."""
    parser = commands.add_parser(
        "measure", parents=[common], help="compare caches with the uncompressed one on a text",
        description="Feed a text through several caches side by side and tell what each costs in answers, "
        "saves in memory and takes in time. The uncompressed cache always runs as the reference.",
    )  # fmt: skip
    add_model(parser)
    parser.add_argument(
        "--method", action="append", metavar="NAME[:PRESET][,FIELD=VALUE...]",
        help=f"a cache to measure; may be repeated ({_USUAL}). 'plain' once more shows their scatter",
    )  # fmt: skip
    parser.add_argument(
        "--text", default="twelfth-night", metavar="FILE",
        help="a UTF-8 text file, or the bundled 'twelfth-night' or 'hamlet' (twelfth-night)",
    )  # fmt: skip
    parser.add_argument("--tokens", type=count, default=2048, metavar="N", help="tokens to feed (2048)")
    parser.add_argument(
        "--skip", type=count_from_zero, default=1000, metavar="N",
        help="leave out the text's first N tokens (1000)",
    )  # fmt: skip
    parser.add_argument("--block", type=count, default=128, metavar="N", help="tokens fed at once (128)")
    parser.add_argument(
        "--start", type=count_from_zero, default=256, metavar="N", help="score from this token on (256)"
    )
    parser.add_argument(
        "--decode", action="store_true", help="feed the scored tokens one at a time instead of in blocks"
    )
    parser.add_argument(
        "--decode-steps", type=count_from_zero, default=32, metavar="N",
        help="single tokens after the text, for decode speed and peak (32; not with --decode)",
    )  # fmt: skip
    parser.add_argument(
        "--slots",
        action="store_true",
        help="also each slot: attention error, bits above the theoretical limit",
    )
    parser.add_argument("--dense", action="store_true", help="decode all rows instead of attending on codes")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one row per cache into this file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure and tell; 130 when stopped half-way, with what was done until then."""
    configs = [read_method(text) for text in options.method or [_USUAL]]
    if options.tokens <= options.start:
        raise VeloxQuantError(
            f"Scores begin at token {options.start:,}, but --tokens feeds {options.tokens:,}: raise --tokens "
            "or lower --start."
        )
    _refuse_unwritable(options.csv)

    from .fidelity import cut, measure, read_text
    from .measure_table import csv_text, tables

    text = read_text(options.text)

    from .models.load import load_model

    # The bar goes to standard error, so it does no harm to --json.
    with progress_bar(quiet=False) as progress:
        loaded = load_model(resolve_model(options.model, progress), progress)
        tokens = cut(loaded.tokenizer, text, options.skip, options.tokens, Path(options.text).name)
        needed = options.tokens + (0 if options.decode else options.decode_steps + 1)
        if loaded.context is not None and needed > loaded.context:
            raise VeloxQuantError(
                f"{needed:,} tokens are to be fed, decode steps included, but {loaded.info.name} reads "
                f"at most {loaded.context:,}: lower --tokens."
            )
        found = measure(
            loaded.model, tokens, configs,
            block=options.block, start=options.start, decode=options.decode,
            decode_steps=options.decode_steps, slots=options.slots, on_codes=not options.dense,
            progress=progress,
        )  # fmt: skip

    if options.json:
        print(json.dumps(_record(options, loaded, found), indent=2, ensure_ascii=False))
    else:
        print(f"{loaded.info.name}, {loaded.compute}, {_words(options)}.\n\n{tables(found)}")
    if options.csv is not None:
        _write(options.csv, csv_text(found))
    if not found.complete:
        print(
            f"\nveloxquant: stopped after {found.tokens_done:,} of {found.tokens:,} tokens; the figures are "
            "those until then.",
            file=sys.stderr,
        )
        return 130
    return 0


def _words(options: argparse.Namespace) -> str:
    fed = f"one at a time from {options.start:,}" if options.decode else f"scored from {options.start:,}"
    span = f"{options.skip:,} to {options.skip + options.tokens:,}"
    return f"tokens {span} of {Path(options.text).name} in blocks of {options.block:,}, {fed}"


def _record(options: argparse.Namespace, loaded: Any, found: "Measurement") -> dict[str, Any]:
    return {
        "model": loaded.info.name,
        "fingerprint": loaded.fingerprint,
        "compute": loaded.compute,
        "versions": {name: version(name) for name in ("veloxquant-studio", "mlx", "mlx-lm")},
        "text": {"name": Path(options.text).name, "skipped": options.skip},
        **found.as_dict(),
    }


def _refuse_unwritable(path: Path | None) -> None:
    """Before minutes of work, not after them."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise VeloxQuantError(f"{path} can't be written: --csv wants a file in a folder that exists.")


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(path, text.encode())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise VeloxQuantError(f"{path} can't be written ({reason}): choose another place.") from error
