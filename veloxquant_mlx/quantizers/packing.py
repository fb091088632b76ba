"""Packing of small integers: one little-endian bit stream per row.

Eight codes of ``b`` bits fill exactly ``b`` bytes, so every width from 1 to 8 is handled by the same
two loops over at most eight positions; widths that divide a byte take a shorter way. Seen as uint32
words the stream is the layout of ``mx.quantize``, which is why ``mx.quantized_matmul`` can read it.
"""

import mlx.core as mx


def packed_bytes(count: int, bits: int) -> int:
    """Bytes that ``count`` codes of ``bits`` bits take in one row."""
    return (count * bits + 7) // 8


def pack(codes: mx.array, bits: int) -> mx.array:
    """Pack codes along the last axis.

    Args:
        codes: uint8, [..., D], every value below 2**bits.
        bits: 1 to 8.

    Returns:
        uint8, [..., ceil(D * bits / 8)].
    """
    if bits == 8:
        return codes
    count = codes.shape[-1]
    if 8 % bits == 0 and count * bits % 8 == 0:
        lanes = codes.reshape(*codes.shape[:-1], -1, 8 // bits)  # [..., bytes, codes in a byte]
        stream = lanes[..., 0]
        for lane in range(1, 8 // bits):
            stream = stream | (lanes[..., lane] << (bits * lane))
        return stream
    if count % 8:
        codes = mx.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, 8 - count % 8)])
    lanes = codes.reshape(*codes.shape[:-1], -1, 8).astype(mx.uint16)  # [..., D/8, 8]
    columns = []
    for byte in range(bits):
        value = mx.zeros_like(lanes[..., 0])
        for lane in range(8):
            shift = bits * lane - 8 * byte
            if -bits < shift < 8:
                part = lanes[..., lane]
                value = value | (part << shift if shift >= 0 else part >> -shift)
        columns.append(value)
    stream = (mx.stack(columns, axis=-1) & 0xFF).astype(mx.uint8)  # [..., D/8, bits]
    return stream.reshape(*codes.shape[:-1], -1)[..., : packed_bytes(count, bits)]


def unpack(stream: mx.array, bits: int, count: int) -> mx.array:
    """Undo ``pack``.

    Args:
        stream: uint8, [..., ceil(count * bits / 8)].
        bits: 1 to 8.
        count: number of codes in a row.

    Returns:
        uint8, [..., count].
    """
    if bits == 8:
        return stream
    if 8 % bits == 0 and count * bits % 8 == 0:
        last = 8 - bits
        parts = [(stream >> shift) & ((1 << bits) - 1) for shift in range(0, last, bits)]
        return mx.stack([*parts, stream >> last], axis=-1).reshape(*stream.shape[:-1], count)
    short = -stream.shape[-1] % bits
    if short:
        stream = mx.pad(stream, [(0, 0)] * (stream.ndim - 1) + [(0, short)])
    lanes = stream.reshape(*stream.shape[:-1], -1, bits).astype(mx.uint16)
    codes = []
    for lane in range(8):
        byte, shift = divmod(bits * lane, 8)
        value = lanes[..., byte] >> shift
        if shift + bits > 8:
            value = value | (lanes[..., byte + 1] << (8 - shift))
        codes.append(value)
    out = (mx.stack(codes, axis=-1) & ((1 << bits) - 1)).astype(mx.uint8)
    return out.reshape(*stream.shape[:-1], -1)[..., :count]
