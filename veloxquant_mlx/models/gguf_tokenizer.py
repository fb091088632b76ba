"""From the tokenizer inside a GGUF file to ``tokenizer.json`` and ``tokenizer_config.json``."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from ..errors import ModelError
from .gguf_header import Header

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# Pre-tokenizer name -> the expressions that split the text, one after the other.
_SPLITS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "gpt-2": (_GPT2,),
    "gpt2": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    "starcoder": (r"\p{N}", _GPT2),
    "refact": (r"\p{N}", _GPT2),
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "llama-v3": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
}
_LLAMA3_NAMES = ("llama-bpe", "llama3", "llama-v3")
_QWEN2_NAMES = ("qwen2", "deepseek-r1-qwen")

# Token types of the file format.
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4

# Texts that end a reply whatever the file's own end-of-sequence id says.
_ENDS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>", "<|end|>")


def end_tokens(header: Header) -> list[int]:
    """Ids that end a reply, the file's own first. Raises ModelError when there is none."""
    tokens, types = _tokens(header)
    found = [header.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    ids = [i for i in found if isinstance(i, int) and 0 <= i < len(tokens)]
    ids += [i for i, text in enumerate(tokens) if types[i] == _CONTROL and text in _ENDS]
    if not ids:
        raise ModelError("This GGUF file names no token that ends a reply: it can't be imported.")
    return list(dict.fromkeys(ids))


def write_tokenizer(header: Header, folder: Path, context: int) -> None:
    """Write both tokenizer files into ``folder``. Raises ModelError, OSError."""
    kind = header.metadata.get("tokenizer.ggml.model")
    tokens, types = _tokens(header)
    if len(set(tokens)) != len(tokens):
        raise ModelError("This GGUF file's tokenizer holds the same token twice: it can't be imported.")
    if kind == "gpt2":
        tokenizer, add_bos = _byte_level(header, tokens)
    elif kind == "llama":
        tokenizer, add_bos = _sentence_piece(header, tokens, types)
    else:
        raise ModelError(
            f"This GGUF file has a tokenizer of kind '{kind or 'unknown'}'; gpt2 and llama can be imported."
        )
    if tokenizer.get_vocab_size() != len(tokens):
        raise ModelError("This GGUF file's tokenizer is damaged: download it again.")
    for special in (True, False):
        wanted = (_CONTROL, _UNKNOWN) if special else (_USER_DEFINED,)
        added = [
            AddedToken(text, special=special, normalized=False)
            for text, token_type in zip(tokens, types, strict=True)
            if token_type in wanted and text
        ]
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)(added)
    bos, eos = _named(header, "bos", tokens), _named(header, "eos", tokens)
    if header.metadata.get("tokenizer.ggml.add_bos_token", add_bos) and bos is not None:
        pair = (bos, tokens.index(bos))
        start = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[pair]
        )
        tokenizer.post_processor = (
            start
            if kind == "llama"
            else processors.Sequence([processors.ByteLevel(trim_offsets=False), start])
        )
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    words: dict[str, Any] = {
        # The generic class takes tokenizer.json as it stands; named classes rebuild parts of it.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos or tokens[end_tokens(header)[0]],
        "unk_token": _named(header, "unknown", tokens),
        "pad_token": _named(header, "padding", tokens),
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "chat_template": header.metadata.get("tokenizer.chat_template"),
    }
    words = {key: value for key, value in words.items() if value is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(words, indent=1), encoding="utf-8")


def _byte_level(header: Header, tokens: list[str]) -> tuple[Tokenizer, bool]:
    """Byte-level BPE and whether such files begin texts with the bos token when they don't say."""
    name = header.metadata.get("tokenizer.ggml.pre", "default")
    if name not in _SPLITS:
        raise ModelError(
            f"This GGUF file's tokenizer splits text in the way of '{name}', which can't be imported."
        )
    merges = header.metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list) or not all(isinstance(m, str) and " " in m[1:] for m in merges):
        raise ModelError("This GGUF file's tokenizer has no usable list of merges: it can't be imported.")
    vocabulary = {text: index for index, text in enumerate(tokens)}
    # The separator is the first space after the first character: pieces never hold one themselves.
    pairs = [(m[: m.index(" ", 1)], m[m.index(" ", 1) + 1 :]) for m in merges]
    if any(not {a, b, a + b} <= vocabulary.keys() for a, b in pairs):
        raise ModelError("This GGUF file's tokenizer merges tokens it doesn't have: download it again.")
    is_llama3 = name in _LLAMA3_NAMES
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=is_llama3))
    splits: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in _SPLITS[name]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    if name in _QWEN2_NAMES:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, is_llama3


def _sentence_piece(header: Header, tokens: list[str], types: list[int]) -> tuple[Tokenizer, bool]:
    """SentencePiece BPE: scores give the order of merging; unknown characters become byte tokens."""
    scores = header.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise ModelError("This GGUF file's tokenizer has no usable list of scores: it can't be imported.")
    vocabulary = {text: index for index, text in enumerate(tokens)}
    merges: list[tuple[float, int, int, str, str]] = []
    for index, text in enumerate(tokens):
        if types[index] not in (1, _USER_DEFINED):
            continue
        for cut in range(1, len(text)):
            left, right = vocabulary.get(text[:cut]), vocabulary.get(text[cut:])
            if left is not None and right is not None:
                merges.append((-scores[index], left, right, text[:cut], text[cut:]))
    merges.sort(key=lambda merge: merge[:3])
    unknown = _named(header, "unknown", tokens) or next(
        (t for t, kind in zip(tokens, types, strict=True) if kind == _UNKNOWN), None
    )
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary,
            merges=[(left, right) for *_, left, right in merges],
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefix = header.metadata.get("tokenizer.ggml.add_space_prefix", True)
    steps: list[Any] = [normalizers.Prepend("▁")] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    ends: list[Any] = [decoders.Strip(content=" ", left=1, right=0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *ends]
    )
    return tokenizer, True


def _tokens(header: Header) -> tuple[list[str], list[int]]:
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
        raise ModelError("This GGUF file holds no tokenizer: it can't be imported.")
    types = header.metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
    if not isinstance(types, list) or len(types) != len(tokens):
        raise ModelError("This GGUF file's tokenizer is damaged: download it again.")
    return tokens, types


def _named(header: Header, name: str, tokens: list[str]) -> str | None:
    index = header.metadata.get(f"tokenizer.ggml.{name}_token_id")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(tokens):
        return tokens[index]
    return None
