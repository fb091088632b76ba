"""Finding and describing models: every place, every kind of damage, no weight read, no code run."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gguf_writer import tiny_gguf
from tests.tiny import tiny_config, tiny_folder
from veloxquant_mlx import paths
from veloxquant_mlx.errors import ModelError
from veloxquant_mlx.models.find import describe, find_models
from veloxquant_mlx.models.load import load_model


def test_importing_find_is_light() -> None:
    code = (
        "import sys, veloxquant_mlx.models.find; "
        "print([m for m in ('mlx_lm', 'transformers', 'mlx.core') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path(os.environ["HOME"])
    repository = home / ".cache/huggingface/hub/models--some--model"
    tiny_folder(repository / "snapshots/aaa")
    tiny_folder(repository / "snapshots/bbb", "qwen3")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("aaa")
    (home / ".cache/huggingface/hub/datasets--some--set/snapshots/a").mkdir(parents=True)
    tiny_folder(home / ".lmstudio/models/somebody/studio-model")
    tiny_folder(home / ".cache/lm-studio/models/somebody/old-model")
    tiny_folder(home / ".omlx/models/omlx-model")
    tiny_folder(paths.models_dir() / "own")
    (paths.models_dir() / ".own.x.part").mkdir()
    tiny_folder(tmp_path / "opened/deep/er")
    tiny_gguf(tmp_path / "opened/file.gguf")
    found = find_models([tmp_path / "opened", tmp_path / "opened/file.gguf", tmp_path / "nowhere"])
    assert [(info.name, info.source, info.problem is None) for info in found] == [
        ("own", "this app", True),
        ("file", "opened", True),
        ("er", "opened", True),
        ("nowhere", "opened", False),
        ("some/model", "Hugging Face cache", True),
        ("studio-model", "LM Studio", True),
        ("old-model", "LM Studio", True),
        ("omlx-model", "oMLX", True),
    ]
    assert found[4].path.name == "aaa"
    tiny_folder(tmp_path / "hub/models--moved--one/snapshots/x")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert "moved/one" in [info.name for info in find_models()]
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert "moved/one" not in [info.name for info in find_models()]


@pytest.mark.parametrize(
    ("family", "slots", "kv_slots", "shape"),
    [
        ("llama", 3, 3, (2, 32, 32)),
        ("qwen2", 3, 3, (1, 32, 32)),
        ("gemma3_text", 3, 1, (2, 32, 32)),
        ("mamba", 3, 0, (None, None, None)),
        ("qwen3_next", 4, 1, (2, 32, 32)),
        ("deepseek_v2", 3, 3, (4, 32, 32)),
    ],
)
def test_slots_and_cache_shape(family: str, slots: int, kv_slots: int, shape: tuple, tmp_path: Path) -> None:
    info = describe(tiny_folder(tmp_path / family, family))
    assert (info.slots, info.kv_slots) == (slots, kv_slots)
    assert (info.heads, info.key_dim, info.value_dim) == shape
    assert info.architecture == family
    assert info.context == 4096


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
def test_packed_weights_count_as_what_they_stand_for(bits: int, tmp_path: Path) -> None:
    plain, packed = describe(tiny_folder(tmp_path / "a")), describe(tiny_folder(tmp_path / "b", bits=bits))
    assert plain.parameters == packed.parameters
    assert plain.weight_bits == 32
    # Scale and bias of each group of 32 are float32 here: two more bits per parameter.
    assert packed.weight_bits == pytest.approx(bits + 2, abs=0.3)
    assert packed.size_bytes < plain.size_bytes


def test_nested_context_is_found(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    config = tiny_config("llama")
    del config["max_position_embeddings"]
    (folder / "config.json").write_text(json.dumps(config | {"text_config": {"max_position_embeddings": 77}}))
    assert describe(folder).context == 77


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _config(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(text) and None


def _changed(**changes: object) -> Callable[[Path], None]:
    return _config(json.dumps(tiny_config("llama") | changes))


def _no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def _cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def _cut_in_header(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:50])


def _empty_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def _absurd_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")


def _pickles(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _missing_shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _own_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"x")
    settings = {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no config.json": _no_config,
    "is not JSON": _config("{"),
    "is not an object": _config("[1]"),
    "no model_type": _config("{}"),
    "'martian' are not supported": _changed(model_type="martian"),
    "'cache' are not supported": _changed(model_type="cache"),
    "names no model_type": _changed(model_type="../evil"),
    "doesn't describe a whole 'llama'": _changed(hidden_size=None),
    "layers": _changed(num_hidden_layers=10**9),
    "code from its own folder": _changed(model_file="evil.py"),
    "holds no tokenizer": _no_tokenizer,
    "never run": _own_tokenizer,
    "not downloaded to its end": _cut,
    "model.safetensors is damaged": _cut_in_header,
    "damaged or was": _empty_weights,
    "is damaged or": _absurd_header,
    "pickles": _pickles,
    "no model*.safetensors": _no_weights,
    "model-00002-of-00002.safetensors": _missing_shard,
}


@pytest.mark.parametrize("words", DAMAGES)
def test_damage_is_one_sentence_everywhere(words: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "models" / "m")
    (folder / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    DAMAGES[words](folder)
    for call in (describe, load_model):
        with pytest.raises(ModelError) as caught:
            call(folder)
        message = str(caught.value)
        assert words in message
        assert message.endswith(".")
        assert "\n" not in message
    (info,) = find_models([folder])
    assert info.problem is not None
    assert words in info.problem
    assert not (folder / "ran").exists()


def test_a_repaired_model_is_seen(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1])
    assert find_models([folder])[0].problem is not None
    (folder / "model.safetensors").write_bytes(whole)
    assert find_models([folder])[0].problem is None


def test_damaged_gguf_is_listed_with_its_problem(tmp_path: Path) -> None:
    (tmp_path / "zero.gguf").write_bytes(b"")
    tiny_gguf(tmp_path / "other.gguf", general__architecture="phi3")
    other, zero = find_models([tmp_path])
    assert "'phi3'" in str(other.problem)
    assert "empty file" in str(zero.problem)
    assert (other.format, zero.format) == ("gguf", "gguf")
