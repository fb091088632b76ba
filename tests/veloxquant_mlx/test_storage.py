"""A cache in a file: the same logits afterwards, and one sentence for every file that cannot be used."""

import errno
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests.tiny import tiny_folder
from veloxquant_mlx import attention, storage
from veloxquant_mlx.builder import KVCacheBuilder
from veloxquant_mlx.cache.slot import snapshot
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import StorageError
from veloxquant_mlx.models.load import LoadedModel, load_model
from veloxquant_mlx.storage import load, save

SKVQ = KVCacheConfig(
    "skvq", skvq_window=16, skvq_recent=8, skvq_param_bits=8, skvq_group_size=32, skvq_center=True
)
TOKENS = [(7 * n) % 250 + 3 for n in range(300)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(tiny_folder(tmp_path_factory.mktemp("models") / "tiny"))


def _read(model: LoadedModel, caches: list[Any], tokens: list[int]) -> mx.array:
    logits = model.model(mx.array(tokens)[None], cache=caches)
    mx.eval(logits, [slot.state for slot in caches])
    return logits


def _saved(model: LoadedModel, path: Path, config: KVCacheConfig = SKVQ, tokens: int = 200) -> list[Any]:
    caches = KVCacheBuilder.for_model(model.model, config)
    for start in range(0, tokens, 70):
        _read(model, caches, TOKENS[start : min(tokens, start + 70)])
    save(path, caches, model=model, config=config, tokens=TOKENS[:tokens], turns=[("user", "hé\n")])
    return caches


@pytest.mark.parametrize("tokens", [5, 200])
@pytest.mark.parametrize(
    "config",
    [SKVQ, KVCacheConfig("skvq"), KVCacheConfig("affine", affine_group_size=32), KVCacheConfig("plain")],
)
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next", "mamba", "falcon_h1"])
def test_the_next_logits_are_the_same_bit_for_bit(
    tmp_path: Path, family: str, config: KVCacheConfig, tokens: int
) -> None:
    made = load_model(tiny_folder(tmp_path / family, family))
    path = tmp_path / "chat.cache"
    caches = _saved(made, path, config, tokens)
    found = load(path, made)
    assert found.config == config
    assert found.tokens == TOKENS[:tokens]
    assert found.turns == (("user", "hé\n"),)
    for next_tokens in (TOKENS[200:201], TOKENS[210:240], TOKENS[240:241]):
        ours, theirs = _read(made, caches, next_tokens), _read(made, found.caches, next_tokens)
        assert mx.array_equal(ours, theirs).item()


def test_attention_on_codes_goes_on_as_well(tmp_path: Path, model: LoadedModel) -> None:
    with attention.attention_on_codes(model.model) as reason:
        assert reason is None
        caches = _saved(model, tmp_path / "chat.cache")
        found = load(tmp_path / "chat.cache", model)
        assert all(slot.on_codes for slot in found.caches)
        for token in TOKENS[200:230]:
            ours, theirs = _read(model, caches, [token]), _read(model, found.caches, [token])
            assert mx.array_equal(ours, theirs).item()


def test_a_file_takes_what_the_cache_takes(tmp_path: Path, model: LoadedModel) -> None:
    path = tmp_path / "chat.cache"
    caches = _saved(model, path, KVCacheConfig("plain"), 256)
    content = path.stat().st_size - 256 * 4
    assert snapshot(caches).resident_bytes <= content <= snapshot(caches).resident_bytes + 4096


def _header(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Write the file's header anew after a change."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def _about(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what the file says of itself, without a new digest."""

    def within(header: dict[str, Any]) -> None:
        about = json.loads(header["__metadata__"]["veloxquant"])
        change(about)
        header["__metadata__"]["veloxquant"] = json.dumps(about)

    _header(path, within)


def _forge(path: Path, change: Callable[[dict[str, Any], dict[str, mx.array]], None]) -> None:
    """Change content and words, and give the file the digest that fits."""
    arrays, metadata = mx.load(str(path), format="safetensors", return_metadata=True)  # type: ignore[misc]
    mx.eval(list(arrays.values()))
    about = json.loads(metadata["veloxquant"])
    change(about, arrays)
    words = {"veloxquant": json.dumps(about), "digest": storage._digest(about, arrays)}
    with path.open("wb") as file:
        mx.save_safetensors(file, arrays, words)


def _refusal(path: Path, model: LoadedModel) -> str:
    with pytest.raises(StorageError) as caught:
        load(path, model)
    sentence = str(caught.value)
    assert sentence.startswith(path.name)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.5, 0.999])
def test_a_cut_file_is_refused(tmp_path: Path, model: LoadedModel, share: float) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert "cut or damaged" in _refusal(path, model)


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04" + bytes(200), bytes(200), b"\xff" * 64, struct.pack("<Q", 2) + b"{}",
     struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 1 << 62) + b"{}", struct.pack("<Q", 9) + b'{"a":[[['],
)  # fmt: skip
def test_a_foreign_file_is_refused(tmp_path: Path, model: LoadedModel, data: bytes) -> None:
    path = tmp_path / "chat.cache"
    path.write_bytes(data)
    assert "no " in _refusal(path, model)


def test_a_file_of_weights_a_folder_and_nothing_are_refused(tmp_path: Path, model: LoadedModel) -> None:
    assert "no cache saved by this app" in _refusal(model.info.path / "model.safetensors", model)
    assert "can't be read" in _refusal(tmp_path, model)
    assert "can't be read" in _refusal(tmp_path / "nothing", model)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["tokens"].update(shape=[1 << 40]),
        lambda h: h["tokens"].update(shape=[0, 1 << 40], data_offsets=[0, 0]),
        lambda h: h["tokens"].update(shape=[-200]),
        lambda h: h["tokens"].update(data_offsets=[0, 1 << 50]),
        lambda h: h["tokens"].update(dtype="I64"),
        lambda h: h["tokens"].pop("shape"),
        lambda h: h.update(tokens=[]),
        lambda h: h["tokens"].update(dtype="I32"),
        lambda h: h["tokens"].update(shape=[2, 100]),
        lambda h: h["0.keys.codes"].update(shape=h["0.keys.codes"]["shape"][::-1]),
        lambda h: h.pop("0.keys.codes"),
        lambda h: h["__metadata__"].pop("digest"),
        lambda h: h["__metadata__"].update(digest=[1]),
        lambda h: h["__metadata__"].update(veloxquant="[1, 2"),
        lambda h: h["__metadata__"].update(veloxquant="[" * 5000),
        lambda h: h.pop("__metadata__"),
        lambda h: h.update(__metadata__=[1]),
    ],
)
def test_an_edited_header_is_refused(
    tmp_path: Path, model: LoadedModel, change: Callable[[dict[str, Any]], None]
) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    _header(path, change)
    _refusal(path, model)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.95])
def test_a_flipped_bit_is_noticed(tmp_path: Path, model: LoadedModel, place: float) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    data = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    data[start + int((len(data) - start) * place)] ^= 4
    path.write_bytes(data)
    assert "is damaged" in _refusal(path, model)


def test_words_changed_in_the_file_are_noticed(tmp_path: Path, model: LoadedModel) -> None:
    path = tmp_path / "chat.cache"
    for change in (
        lambda about: about["turns"].append(["user", "more"]),
        lambda about: about["config"].update(skvq_window=32),
        lambda about: about["slots"][0]["facts"].update(tokens=100),
    ):
        _saved(model, path)
        _about(path, change)
        assert "is damaged" in _refusal(path, model)


def test_another_version_is_told(tmp_path: Path, model: LoadedModel) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    _about(path, lambda about: about.update(format=1))
    assert "another version" in _refusal(path, model)


def test_another_model_is_told_by_its_name(tmp_path: Path, model: LoadedModel) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    other = load_model(tiny_folder(tmp_path / "other", num_hidden_layers=2))
    assert "another model (tiny)" in _refusal(path, other)


def test_a_model_computing_otherwise_is_told(tmp_path: Path, model: LoadedModel) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    _about(path, lambda about: about["model"].update(compute="GPU bfloat16"))
    sentence = _refusal(path, model)
    assert "GPU bfloat16" in sentence
    assert model.compute in sentence


@pytest.mark.parametrize(
    "change",
    [
        lambda about, arrays: about["config"].update(method="nothing"),
        lambda about, arrays: about["config"].update(skvq_bits_key=4),
        lambda about, arrays: about["config"].update(skvq_new=4),
        lambda about, arrays: about.update(config=[1]),
        lambda about, arrays: about["slots"].pop(),
        lambda about, arrays: about["slots"][1].update({"class": "KVCache"}),
        lambda about, arrays: about["slots"][1]["facts"].update(tokens=-1),
        lambda about, arrays: about["slots"][1]["facts"]["keys"].update(factors=["a", 1]),
        lambda about, arrays: about["slots"][1]["facts"]["keys"].pop("factors"),
        lambda about, arrays: arrays.pop("1.values.exact"),
        lambda about, arrays: arrays.update({"1.keys.codes": arrays["1.keys.codes"].astype(mx.float32)}),
        lambda about, arrays: arrays.update({"1.keys.windows": arrays["1.keys.windows"].astype(mx.float16)}),
        lambda about, arrays: arrays.update({"1.keys.codes": arrays["1.keys.codes"][:, :, 1:]}),
        lambda about, arrays: arrays.update({"1.keys.order": mx.full((2, 32), 1 << 20, dtype=mx.int32)}),
        lambda about, arrays: arrays.update({"tokens": arrays["tokens"][:-1]}),
        lambda about, arrays: arrays.update({"tokens": arrays["tokens"].astype(mx.float32)}),
        lambda about, arrays: about.update(turns=[1]),
    ],
)
def test_what_does_not_fit_its_slot_is_refused_even_with_a_digest_that_fits(
    tmp_path: Path, model: LoadedModel, change: Callable[[dict[str, Any], dict[str, mx.array]], None]
) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    _forge(path, change)
    assert "doesn't fit" in _refusal(path, model)


def test_random_damage_never_gets_through(tmp_path: Path, model: LoadedModel) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    source = np.random.default_rng(3)
    for _ in range(60):
        bad = bytearray(data)
        for place in source.integers(0, 8 + length, 3):
            bad[place] = int(source.integers(0, 256))
        if bytes(bad) == data:
            continue
        path.write_bytes(bad)
        _refusal(path, model)


class _FullDisk:
    """A file that runs out of room after so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 100, 20_000])
def test_a_full_disk_leaves_the_file_of_before(
    tmp_path: Path, model: LoadedModel, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    path = tmp_path / "chat.cache"
    _saved(model, path)
    before = path.read_bytes()
    real = mx.save_safetensors
    with monkeypatch.context() as patch:
        patch.setattr(mx, "save_safetensors", lambda file, *more: real(_FullDisk(file, room), *more))
        with pytest.raises(StorageError, match="No space left"):
            _saved(model, path, KVCacheConfig("plain"))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["chat.cache"]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path, model: LoadedModel) -> None:
    with pytest.raises(StorageError, match="choose another place"):
        _saved(model, tmp_path / "no" / "chat.cache")
