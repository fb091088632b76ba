"""Reading the header of a GGUF file with every count and size checked against the file.

MLX's own reader trusts the header and can end the process on a damaged one, so no file reaches it
that has not passed here. Format: github.com/ggml-org/ggml, docs/gguf.md.
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import ModelError

# Type number -> name; from ggml.h. Only those in _BLOCKS are read.
_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K",
    11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
    27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip

_BLOCKS = {"F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34)}
"""Readable types -> (values, bytes) of one block."""

READABLE_TYPES = tuple(_BLOCKS)

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_ENTRIES = 1 << 16
_MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a GGUF file."""

    name: str
    shape: tuple[int, ...]
    """Outermost axis first, in values."""
    kind: str
    """Type name such as Q4_1; any of ggml's, readable or not."""
    offset: int
    """From the start of the file, bytes."""
    size: int | None
    """Bytes; None where the type is not a readable one."""


@dataclass(frozen=True, slots=True)
class Header:
    """The checked header of a GGUF file."""

    version: int
    metadata: dict[str, Any]
    """Arrays are lists; numbers are Python's."""
    tensors: tuple[TensorInfo, ...]


class _Damaged(Exception):
    """Why a header can't be read, as the middle of a sentence."""


class _Reader:
    """Little-endian reads that never go past the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.left = size
        self.size = size

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise _Damaged("it ends in the middle of its header")
        data = self._file.read(count)
        if len(data) != count:
            raise _Damaged("it ends in the middle of its header")
        self.left -= count
        return data

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        length = self.number("Q")
        if length > self.left:
            raise _Damaged(f"it declares a text of {length} bytes and {self.left} are left")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise _Damaged("a text in its header is not UTF-8") from None

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise _Damaged(f"its header uses the unknown value type {kind}")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            code = _SCALARS[inner]
            width = struct.calcsize("<" + code)
            if count * width > self.left:
                raise _Damaged(f"it declares a list of {count} values and {self.left} bytes are left")
            return list(struct.unpack(f"<{count}{code}", self.take(count * width)))
        if inner != _STRING:
            raise _Damaged("its header holds a list of lists")
        if count * 8 > self.left:
            raise _Damaged(f"it declares a list of {count} texts and {self.left} bytes are left")
        return [self.text() for _ in range(count)]


def read_header(file: Path) -> Header:
    """Parse the header of a GGUF file of version 2 or 3; reads no tensor.

    Promises that counts, lengths, and the place and size of every readable tensor lie inside the
    file. Says nothing about architecture or types: see ``gguf_config.check_supported``.
    Raises ModelError in one sentence.
    """
    try:
        size = file.stat().st_size
        if size == 0:
            raise ModelError(f"{file.name} is an empty file: download it again.")
        with file.open("rb") as handle:
            return _parse(_Reader(handle, size))
    except _Damaged as damage:
        raise ModelError(f"{file.name} is not a whole GGUF file ({damage}): download it again.") from None
    except OSError as error:
        raise ModelError(f"{file} can't be read ({error.strerror or error}): choose another file.") from error


def _parse(reader: _Reader) -> Header:
    if reader.left < 4 or reader.take(4) != b"GGUF":
        raise _Damaged("it doesn't begin like one")
    version = reader.number("I")
    if version not in (2, 3):
        raise _Damaged(f"its version is {version} and versions 2 and 3 are read")
    tensor_count, entry_count = reader.number("Q"), reader.number("Q")
    if tensor_count > _MOST_ENTRIES or entry_count > _MOST_ENTRIES:
        raise _Damaged(f"it declares {tensor_count} tensors and {entry_count} settings")
    metadata: dict[str, Any] = {}
    for _ in range(entry_count):
        key = reader.text()
        metadata[key] = reader.value(reader.number("I"))
    found = [_tensor(reader) for _ in range(tensor_count)]
    if len({name for name, *_ in found}) != len(found):
        raise _Damaged("two tensors share one name")
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise _Damaged(f"its alignment is {alignment}")
    read = reader.size - reader.left
    start = (read + alignment - 1) // alignment * alignment
    return Header(version, metadata, tuple(_place(*item, start, alignment, reader.size) for item in found))


def _tensor(reader: _Reader) -> tuple[str, tuple[int, ...], str, int]:
    name = reader.text()
    dimensions = reader.number("I")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise _Damaged(f"tensor {name[:64]} has {dimensions} axes")
    shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
    kind = reader.number("I")
    return name, shape, _NAMES.get(kind, f"number {kind}"), reader.number("Q")


def _place(
    name: str, shape: tuple[int, ...], kind: str, offset: int, start: int, alignment: int, file_size: int
) -> TensorInfo:
    size = None
    if 0 in shape or math.prod(shape) > 1 << 48:
        raise _Damaged(f"tensor {name[:64]} has the shape {'x'.join(map(str, shape))}")
    if kind in _BLOCKS:
        values, width = _BLOCKS[kind]
        if shape[-1] % values:
            raise _Damaged(f"tensor {name[:64]} has rows of {shape[-1]} values, no multiple of {values}")
        size = math.prod(shape) // values * width
    if offset % alignment or start + offset + (size or 0) > file_size:
        raise _Damaged(f"tensor {name[:64]} lies beyond its end")
    return TensorInfo(name, shape, kind, start + offset, size)
