"""Other settings on a conversation, and the search for the smallest that is good enough."""

from pathlib import Path

import numpy as np
import pytest

from studio.core import what_if
from studio.core.comparing import Listener
from studio.core.predict import predict_bytes
from studio.core.what_if import Finding, Tried, candidates, find_smallest, try_setting
from tests.tiny import tiny_folder
from veloxquant_mlx.config import KVCacheConfig, methods
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.fidelity import ReplayStep, measure
from veloxquant_mlx.models.load import LoadedModel, load_model
from veloxquant_mlx.progress import silent
from veloxquant_mlx.shapes import slot_shapes

SKVQ = KVCacheConfig(method="skvq", skvq_window=16)
HELD = np.random.default_rng(2).integers(0, 250, 300).tolist()
FEW = {"skvq": type(SKVQ)}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"), silent)


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_rows_are_captured_once_then_every_setting_is_tried_without_the_model(
    loaded: LoadedModel, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = list(try_setting(loaded, listener, HELD, SKVQ))
    assert any(isinstance(step, ReplayStep) for step in first)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr(type(loaded.model), "__call__", refuse)
    again = list(try_setting(loaded, listener, HELD, SKVQ))
    assert all(isinstance(step, Tried) for step in again)
    assert again[-1] == first[-1]


def test_every_slot_adds_to_the_mean(loaded: LoadedModel, listener: Listener) -> None:
    steps = [step for step in try_setting(loaded, listener, HELD, SKVQ) if isinstance(step, Tried)]
    assert [(len(step.errors), step.measured) for step in steps] == [
        (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3),
    ]  # fmt: skip
    last = steps[-1]
    assert (last.config, last.tokens, last.slots) == (SKVQ, 300, 3)
    assert [slot for slot, _ in last.errors] == [0, 2, 1]
    assert last.error == pytest.approx(np.mean([error for _, error in last.errors]))
    assert last.error and last.error > 0
    assert listener.captured is not None
    whole = {one.slot: one.attention_error for one in listener.captured.tries(loaded.model, SKVQ)}
    assert dict(last.errors) == whole


def test_what_can_t_be_told_is_a_sentence(tmp_path: Path, listener: Listener) -> None:
    mamba = load_model(tiny_folder(tmp_path / "mamba", "mamba2"), silent)
    with pytest.raises(VeloxQuantError, match="can't be told here"):
        list(try_setting(mamba, listener, HELD, SKVQ))


def test_candidates_are_the_presets_and_their_widths() -> None:
    found = candidates(methods())
    assert len(found) == len(set(found))
    assert all(config.compresses for config in found)
    for method in methods().values():
        if method.compresses:
            assert {method.preset(name) for name in method.presets} <= set(found)
    balanced = type(SKVQ).preset("Balanced")
    widths = {(c.skvq_bits_key, c.skvq_bits_value) for c in found if c.method == "skvq"}  # type: ignore[attr-defined]
    assert {(k, v) for k in what_if.WIDTHS for v in what_if.WIDTHS} <= widths
    assert balanced in found
    own = KVCacheConfig("skvq", skvq_window=48)
    assert own in candidates({}, [own])


def search(loaded: LoadedModel, listener: Listener, limit: float) -> list[Finding]:
    steps = find_smallest(loaded, listener, HELD, limit, FEW)
    return [step for step in steps if isinstance(step, Finding)]


def test_the_search_ends_with_the_smallest_that_was_measured_under_the_limit(
    loaded: LoadedModel, listener: Listener
) -> None:
    limit = 0.02
    *steps, end = search(loaded, listener, limit)
    assert end.complete and not any(step.complete for step in steps)
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert end.done == end.total
    assert len(end.points) == len(candidates(FEW))
    shapes = [shape for shape in slot_shapes(loaded.model) if shape]
    assert all(point.bytes == predict_bytes(point.config, shapes, 300).total for point in end.points)
    assert end.best is not None and end.best.measured
    expected = measure(loaded.model, HELD, [end.best.config], start=75, decode_steps=0).methods[0].kl
    assert expected is not None
    assert end.best.kl == pytest.approx(expected.mean) and end.best.kl <= limit
    smaller = [p for p in end.points if p.measured and p.bytes < end.best.bytes]
    assert smaller and all(p.kl is not None and p.kl > limit for p in smaller), (
        "the next smaller one was tried"
    )
    assert all(point.kl is not None for point in end.points), "what was not measured is predicted"


def test_a_limit_nothing_meets_is_said(loaded: LoadedModel, listener: Listener) -> None:
    end = search(loaded, listener, 1e-12)[-1]
    assert end.complete and end.best is None
    assert end.words == "No setting was measured below 1e-12 nats per token on this conversation"


def test_too_short_a_conversation_is_refused(loaded: LoadedModel, listener: Listener) -> None:
    with pytest.raises(VeloxQuantError, match="a search needs 256"):
        list(find_smallest(loaded, listener, HELD[:100], 0.1, FEW))


def test_a_model_without_slots_to_compress_has_no_points(tmp_path: Path, listener: Listener) -> None:
    mamba = load_model(tiny_folder(tmp_path / "mamba", "mamba2"), silent)
    end = list(find_smallest(mamba, listener, HELD, 0.1, FEW))[-1]
    assert isinstance(end, Finding) and end.complete
    assert end.points == () and end.best is None
