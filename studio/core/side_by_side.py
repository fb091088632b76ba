"""The same prompt through several caches, one after the other on the same model. No Qt."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import mlx.core as mx

from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import KeptRows, Replayed, ReplyFidelity, Spoken, replay
from veloxquant_mlx.generation import Stop, generate, never
from veloxquant_mlx.models.load import LoadedModel
from veloxquant_mlx.pieces import Pieces
from veloxquant_mlx.prompt import Turn, encode_within
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import FinishedStep, TokenStep

MOST = 3
"""Columns at once: more can't be read side by side."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One column as far as it is."""

    column: int
    config: KVCacheConfig
    text: str = ""
    tokens: int = 0
    doing: str = ""
    """What is done for it now; '' once it is whole."""
    counted: int | None = None
    """Bytes of the cache at the end (counted)."""
    resident: int | None = None
    """Bytes of its arrays (measured)."""
    reference: int | None = None
    """The same tokens at 16 bits (counted)."""
    prefill_speed: float | None = None
    decode_speed: float | None = None
    """Tokens per second (measured)."""
    pieces: tuple[str, ...] = ()
    """Text of every token, once they are compared."""
    fidelity: ReplyFidelity | None = None
    """Against the uncompressed cache, over this column's own words."""

    @property
    def whole(self) -> bool:
        """Whether every figure is there."""
        return not self.doing


def side_by_side(
    loaded: LoadedModel,
    turns: Sequence[Turn],
    configs: Sequence[KVCacheConfig],
    sampling: Sampling,
    *,
    stop: Stop = never,
) -> Generator[Answer]:
    """Answer the same turns through every configuration, each with a cache of its own that is then dropped.

    The live conversation is not touched. After each answer the uncompressed cache reads it, as after a reply
    in the chat, so that KL and agreement are of the words really written.

    Yields an Answer whenever there is something new; ``whole`` ones end their column. Stops between blocks
    and tokens, and then ends without a word.
    Raises VeloxQuantError for no or too many configurations, and as ``generate`` does.
    """
    if not 1 <= len(configs) <= MOST:
        raise VeloxQuantError(f"Between 1 and {MOST} settings can be set side by side, not {len(configs)}.")
    prompt = encode_within(loaded, turns)
    for column, config in enumerate(configs):
        yield from _answer(loaded, prompt, column, config, sampling, stop)
        mx.clear_cache()
        if stop():
            return


def _answer(
    loaded: LoadedModel,
    prompt: list[int],
    column: int,
    config: KVCacheConfig,
    sampling: Sampling,
    stop: Stop,
) -> Generator[Answer]:
    rows, text, end = KeptRows(), "", None
    yield Answer(column, config, doing="Reading the prompt")
    caches = KVCacheBuilder.for_model(loaded.model, config)
    for step in generate(
        loaded.model, loaded.tokenizer, caches, prompt,
        sampling=sampling, context=loaded.context, stop=stop, keep=rows.add,
    ):  # fmt: skip
        if isinstance(step, TokenStep):
            text += step.text
            yield Answer(column, config, text, step.count, "Writing")
        elif isinstance(step, FinishedStep):
            end = step
    del caches
    mx.clear_cache()
    if end is None or stop():
        return
    figures = (
        end.snapshot.counted.total, end.snapshot.resident_bytes, end.snapshot.reference_bytes,
        end.prefill_speed, end.decode_speed,
    )  # fmt: skip
    said = Spoken(len(prompt), end.tokens, rows)
    for found in replay(loaded.model, [*prompt, *end.tokens], [said]) if end.tokens else ():
        if stop():
            return
        if isinstance(found, Replayed):
            rows.close()
            pieces = Pieces(loaded.tokenizer).of(end.tokens)
            yield Answer(column, config, end.text, end.reply_tokens, "", *figures, pieces, found.replies[0])
        else:
            doing = f"Comparing, {found.done:,} of {found.total:,} tokens read"
            yield Answer(column, config, end.text, end.reply_tokens, doing, *figures)
