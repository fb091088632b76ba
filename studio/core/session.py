"""A model, a cache method and a conversation. No Qt here; the engine puts a thread around it."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import mlx.core as mx

from studio.core.fitting import require_message
from veloxquant_mlx import attention, storage
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache.slot import snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import Cancelled, StorageError, VeloxQuantError
from veloxquant_mlx.generation import GREEDY, Stop, never, prefill
from veloxquant_mlx.live import LiveCache, live_for
from veloxquant_mlx.models.find import ModelInfo, describe
from veloxquant_mlx.models.load import LoadedModel, load_model, release_memory
from veloxquant_mlx.pieces import Pieces
from veloxquant_mlx.progress import Progress, silent
from veloxquant_mlx.prompt import SystemManner, encode_text, encode_within, system_manner
from veloxquant_mlx.sampling import Sampling
from veloxquant_mlx.steps import PREFILL_BLOCK, FinishedStep, Plan, PrefillStep, Step, TokenStep
from veloxquant_mlx.telemetry import CacheSnapshot

if TYPE_CHECKING:
    from studio.core.comparing import Listener

_log = logging.getLogger(__name__)


Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; ``system`` is for the first one only."""

    role: Role
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
    manner: SystemManner
    """How the model is told a system prompt."""


class Session:
    """One model, one configuration, one conversation; everything on the thread that calls it.

    A configuration takes effect with the next reply, which reads the conversation again through a fresh
    cache, or right away by ``reread``. While it stays, the cache is carried on: whatever conversation is to
    be answered, its tokens are compared with those the cache holds, the cache goes back to the last mark
    before they part, and only what follows is read. The first step of a reply says how much that is.
    """

    def __init__(self, config: KVCacheConfig) -> None:
        self.config = config
        self.model: LoadedModel | None = None
        self.messages: list[Message] = []
        self.finished: FinishedStep | None = None
        """The end of the last reply, with its figures."""
        self.listener: Listener | None = None
        """Hears every reply, for whoever compares it afterwards."""
        self.reference: FinishedStep | None = None
        """The end of the last reply of this model through an uncompressed cache."""
        self._live: LiveCache | None = None
        self._known: list[int] = []
        """Tokens of this chat that were read last, whether their cache is still there or not."""

    def load(self, path: Path, progress: Progress = silent, *, anyway: bool = False) -> LoadedInfo:
        """Put another model in memory in place of the present one; the conversation starts afresh.

        Raises ModelError and Cancelled. A folder that can't be used leaves everything as it is; when
        loading itself fails or is cancelled there is no model. ``anyway``: see ``load_model``.
        """
        describe(path)
        self.unload()
        self.model = load_model(path, progress, anyway=anyway)
        reason = attention.enable(self.model.model)
        if reason:
            _log.info("%s: %s", self.model.info.name, reason)
        return self.loaded_info()

    def unload(self) -> None:
        """Give the model's memory back."""
        if self.model is not None:
            attention.disable(self.model.model)
        self.model = self.reference = None
        self.new_chat()
        release_memory()

    def loaded_info(self) -> LoadedInfo:
        """The model in memory with the plan for the present configuration."""
        model = self.require_model()
        manner = system_manner(model.tokenizer)
        return LoadedInfo(
            model.info, model.compute, model.context, self.plan(), mx.get_active_memory(), manner
        )

    def plan(self) -> Plan:
        """Which slots of the model the present configuration replaces."""
        return KVCacheBuilder.plan(self.require_model().model, self.config)

    def configure(self, config: KVCacheConfig) -> Plan | None:
        """Use another configuration from the next reply on; the plan, or None without a model."""
        if config != self.config:
            self.config = config
            self._drop_cache()
        return self.plan() if self.model else None

    @property
    def held(self) -> int:
        """Tokens of the conversation that the cache holds; 0 where the next reply reads all of it anyway."""
        return len(self.tokens)

    @property
    def tokens(self) -> list[int]:
        """Those that the cache holds."""
        return list(self._live.held or ()) if self._live is not None else []

    def reread(self, config: KVCacheConfig, *, stop: Stop = never) -> Iterator[PrefillStep]:
        """Read the tokens that the cache holds once more, through a fresh cache of ``config``.

        Only with its end ``config`` and the fresh cache take the place of the present ones; until then both
        are in memory, so that stopping (Cancelled) and failing leave everything as it was.
        """
        loaded = self.require_model()
        tokens = self.tokens
        fresh = LiveCache(KVCacheBuilder.for_model(loaded.model, config))
        try:
            wanted = fresh.begin(len(tokens) + 1, self._live.turns if self._live is not None else ())
            # Some 16 steps: enough for a curve and to stop soon, without losing much speed to small blocks.
            block = min(PREFILL_BLOCK, 32 * -(-len(tokens) // 512))
            pieces = Pieces(loaded.tokenizer)
            if not stop():
                yield PrefillStep(0, len(tokens), snapshot(fresh.caches, 0))
            for step in prefill(
                loaded.model, pieces, fresh.caches, tokens, pauses=wanted, block=block, stop=stop
            ):
                if step.done in wanted:
                    fresh.mark(step.done)
                yield step
            if stop():
                raise Cancelled
            if fresh.settle(tokens):
                # Speeds of the last reply were those of another cache.
                self.config, self._live, self.finished = config, fresh, None
        finally:
            del fresh
            mx.clear_cache()

    def save(self, path: Path) -> None:
        """Write the cache with its conversation to a file. Raises StorageError, and where there is none."""
        model, live = self.require_model(), self._live
        if live is None or not live.held:
            raise StorageError("There is no cache to save yet: ask the model something first.")
        turns = [(message.role, message.content) for message in self.messages]
        storage.save(path, live.caches, model=model, config=self.config, tokens=live.held, turns=turns)

    def resume(self, path: Path, *, like: KVCacheConfig | None = None) -> Plan:
        """Go on with a saved cache and its conversation, under the configuration it was made with.

        Raises StorageError when the file does not fit, or was made with another configuration than ``like``;
        conversation and cache are then as they were.
        """
        model = self.require_model()
        saved = storage.load(path, model)
        if like not in (None, saved.config):
            raise StorageError(f"{path.name} was saved with another cache setting.")
        self.new_chat()
        self.config = saved.config
        self.messages = [Message(cast(Role, role), content) for role, content in saved.turns]
        self._live = LiveCache(saved.caches, saved.tokens)
        self._known = saved.tokens
        return self.plan()

    def new_chat(self) -> None:
        """Forget the conversation and its cache."""
        self.messages = []
        self.finished = None
        self._known = []
        if self.listener is not None:
            self.listener.forget()
        self._drop_cache()

    def reply(
        self, prompt: str, *, sampling: Sampling = GREEDY, stop: Stop = never, max_tokens: int | None = None
    ) -> Iterator[Step]:
        """Add a message and answer it; see ``answer``."""
        asked = [*self.messages, Message("user", prompt)]
        return self.answer(asked, sampling=sampling, stop=stop, max_tokens=max_tokens)

    def regenerate(
        self, *, sampling: Sampling = GREEDY, stop: Stop = never, max_tokens: int | None = None
    ) -> Iterator[Step]:
        """Answer the last message once more in place of the last reply; see ``answer``."""
        kept = list(self.messages)
        while kept and kept[-1].role == "assistant":
            kept.pop()
        return self.answer(kept, sampling=sampling, stop=stop, max_tokens=max_tokens, fallback=kept)

    def answer(
        self,
        messages: Sequence[Message],
        tokens: Sequence[int] | None = None,
        *,
        sampling: Sampling = GREEDY,
        stop: Stop = never,
        max_tokens: int | None = None,
        fallback: Sequence[Message] | None = None,
    ) -> Iterator[Step]:
        """Answer a conversation given whole: the present one, an edited one, a branch or another.

        Args:
            messages: the last one is the person's, or a reply of the model that goes on.
            tokens: those of the messages that fit the context, where they are known; None encodes them here.
            max_tokens: most tokens to write; None leaves it to ``sampling``.
            fallback: the conversation after a failure before the first word; None is the one before.

        Yields a PrefillStep that tells what the cache had of it (``reuse``), then the steps of ``generate``.
        A refused conversation (VeloxQuantError, raised at once) and a failure before the first word leave
        the conversation as it was; later the messages and the text written so far are kept.
        """
        turns = [(m.role, m.content) for m in messages]
        require_message(turns)
        loaded = self.require_model()
        if tokens is None:
            tokens = encode_within(loaded, turns)
        before = list(self.messages if fallback is None else fallback)
        self.messages = list(messages)
        return self._run(loaded, list(tokens), before, sampling, stop, max_tokens)

    def snapshot(self) -> CacheSnapshot | None:
        """The live cache as plain numbers, or None before the first reply."""
        if self._live is None:
            return None
        held = self._live.held
        return snapshot(self._live.caches, None if held is None else len(held))

    def _run(
        self,
        loaded: LoadedModel,
        tokens: list[int],
        fallback: list[Message],
        sampling: Sampling,
        stop: Stop,
        max_tokens: int | None,
    ) -> Iterator[Step]:
        asked = list(self.messages)
        goes_on = asked[-1].content if asked[-1].role == "assistant" else ""
        text = ""
        whole = False
        keep = self.listener.begin(len(goes_on)) if self.listener is not None else None
        try:
            live, reuse = live_for(
                tokens, self._live, self._known, lambda: KVCacheBuilder.for_model(loaded.model, self.config)
            )
            self._live = live
            for step in live.steps(
                loaded.model, loaded.tokenizer, tokens, reuse,
                max_tokens=max_tokens, sampling=sampling, context=loaded.context, stop=stop,
                written=encode_text(loaded.tokenizer, goes_on) if goes_on else (), keep=keep,
            ):  # fmt: skip
                if isinstance(step, FinishedStep):
                    text, whole = step.text, live.held is not None
                    self.finished = step
                    if not self.config.compresses:
                        self.reference = step
                    self._known = list(live.held or ())
                    if self.listener is not None:
                        self.listener.end(self._known, self.config)
                elif isinstance(step, TokenStep):
                    text += step.text
                    if self.listener is not None:
                        self.listener.take(step)
                yield step
        except Exception:
            if not text:
                self.messages = list(fallback)
            raise
        finally:
            if text:
                turns = asked[:-1] if goes_on else asked
                self.messages = [*turns, Message("assistant", goes_on + text)]
            if not whole:
                # Nobody knows what it holds.
                self._drop_cache()

    def _drop_cache(self) -> None:
        self._live = None
        mx.clear_cache()

    def require_model(self) -> LoadedModel:
        """The model in memory. Raises VeloxQuantError where there is none."""
        if self.model is None:
            raise VeloxQuantError("No model is loaded: choose one on the left first.")
        return self.model
