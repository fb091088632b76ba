"""Writes small GGUF files the way llama.cpp does, and knows what their tensors stand for."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "BF16": 30}
ALIGNMENT = 32


def pack(values: np.ndarray, kind: str) -> tuple[bytes, np.ndarray]:
    """Bytes of a tensor in a GGUF type, and the float32 values those bytes stand for."""
    values = np.ascontiguousarray(values, np.float32)
    if kind == "F32":
        return values.tobytes(), values
    if kind == "F16":
        return values.astype(np.float16).tobytes(), values.astype(np.float16).astype(np.float32)
    blocks = values.reshape(-1, 32)
    low = np.zeros((len(blocks), 1), np.float16)
    if kind == "Q8_0":
        scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
        codes = np.clip(np.rint(blocks / np.where(scale == 0, 1, scale)), -127, 127).astype(np.int8)
        data = np.concatenate([scale.view(np.uint8), codes.view(np.uint8)], 1).tobytes()
        return data, (codes * scale.astype(np.float32)).reshape(values.shape)
    if kind == "Q4_0":
        scale = (np.abs(blocks).max(1, keepdims=True) / 7).astype(np.float16)
        codes = np.clip(np.rint(blocks / np.where(scale == 0, 1, scale)) + 8, 0, 15).astype(np.uint8)
        decoded = (codes.astype(np.float32) - 8) * scale.astype(np.float32)
    elif kind == "Q4_1":
        low = blocks.min(1, keepdims=True).astype(np.float16)
        scale = ((blocks.max(1, keepdims=True) - low) / 15).astype(np.float16)
        codes = np.clip(np.rint((blocks - low) / np.where(scale == 0, 1, scale)), 0, 15).astype(np.uint8)
        decoded = codes * scale.astype(np.float32) + low.astype(np.float32)
    else:
        return bytes(values.size), values
    # The first 16 values of a block are the low halves of its bytes, the other 16 the high halves.
    nibbles = codes[:, :16] | (codes[:, 16:] << 4)
    heads = [scale.view(np.uint8)] if kind == "Q4_0" else [scale.view(np.uint8), low.view(np.uint8)]
    return np.concatenate([*heads, nibbles], 1).tobytes(), decoded.reshape(values.shape)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(value: Any) -> bytes:
    """Type number and bytes of one metadata value."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    items = list(value)
    if isinstance(items[0], str):
        return struct.pack("<IIQ", 9, 8, len(items)) + b"".join(map(text, items))
    code, kind = ("f", 6) if isinstance(items[0], float) else ("i", 5)
    return struct.pack(f"<IIQ{len(items)}{code}", 9, kind, len(items), *items)


def write_gguf(
    path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[np.ndarray, str]], version: int = 3
) -> dict[str, np.ndarray]:
    """Write the file; returns the values each tensor stands for after packing."""
    out = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    out += [text(key) + entry(value) for key, value in metadata.items()]
    blobs: list[bytes] = []
    meant: dict[str, np.ndarray] = {}
    offset = 0
    for name, (values, kind) in tensors.items():
        data, meant[name] = pack(values, kind)
        data += bytes(-len(data) % ALIGNMENT)
        shape = values.shape[::-1]
        out.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, KINDS[kind], offset))
        blobs.append(data)
        offset += len(data)
    head = b"".join(out)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + b"".join(blobs))
    return meant


_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def interleave(values: np.ndarray, heads: int) -> np.ndarray:
    """The order llama.cpp stores llama's queries and keys in: halves of each head interleaved."""
    size = values.shape[0] // heads
    return values.reshape(heads, 2, size // 2, -1).swapaxes(1, 2).reshape(values.shape)


def model_tensors(model: Any, config: dict[str, Any], kind: str = "F32") -> dict[str, tuple[np.ndarray, str]]:
    """A tiny mlx_lm model's weights under GGUF names; two-axis ones get type ``kind``."""
    from mlx.utils import tree_flatten

    tensors: dict[str, tuple[np.ndarray, str]] = {}
    for name, array in tree_flatten(model.parameters()):
        values = np.array(array)
        stem, _, suffix = name.rpartition(".")
        if stem.startswith("model.layers."):
            _, _, layer, inner = stem.split(".", 3)
            if config["model_type"] == "llama" and inner.endswith(("q_proj", "k_proj")):
                wide = inner.endswith("q_proj")
                heads = config["num_attention_heads" if wide else "num_key_value_heads"]
                values = interleave(values, heads)
            stem = f"blk.{layer}.{_NAMES[inner]}"
        else:
            top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
            stem = top[stem]
        tensors[f"{stem}.{suffix}"] = (values, kind if values.ndim == 2 else "F32")
    return tensors


def byte_level_metadata(size: int) -> dict[str, Any]:
    """A byte-level tokenizer of ``size`` tokens: 256 bytes, merges, three control tokens at the end."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    pairs = [("Ġ", "t"), ("h", "e"), ("i", "n"), ("Ġt", "he"), ("e", "r"), ("1", "2"), ("a", "n")]
    fill = [(a, b) for a in "xyz" for b in "qjkvwxyzpb" if len(a) == 1][: size - 256 - 3 - len(pairs)]
    merges = [*pairs, *fill]
    tokens = [*letters, *(a + b for a, b in merges), "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 3) + [3] * 3,
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in merges],
        "tokenizer.ggml.bos_token_id": len(tokens) - 3,
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def model_metadata(config: dict[str, Any]) -> dict[str, Any]:
    """Settings of a tiny model in GGUF's words, with a byte-level tokenizer."""
    kind = config["model_type"]
    sizes = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_theta"],
    }
    head = {"general.architecture": kind, "general.name": f"tiny {kind}"}
    return head | {f"{kind}.{k}": v for k, v in sizes.items()} | byte_level_metadata(config["vocab_size"])


def tiny_gguf(path: Path, family: str = "llama", kind: str = "F32", **changes: Any) -> Path:
    """A whole GGUF file of a tiny random model; ``changes`` replace metadata (None removes an entry)."""
    from tests.tiny import tiny_config, tiny_model

    config = tiny_config(family)
    metadata = model_metadata(config) | {key.replace("__", "."): value for key, value in changes.items()}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    write_gguf(path, metadata, model_tensors(tiny_model(family), config, kind))
    return path
