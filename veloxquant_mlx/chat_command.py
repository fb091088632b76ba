"""``veloxquant chat``: one prompt through a cache, which a file can keep for the next."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import (
    add_method,
    add_model,
    add_sampling,
    count,
    progress_bar,
    read_sampling,
    resolve_model,
)
from .config import DEFAULT_METHOD
from .errors import VeloxQuantError
from .spelling import read_method

if TYPE_CHECKING:
    from .prompt import Turn


def add_chat(commands: Any, common: argparse.ArgumentParser) -> None:
    """Hook the command into the parser's ``commands``."""
    parser = commands.add_parser("chat", parents=[common], help="answer one prompt through a cache")
    add_model(parser)
    add_method(parser)
    parser.add_argument("--prompt", required=True, help="the message; '-' reads it from standard input")
    parser.add_argument(
        "--max-tokens", type=count, default=256, metavar="N", help="most tokens to write (256)"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="keep the cache and the conversation in this file"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE",
        help="go on with a saved conversation through its cache; nothing it holds is read again",
    )  # fmt: skip
    add_sampling(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Answer the prompt and print the reply, the table of slots and the figures."""
    config = read_method(options.method, options.preset, options.set)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise VeloxQuantError("The prompt is empty: write something after --prompt.")
    if options.resume is not None and (options.preset or options.set or options.method != DEFAULT_METHOD):
        raise VeloxQuantError(
            "A saved cache goes on with its own setting: leave out --method, --preset and --set."
        )
    if options.save is not None and not options.save.absolute().parent.is_dir():
        raise VeloxQuantError(f"There is no folder {options.save.parent} to save into: make it first.")

    from . import attention
    from .builder import KVCacheBuilder
    from .live import LiveCache, live_for
    from .models.load import load_model
    from .prompt import encode_within
    from .steps import FinishedStep, TokenStep
    from .storage import load, save
    from .tables import figures_line, slot_table

    with progress_bar(options.json) as progress:
        loaded = load_model(resolve_model(options.model, progress), progress)
    attention.enable(loaded.model)
    saved = load(options.resume, loaded) if options.resume is not None else None
    turns: list[Turn] = [*(saved.turns if saved else ()), ("user", prompt)]
    tokens = encode_within(loaded, turns)
    config = saved.config if saved else config
    plan = KVCacheBuilder.plan(loaded.model, config)
    live, reuse = live_for(
        tokens,
        LiveCache(saved.caches, saved.tokens) if saved else None,
        saved.tokens if saved else (),
        lambda: KVCacheBuilder.for_model(loaded.model, config),
    )
    del saved
    for step in live.steps(
        loaded.model, loaded.tokenizer, tokens, reuse,
        max_tokens=options.max_tokens, sampling=read_sampling(options),
        context=loaded.context,
    ):  # fmt: skip
        if isinstance(step, TokenStep) and not options.json:
            print(step.text, end="", flush=True)
        elif isinstance(step, FinishedStep):
            finished = step
    if options.save is not None:
        turns.append(("assistant", finished.text))
        save(options.save, live.caches, model=loaded, config=config, tokens=live.held or (), turns=turns)
    if options.json:
        record = {
            "model": loaded.info.name,
            "compute": loaded.compute,
            "config": config.as_dict(),
            "plan": plan.words,
            "prompt": prompt,
            "reply": finished.text,
            "reason": finished.reason,
            "prompt_tokens": finished.prompt_tokens,
            "kept_tokens": reuse.kept,
            "tokens_read_again": reuse.again,
            "reply_tokens": finished.reply_tokens,
            "prefill_tokens_per_second": finished.prefill_speed,
            "decode_tokens_per_second": finished.decode_speed,
            "cache": finished.snapshot.as_dict(),
        }
        print(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        print(f"\n\n{slot_table(finished.snapshot)}\n\n{plan.words}\n{figures_line(finished)}")
    return 0
