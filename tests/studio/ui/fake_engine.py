"""An engine without a thread or a model: tests and pictures play its answers by hand."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.ui.events import Events
from tests.studio import synthetic
from veloxquant_mlx.config import SlotShape
from veloxquant_mlx.layout import Body, Growth, Layout, SlotLayout, alike
from veloxquant_mlx.steps import FinishedStep, Plan, PrefillStep, Step, TokenStep


@dataclass(frozen=True, slots=True)
class FakeInfo:
    """The fields of ModelInfo."""

    path: Path
    name: str
    source: str = "Hugging Face cache"
    format: str = "mlx"
    architecture: str = "llama"
    parameters: int | None = 134_515_008
    weight_bits: float | None = 4.5
    size_bytes: int = 98_000_000
    context: int | None = 8192
    slots: int | None = 30
    kv_slots: int | None = 30
    heads: int | None = 3
    key_dim: int | None = 64
    value_dim: int | None = 64
    problem: str | None = None

    body: Body | None = None

    @property
    def layout(self) -> Layout | None:
        """As the numbers above have it; slots without KV keep a window."""
        if not (self.slots and self.heads and self.key_dim and self.value_dim):
            return None
        shape = SlotShape(self.heads, self.key_dim, self.value_dim)
        row = self.heads * (self.key_dim + self.value_dim)
        window = alike("a 1,024-token window of its own", "keep", "keeps")
        kv = SlotLayout(None, shape, (Growth(row),))
        other = SlotLayout(window, shape, (Growth(row, most=1024),))
        return Layout((kv,) * (self.kv_slots or 0) + (other,) * (self.slots - (self.kv_slots or 0)))


@dataclass(frozen=True, slots=True)
class FakeLoaded:
    """The fields of LoadedInfo."""

    info: FakeInfo
    compute: str
    context: int | None
    plan: Plan
    active_memory: int
    manner: str


STARTER = FakeInfo(Path("/models/smollm2"), "SmolLM2-135M-Instruct", "this app")
MODELS = [
    STARTER,
    FakeInfo(
        Path("/models/qwen"), "Qwen3-8B-4bit", "LM Studio", architecture="qwen3", weight_bits=4.5,
        size_bytes=4_610_000_000, context=40960, slots=36, kv_slots=36, heads=8, key_dim=128, value_dim=128,
    ),
    FakeInfo(
        Path("/models/gemma"), "gemma-3-12b-it-4bit", architecture="gemma3", weight_bits=4.5,
        size_bytes=7_100_000_000, slots=48, kv_slots=8, heads=8, key_dim=256, value_dim=256,
    ),
    FakeInfo(
        Path("/models/half"), "Llama-3.2-1B-Instruct", problem="The file model.safetensors ends too early; "
        "download the model again.", weight_bits=None,
    ),
]  # fmt: skip


STARTING = ["start", "keep_caches", "limit_memory", "compare", "find_models"]
"""What a window tells its engine first."""


class FakeEngine(Events):
    """Same signals and commands as the engine. Commands are noted in ``calls``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.steps: deque[Step] = deque()
        self.busy = False
        self.state = "starting"
        self.tokens = 0
        self.more: list[str] = []
        """Where else to look for models."""
        self.anyway = False
        """How the last model was to be loaded."""
        self.holds = False
        """Whether a conversation is held: a setting is then applied only by ``play_reread``."""

    def drain(self) -> list[Step]:
        """Everything queued."""
        steps = list(self.steps)
        self.steps.clear()
        return steps

    def names(self) -> list[str]:
        """The commands in order."""
        return [call[0] for call in self.calls]

    def start(self) -> None:
        self.calls.append(("start",))

    def find_models(self, more: Sequence[str] = ()) -> None:
        self.calls.append(("find_models",))
        self.more = list(more)

    def load(self, path: str, anyway: bool = False) -> None:
        self.calls.append(("load", path))
        self.anyway = anyway
        self.busy, self.state = True, "loading"

    def fetch_starter(self) -> None:
        self.calls.append(("fetch_starter",))
        self.busy, self.state = True, "loading"

    def import_gguf(self, path: str) -> None:
        self.calls.append(("import_gguf", path))
        self.busy, self.state = True, "loading"

    def unload(self) -> None:
        self.calls.append(("unload",))

    def configure(self, config: Any) -> None:
        self.calls.append(("configure", config))
        if self.holds:
            self.busy, self.state = True, "rereading"
        else:
            self.configured.emit(config)

    def stop_applying(self) -> None:
        self.calls.append(("stop_applying",))

    def answer(self, request: Any) -> None:
        self.calls.append(("answer", request))
        self.busy, self.state = True, "prefill"

    def count(self, key: object, text: str) -> None:
        self.calls.append(("count", text))

    def new_chat(self) -> None:
        self.calls.append(("new_chat",))
        self.holds = False

    def limit_memory(self, cache: int, wired: int) -> None:
        self.calls.append(("limit_memory", cache, wired))

    def compare(self, on: bool) -> None:
        self.calls.append(("compare", on))

    def try_setting(self, config: Any) -> None:
        self.calls.append(("try_setting", config))

    def side_by_side(self, turns: Any, configs: Any, sampling: Any) -> None:
        self.calls.append(("side_by_side", turns, configs, sampling))

    def find_smallest(self, limit: float | None) -> None:
        self.calls.append(("find_smallest", limit))

    def keep_caches(self, store: Path | None, limit: int) -> None:
        self.calls.append(("keep_caches", store, limit))

    def remove_caches(self) -> None:
        self.calls.append(("remove_caches",))

    def stop(self) -> None:
        self.calls.append(("stop",))

    def export(self, path: str, with_transcript: bool, taken: Any) -> None:
        self.calls.append(("export", path, with_transcript, taken))

    def close(self, lasting: Callable[[], None] = lambda: None) -> None:
        self.calls.append(("close",))

    # What a test plays -------------------------------------------------------------------------

    def play_ready(self, methods: dict[str, Any]) -> None:
        """The engine's thread is up."""
        self.state = "idle"
        self.methods_ready.emit(methods)

    def play_loaded(self, info: FakeInfo = STARTER, manner: str = "template") -> None:
        """A model is there."""
        self.busy, self.state = False, "idle"
        foreign = frozenset(range((info.slots or 0) - (info.kv_slots or 0)))
        plan = synthetic.plan(info.slots or 0, foreign)
        self.loaded.emit(FakeLoaded(info, "CPU float32", info.context, plan, synthetic.WEIGHTS, manner))

    def play_prefill(self, done: int, total: int) -> None:
        """Part of the prompt is read."""
        self.steps.append(PrefillStep(done, total, synthetic.snapshot(self.tokens + done)))

    def play_reread(self, done: int | None = None) -> None:
        """Part of the conversation, or all of it, is read again for the setting told last."""
        self.started.emit("reread")
        self.steps.append(
            PrefillStep(done or self.tokens, self.tokens, synthetic.snapshot(done or self.tokens))
        )
        if done is None:
            self.busy, self.state = False, "idle"
            self.configured.emit(next(call[1] for call in reversed(self.calls) if call[0] == "configure"))

    def play_text(self, text: str, count: int = 1) -> None:
        """Tokens of a reply; the text comes with the first."""
        self.state = "generating"
        for index in range(count):
            self.tokens += 1
            part = text if index == 0 else ""
            self.steps.append(TokenStep(part, 1, index + 1, synthetic.snapshot(self.tokens)))

    def play_finished(self, text: str, reason: str = "stop", new: int = 142) -> FinishedStep:
        """The end of a reply, by signal and in the steps."""
        self.busy, self.state = False, "idle"
        self.holds = True
        step = FinishedStep(reason, text, 40, new, 0.3, (new - 1) / 14.1, synthetic.snapshot(self.tokens))
        self.steps.append(step)
        self.finished.emit(step)
        return step

    def play_cancelled(self) -> None:
        """A reply was stopped before its first word."""
        self.busy, self.state = False, "idle"
        self.cancelled.emit("chat")

    def play_failed(self, where: str, sentence: str, details: str = "Traceback: details") -> None:
        """Something went wrong."""
        self.busy, self.state = False, "idle"
        self.failed.emit(where, sentence, details)
