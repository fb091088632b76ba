"""A conversation: what is read again, what is carried on, what a refusal leaves alone."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from studio.core import session as session_module
from studio.core.session import Message, Session
from tests.tiny import tiny_folder
from veloxquant_mlx import live as live_module
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import Cancelled, ModelError, StorageError, VeloxQuantError
from veloxquant_mlx.prompt import encode, system_manner
from veloxquant_mlx.steps import FinishedStep, PrefillStep, Reuse, Step, TokenStep

SKVQ = KVCacheConfig(method="skvq", skvq_window=16)
PLAIN = KVCacheConfig(method="plain")


def play(steps: Any) -> FinishedStep:
    """All steps of a reply; its end."""
    *_, last = steps
    assert isinstance(last, FinishedStep)
    return last


def answer(session: Session, prompt: str = "hello there", tokens: int = 6) -> FinishedStep:
    return play(session.reply(prompt, max_tokens=tokens))


def layers_of(session: Session) -> Any:
    """The live cache in numbers, without MLX's memory, which other objects move."""
    snapshot = session.snapshot()
    assert snapshot is not None
    return snapshot.layers


def roles(session: Session) -> list[str]:
    return [message.role for message in session.messages]


def test_loading_tells_what_is_in_memory(folder: Path) -> None:
    words: list[str] = []
    made = Session(SKVQ)
    info = made.load(folder, lambda _, text: words.append(text))
    assert info.info.name == "tiny-llama"
    assert info.context == 4096
    assert info.compute
    assert info.plan == made.plan()
    assert info.plan.replaced == 3
    assert info.active_memory >= mx.get_active_memory() - (2 << 20)
    assert words


def test_a_reply_is_a_turn_of_the_conversation(session: Session) -> None:
    end = answer(session)
    assert session.messages == [Message("user", "hello there"), Message("assistant", end.text)]
    assert session.finished is end
    snapshot = session.snapshot()
    assert snapshot is not None
    assert snapshot.tokens == end.prompt_tokens + end.reply_tokens


def test_steps_come_one_at_a_time(session: Session) -> None:
    steps = session.reply("hello there " * 40, max_tokens=3)
    kinds = [type(step) for step in steps]
    assert kinds == [PrefillStep] * kinds.count(PrefillStep) + [TokenStep] * 3 + [FinishedStep]
    assert kinds.count(PrefillStep) >= 2


@pytest.mark.parametrize("prompt", ["", "  ", "\n\t"])
def test_an_empty_message_is_refused_and_changes_nothing(session: Session, prompt: str) -> None:
    answer(session)
    messages, layers = list(session.messages), layers_of(session)
    with pytest.raises(VeloxQuantError, match="message is empty"):
        session.reply(prompt)
    assert session.messages == messages
    assert layers_of(session) == layers


def test_without_a_model_nothing_can_be_answered() -> None:
    empty = Session(SKVQ)
    with pytest.raises(VeloxQuantError, match="No model is loaded"):
        empty.reply("hello")
    with pytest.raises(VeloxQuantError, match="No model is loaded"):
        empty.plan()
    assert empty.messages == []
    assert empty.snapshot() is None


def test_a_message_beyond_the_context_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    small = Session(SKVQ)
    small.load(tiny_folder(tmp_path / "small", max_position_embeddings=64))
    answer(small, "hi", 3)
    before = list(small.messages)
    with pytest.raises(VeloxQuantError) as caught:
        small.reply("word " * 100)
    assert "64" in str(caught.value)
    assert "small" in str(caught.value)
    assert small.messages == before
    assert answer(small, "hi", 3).reason == "length"


def test_a_reply_ends_where_the_context_does(tmp_path: Path) -> None:
    small = Session(SKVQ)
    small.load(tiny_folder(tmp_path / "small", max_position_embeddings=64))
    end = answer(small, "hi", 500)
    assert end.reason == "context"
    assert end.prompt_tokens + end.reply_tokens == 64


def test_a_second_turn_carries_the_cache_on(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    first = answer(session)
    assert session.model is not None
    read = encode(session.model.tokenizer, [("user", "hello there")])
    # A random model writes half characters, which come back as other tokens: put what it wrote in place.
    monkeypatch.setattr(session_module, "encode_within", lambda *_: [*read, *first.tokens, 11, 12, 13])
    second = answer(session, "more")
    assert second.prompt_tokens == 3
    assert second.snapshot.tokens == len(read) + 6 + 3 + 6

    fresh = Session(SKVQ)
    fresh.model = session.model
    again = play(fresh.reply("more", max_tokens=6))
    assert again.prompt_tokens == len(read) + 6 + 3
    assert again.snapshot.counted == second.snapshot.counted


def test_a_conversation_that_reads_differently_is_read_from_the_start(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(session)
    monkeypatch.setattr(session_module, "encode_within", lambda *_: list(range(1, 50)))
    end = answer(session, "more")
    assert end.prompt_tokens == 49
    assert end.snapshot.tokens == 49 + 6


def test_two_turns_give_what_one_reading_gives(session: Session) -> None:
    """Whether the cache is carried on or not, the answer is that of the whole conversation."""
    session.configure(PLAIN)
    answer(session)
    second = answer(session, "and now?")
    assert session.model is not None
    turns = [(message.role, message.content) for message in session.messages[:3]]
    whole = encode(session.model.tokenizer, turns)
    fresh = Session(PLAIN)
    fresh.model = session.model
    fresh.messages = list(session.messages[:2])
    assert play(fresh.reply("and now?", max_tokens=6)).text == second.text
    assert second.snapshot.tokens == len(whole) + 6


def test_a_new_setting_reads_the_conversation_again(session: Session) -> None:
    first = answer(session)
    plan = session.configure(PLAIN)
    assert plan is not None
    assert plan.replaced == 3
    assert session.snapshot() is None
    assert roles(session) == ["user", "assistant"]
    second = answer(session, "more")
    assert second.prompt_tokens > first.prompt_tokens
    assert second.snapshot.counted.codes == 0
    assert roles(session) == ["user", "assistant", "user", "assistant"]


def test_rereading_puts_the_conversation_into_another_cache(session: Session) -> None:
    end = answer(session, "hello there " * 40)
    held = end.prompt_tokens + end.reply_tokens
    assert session.held == held
    steps = list(session.reread(PLAIN))
    done = [*range(0, held, 32), held]
    assert [(step.done, step.total) for step in steps] == [(count, held) for count in done]
    assert session.config == PLAIN and session.finished is None
    snapshot = session.snapshot()
    assert snapshot is not None
    assert (snapshot.tokens, snapshot.counted.codes) == (held, 0)
    assert layers_of(session) == steps[-1].snapshot.layers
    assert answer(session, "more").prompt_tokens < 40, "only the new message is read"


def test_a_reply_after_rereading_is_that_of_the_new_cache(session: Session) -> None:
    answer(session)
    fresh = Session(PLAIN)
    fresh.model, fresh.messages = session.model, list(session.messages)
    list(session.reread(PLAIN))
    assert answer(session, "more").text == answer(fresh, "more").text


@pytest.mark.parametrize("blocks", [0, 1, 12])
def test_rereading_that_is_stopped_leaves_everything(session: Session, blocks: int) -> None:
    end = answer(session, "hello there " * 40)
    before, text = layers_of(session), session.messages[-1].content
    seen: list[Step] = []
    with pytest.raises(Cancelled):
        for step in session.reread(PLAIN, stop=lambda: len(seen) >= blocks):
            seen.append(step)
    assert len(seen) == blocks
    assert (session.config, layers_of(session), session.finished) == (SKVQ, before, end)
    assert session.messages[-1].content == text
    assert answer(session, "more").prompt_tokens < 40, "the old cache is carried on"


def test_rereading_that_is_left_midway_leaves_everything(session: Session) -> None:
    answer(session, "hello there " * 40)
    before = layers_of(session)
    steps = session.reread(PLAIN)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert (session.config, layers_of(session)) == (SKVQ, before)


def test_the_same_setting_again_keeps_the_cache(session: Session) -> None:
    answer(session)
    before = layers_of(session)
    session.configure(KVCacheConfig(method="skvq", skvq_window=16))
    assert layers_of(session) == before


def test_a_setting_without_a_model_has_no_plan() -> None:
    empty = Session(PLAIN)
    assert empty.configure(SKVQ) is None
    assert empty.config == SKVQ


def test_regenerate_answers_the_last_message_once_more(session: Session) -> None:
    answer(session, "one")
    first = answer(session, "two")
    end = play(session.regenerate(max_tokens=6))
    assert [message.content for message in session.messages[:3:2]] == ["one", "two"]
    assert roles(session) == ["user", "assistant", "user", "assistant"]
    assert session.messages[-1].content == end.text
    # Greedy, from the end of the same prompt: the same is written.
    assert end.tokens == first.tokens
    assert end.reuse is not None
    assert end.snapshot.tokens == end.reuse.kept + end.prompt_tokens + end.reply_tokens
    assert end.reuse.kept > 0


def test_regenerate_repeats_a_first_reply_word_for_word(session: Session) -> None:
    first = answer(session)
    assert play(session.regenerate(max_tokens=6)).tokens == first.tokens


def test_regenerate_without_a_message_is_refused(session: Session) -> None:
    with pytest.raises(VeloxQuantError, match="no message to answer"):
        session.regenerate()


def test_every_reply_tells_first_what_the_cache_had_of_it(session: Session) -> None:
    first, *_, last = session.reply("hello there", max_tokens=6)
    assert isinstance(first, PrefillStep)
    assert isinstance(last, FinishedStep)
    assert (first.done, first.reuse) == (0, Reuse(0, 0))
    assert last.reuse == first.reuse
    again, *_ = session.regenerate(max_tokens=6)
    assert isinstance(again, PrefillStep)
    assert again.reuse is not None
    assert again.reuse.kept + again.total == first.total
    session.configure(PLAIN)
    anew, *_ = session.regenerate(max_tokens=6)
    assert isinstance(anew, PrefillStep)
    assert anew.reuse == Reuse(0, first.total - 1)


@pytest.mark.parametrize("config", [SKVQ, PLAIN, KVCacheConfig("affine", affine_group_size=32)])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next", "mamba"])
def test_the_last_reply_can_be_had_again_word_for_word(
    tmp_path: Path, family: str, config: KVCacheConfig
) -> None:
    made = Session(config)
    made.load(tiny_folder(tmp_path / family, family))
    for prompt in ("one two three " * 20, "four five " * 20):
        first = answer(made, prompt, 40)
        for _ in range(2):
            again = play(made.regenerate(max_tokens=40))
            assert again.tokens == first.tokens
            assert again.reuse is not None
            assert again.prompt_tokens < 80


def _after(looks: int) -> Callable[[], bool]:
    """A stop that comes after so many looks."""
    left = iter(range(looks))
    return lambda: next(left, None) is None


def test_any_way_through_a_conversation_gives_what_a_fresh_reading_gives(session: Session) -> None:
    """Edits, branches, regenerating and stopping in any order; a plain cache makes no difference of it."""
    session.configure(PLAIN)
    assert session.model is not None
    source = np.random.default_rng(1)
    wording = ["hello there", "one two three four", "why?", "go on with it please " * 8]
    kept = 0
    for turn in range(24):
        messages = list(session.messages)
        if messages and source.random() < 0.5:
            # Back to any message of the person's, in the same or other words.
            place = int(source.choice([n for n, m in enumerate(messages) if m.role == "user"]))
            messages = messages[: place + 1]
            if source.random() < 0.6:
                messages[-1] = Message("user", str(source.choice(wording)))
        else:
            if messages and messages[-1].role == "user":
                messages.append(Message("assistant", "so be it"))
            messages.append(Message("user", str(source.choice(wording))))
        patience = int(source.integers(1, 9)) if turn % 4 == 3 else 1000
        asked = list(messages)
        end = play(session.answer(messages, max_tokens=12, stop=_after(patience)))
        assert end.reuse is not None
        kept += end.reuse.kept
        fresh = Session(PLAIN)
        fresh.model = session.model
        alone = play(fresh.answer(asked, max_tokens=12))
        assert alone.tokens[: end.reply_tokens] == end.tokens
        assert session.snapshot() is not None
    assert kept > 500


def test_a_reply_that_was_stopped_goes_on_where_it_stopped(session: Session) -> None:
    session.configure(PLAIN)
    whole = answer(session, "hello there", 12)
    session.new_chat()
    part = answer(session, "hello there", 5)
    assert whole.text.startswith(part.text.rstrip("\ufffd"))
    end = play(session.answer(session.messages, max_tokens=7))
    assert roles(session) == ["user", "assistant"]
    assert session.messages[-1].content == part.text + end.text
    assert end.reuse is not None
    assert end.reuse.kept > 0


def test_a_conversation_that_was_rewritten_is_kept_as_far_as_it_is_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by templates that drop the thinking of earlier replies: tokens decide, not the messages."""
    tokens = [(5 * n) % 200 + 1 for n in range(300)]
    monkeypatch.setattr(session_module, "encode_within", lambda *_: tokens[:150])
    answer(session, tokens=30)
    monkeypatch.setattr(session_module, "encode_within", lambda *_: [*tokens[:146], *tokens[200:]])
    end = answer(session, "more")
    assert end.reuse is not None
    assert 128 <= end.reuse.kept <= 141
    assert end.reuse.again == 146 - end.reuse.kept
    assert end.prompt_tokens == 246 - end.reuse.kept


def test_a_reading_that_was_stopped_goes_on(session: Session) -> None:
    first = play(session.reply("word " * 200, stop=_after(2)))
    assert (first.reason, first.reply_tokens) == ("stopped", 0)
    assert first.prompt_tokens == 512
    end = play(session.regenerate(max_tokens=6))
    assert end.reuse == Reuse(512, 0)


def test_a_cache_that_counts_otherwise_is_not_carried_on(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = live_module.generate

    def losing(*arguments: Any, **words: Any) -> Any:
        for step in real(*arguments, **words):
            if isinstance(step, FinishedStep):
                step = dataclasses.replace(step, tokens=step.tokens[:-1])
            yield step

    with monkeypatch.context() as patch:
        patch.setattr(live_module, "generate", losing)
        answer(session)
    assert "another number of tokens" in caplog.text
    assert session.snapshot() is None
    assert answer(session, "more").reuse is not None


def test_a_saved_conversation_goes_on_in_another_session(
    session: Session, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="no cache to save"):
        session.save(tmp_path / "chat.cache")
    session.configure(PLAIN)
    answer(session, "one two three " * 20, 30)
    session.save(tmp_path / "chat.cache")
    other = Session(SKVQ)
    other.load(folder)
    assert other.resume(tmp_path / "chat.cache").replaced == 3
    assert (other.config, other.messages, other.held) == (PLAIN, session.messages, session.held)
    assert layers_of(other) == layers_of(session)
    first, second = answer(session, "and now?", 20), answer(other, "and now?", 20)
    assert second.reuse is not None
    assert second.reuse.kept > 0
    assert second.reuse == first.reuse
    assert second.tokens == first.tokens


def test_a_file_that_does_not_fit_leaves_the_conversation(session: Session, tmp_path: Path) -> None:
    answer(session)
    messages, layers = list(session.messages), layers_of(session)
    (tmp_path / "chat.cache").write_bytes(b"nothing of the kind")
    with pytest.raises(StorageError):
        session.resume(tmp_path / "chat.cache")
    assert session.messages == messages
    assert layers_of(session) == layers


def test_a_stopped_reply_keeps_what_was_written_and_can_be_followed(session: Session) -> None:
    written: list[str] = []
    steps = session.reply("hello there", stop=lambda: len(written) >= 3, max_tokens=50)
    last: Step | None = None
    for last in steps:
        if isinstance(last, TokenStep):
            written.append(last.text)
    assert isinstance(last, FinishedStep)
    assert last.reason == "stopped"
    assert 1 <= last.reply_tokens < 50
    assert session.messages[-1] == Message("assistant", last.text)
    assert answer(session, "go on").reply_tokens == 6


def test_a_reply_stopped_while_reading_leaves_a_message_to_answer(session: Session) -> None:
    end = play(session.reply("hello there", stop=lambda: True))
    assert (end.reason, end.reply_tokens) == ("stopped", 0)
    assert roles(session) == ["user"]
    again = play(session.regenerate(max_tokens=6))
    assert again.reply_tokens == 6
    assert roles(session) == ["user", "assistant"]


def test_a_reply_that_is_dropped_half_way_leaves_a_usable_session(session: Session) -> None:
    steps: Any = session.reply("hello there", max_tokens=50)
    for step in steps:
        if isinstance(step, TokenStep) and step.count == 5:
            break
    steps.close()
    assert session.snapshot() is None
    end = answer(session, "more")
    assert end.snapshot.tokens == end.prompt_tokens + end.reply_tokens


def test_a_reply_that_fails_drops_the_cache(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(session)
    real = live_module.generate

    def failing(*arguments: Any, **words: Any) -> Any:
        for step in real(*arguments, **words):
            if isinstance(step, TokenStep) and step.count == 3:
                raise VeloxQuantError("It broke.")
            yield step

    with monkeypatch.context() as patch:
        patch.setattr(live_module, "generate", failing)
        with pytest.raises(VeloxQuantError, match="It broke"):
            answer(session, "more")
    assert session.messages[2] == Message("user", "more")
    assert session.snapshot() is None
    assert answer(session, "again").reply_tokens == 6


def test_a_reply_that_fails_before_its_first_word_leaves_the_conversation_as_it_was(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(session)
    before = list(session.messages)

    def failing(*arguments: Any, **words: Any) -> Any:
        raise VeloxQuantError("It broke.")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(live_module, "generate", failing)
        with pytest.raises(VeloxQuantError, match="It broke"):
            answer(session, "more")
        assert session.messages == before
        with pytest.raises(VeloxQuantError, match="It broke"):
            list(session.regenerate())
    assert session.messages == before[:1]
    assert answer(session, "again").reply_tokens == 6


def test_a_new_chat_forgets_everything_but_the_model(session: Session) -> None:
    answer(session)
    session.new_chat()
    assert session.messages == []
    assert session.finished is None
    assert session.snapshot() is None
    assert answer(session).reply_tokens == 6


def test_unloading_gives_the_memory_back(folder: Path) -> None:
    made = Session(SKVQ)
    mx.clear_cache()
    before = mx.get_active_memory()
    made.load(folder)
    answer(made)
    assert mx.get_active_memory() > before
    made.unload()
    assert mx.get_active_memory() <= before + (64 << 10)
    assert made.model is None
    assert made.messages == []
    with pytest.raises(VeloxQuantError, match="No model is loaded"):
        made.reply("hello")


def test_another_model_begins_afresh(session: Session, tmp_path: Path) -> None:
    answer(session)
    session.load(tiny_folder(tmp_path / "other", "qwen3"))
    assert session.messages == []
    assert session.snapshot() is None
    assert session.loaded_info().info.name == "other"
    assert session.loaded_info().manner == system_manner(session.model.tokenizer)
    assert answer(session).reply_tokens == 6


def test_a_folder_that_cannot_be_used_leaves_model_and_conversation(session: Session, tmp_path: Path) -> None:
    answer(session)
    model, messages = session.model, list(session.messages)
    with pytest.raises(ModelError):
        session.load(tmp_path / "nowhere")
    assert session.model is model
    assert session.messages == messages


def test_a_load_that_fails_leaves_no_model(session: Session, tmp_path: Path) -> None:
    broken = tiny_folder(tmp_path / "broken")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    with pytest.raises(ModelError, match="can't be loaded"):
        session.load(broken)
    assert session.model is None


def test_a_cancelled_load_leaves_no_model(folder: Path) -> None:
    def cancel(share: float | None, words: str) -> None:
        if share is not None:
            raise Cancelled

    made = Session(SKVQ)
    with pytest.raises(Cancelled):
        made.load(folder, cancel)
    assert made.model is None
    made.load(folder)
    assert answer(made).reply_tokens == 6


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3_next", "mamba"])
def test_models_of_other_families_are_answered_over_several_turns(tmp_path: Path, family: str) -> None:
    made = Session(SKVQ)
    made.load(tiny_folder(tmp_path / family, family))
    for prompt in ("one two three", "four five"):
        assert answer(made, prompt).reply_tokens == 6
    assert len(made.messages) >= 2
