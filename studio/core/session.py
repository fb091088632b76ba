"""A model, a cache method and a conversation. No Qt here; the engine puts a thread around it."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx

from veloxquant_mlx import attention
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache.slot import snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import Cancelled, VeloxQuantError
from veloxquant_mlx.generation import Stop, generate, never, prefill
from veloxquant_mlx.models.find import ModelInfo, describe
from veloxquant_mlx.models.load import LoadedModel, load_model, release_memory
from veloxquant_mlx.pieces import Pieces
from veloxquant_mlx.progress import Progress, silent
from veloxquant_mlx.prompt import encode_within
from veloxquant_mlx.steps import FinishedStep, Plan, PrefillStep, Step, TokenStep
from veloxquant_mlx.telemetry import CacheSnapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class LoadedInfo:
    """What the screen needs to know about the model in memory."""

    info: ModelInfo
    compute: str
    context: int | None
    plan: Plan
    active_memory: int
    """MLX's active memory after loading, bytes (measured)."""


class Session:
    """One model, one configuration, one conversation; everything on the thread that calls it.

    A configuration takes effect with the next reply, which reads the conversation again through a fresh
    cache, or right away by ``reread``. While nothing changes, the cache of the last reply is carried on and
    only new tokens are read.
    """

    def __init__(self, config: KVCacheConfig) -> None:
        self.config = config
        self.model: LoadedModel | None = None
        self.messages: list[Message] = []
        self.finished: FinishedStep | None = None
        """The end of the last reply, with its figures."""
        self._cache: list[Any] | None = None
        self._held: list[int] = []
        """Tokens the cache holds."""

    def load(self, path: Path, progress: Progress = silent) -> LoadedInfo:
        """Put another model in memory in place of the present one; the conversation starts afresh.

        Raises ModelError and Cancelled. A folder that can't be used leaves everything as it is; when
        loading itself fails or is cancelled there is no model.
        """
        describe(path)
        self.unload()
        self.model = load_model(path, progress)
        reason = attention.enable(self.model.model)
        if reason:
            _log.info("%s: %s", self.model.info.name, reason)
        return self.loaded_info()

    def unload(self) -> None:
        """Give the model's memory back."""
        if self.model is not None:
            attention.disable(self.model.model)
        self.model = None
        self.new_chat()
        release_memory()

    def loaded_info(self) -> LoadedInfo:
        """The model in memory with the plan for the present configuration."""
        model = self._require_model()
        return LoadedInfo(model.info, model.compute, model.context, self.plan(), mx.get_active_memory())

    def plan(self) -> Plan:
        """Which slots of the model the present configuration replaces."""
        return KVCacheBuilder.plan(self._require_model().model, self.config)

    def configure(self, config: KVCacheConfig) -> Plan | None:
        """Use another configuration from the next reply on; the plan, or None without a model."""
        if config != self.config:
            self.config = config
            self._drop_cache()
        return self.plan() if self.model else None

    @property
    def held(self) -> int:
        """Tokens of the conversation that the cache holds; 0 where the next reply reads all of it anyway."""
        return len(self._held)

    def reread(self, config: KVCacheConfig, *, stop: Stop = never) -> Iterator[PrefillStep]:
        """Read the tokens that the cache holds once more, through a fresh cache of ``config``.

        Only with its end ``config`` and the fresh cache take the place of the present ones; until then both
        are in memory, so that stopping (Cancelled) and failing leave everything as it was.
        """
        loaded = self._require_model()
        tokens = list(self._held)
        fresh = KVCacheBuilder.for_model(loaded.model, config)
        try:
            yield from prefill(loaded.model, Pieces(loaded.tokenizer), fresh, tokens, stop=stop)
            if stop():
                raise Cancelled
            # Speeds of the last reply were those of another cache.
            self.config, self._cache, self.finished = config, fresh, None
        finally:
            del fresh
            mx.clear_cache()

    def new_chat(self) -> None:
        """Forget the conversation and its cache."""
        self.messages.clear()
        self.finished = None
        self._drop_cache()

    def reply(self, prompt: str, *, stop: Stop = never, max_tokens: int = 512) -> Iterator[Step]:
        """Add a message and answer it.

        Yields the steps of ``generate``. A refused prompt (VeloxQuantError) and a failure before the first
        word leave the conversation as it was; later the message and the text written so far are kept.
        """
        if not prompt.strip():
            raise VeloxQuantError("The message is empty: write something first.")
        before = list(self.messages)
        return self._answer([*before, Message("user", prompt)], before, stop, max_tokens)

    def regenerate(self, *, stop: Stop = never, max_tokens: int = 512) -> Iterator[Step]:
        """Answer the last message once more in place of the last reply, reading the conversation again."""
        kept = list(self.messages)
        while kept and kept[-1].role == "assistant":
            kept.pop()
        if not kept:
            raise VeloxQuantError("There is no message to answer yet: write one first.")
        self._drop_cache()
        return self._answer(kept, kept, stop, max_tokens)

    def snapshot(self) -> CacheSnapshot | None:
        """The live cache as plain numbers, or None before the first reply."""
        return snapshot(self._cache) if self._cache is not None else None

    def _answer(
        self, messages: list[Message], fallback: list[Message], stop: Stop, max_tokens: int
    ) -> Iterator[Step]:
        loaded = self._require_model()
        tokens = encode_within(loaded, [(m.role, m.content) for m in messages])
        self.messages = list(messages)
        return self._run(loaded, tokens, fallback, stop, max_tokens)

    def _run(
        self, loaded: LoadedModel, tokens: list[int], fallback: list[Message], stop: Stop, max_tokens: int
    ) -> Iterator[Step]:
        cache, fresh = self._cache_for(loaded, tokens)
        # Until the run ends well nobody knows what the cache holds, so it must not be carried on.
        self._cache, self._held = cache, []
        text = ""
        whole = False
        try:
            for step in generate(
                loaded.model, loaded.tokenizer, cache, fresh,
                max_tokens=max_tokens, held=len(tokens) - len(fresh), context=loaded.context, stop=stop,
            ):  # fmt: skip
                if isinstance(step, FinishedStep):
                    text, whole = step.text, True
                    self.finished = step
                    if step.reply_tokens:
                        self._held = [*tokens, *step.tokens]
                elif isinstance(step, TokenStep):
                    text += step.text
                yield step
        except Exception:
            if not text:
                self.messages = list(fallback)
            raise
        finally:
            if text:
                self.messages.append(Message("assistant", text))
            if not whole:
                self._drop_cache()

    def _cache_for(self, loaded: LoadedModel, tokens: list[int]) -> tuple[list[Any], list[int]]:
        """The cache to go on with and the tokens it has not read."""
        held = len(self._held)
        if self._cache is not None and 0 < held < len(tokens) and tokens[:held] == self._held:
            return self._cache, tokens[held:]
        self._drop_cache()
        return KVCacheBuilder.for_model(loaded.model, self.config), tokens

    def _drop_cache(self) -> None:
        self._cache, self._held = None, []
        mx.clear_cache()

    def _require_model(self) -> LoadedModel:
        if self.model is None:
            raise VeloxQuantError("No model is loaded: choose one on the left first.")
        return self.model
