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
    short = -stream.shape[-1] % lane_bytes(bits)
    if short:
        stream = mx.pad(stream, [(0, 0)] * (stream.ndim - 1) + [(0, short)])
    codes = lanes(stream, bits).swapaxes(-1, -2)
    return codes.reshape(*stream.shape[:-1], -1)[..., :count].astype(mx.uint8)


def lane_bytes(bits: int) -> int:
    """Bytes after which a row's codes start at a byte's first bit again."""
    return 1 if 8 % bits == 0 else bits


def lanes(stream: mx.array, bits: int) -> mx.array:
    """The codes of each row with those together that start at the same bit.

    It costs half of what putting them in their order does.

    Args:
        stream: uint8, [..., n * lane_bytes(bits)].

    Returns:
        Whole numbers, [..., L, n]; the code in lane ``l`` and place ``i`` is the row's number ``L * i + l``.
    """
    mask = (1 << bits) - 1
    if 8 % bits == 0:
        shifts = mx.arange(0, 8, bits, dtype=mx.uint8)[:, None]
        return (stream[..., None, :] >> shifts) & mask
    grouped = stream.reshape(*stream.shape[:-1], -1, bits)
    if bits == 3:
        # All eight codes of three bytes fit one word: two operations instead of twenty.
        low, middle, high = (grouped[..., byte].astype(mx.uint32) for byte in range(3))
        word = low | (middle << 8) | (high << 16)
        return (word[..., None, :] >> mx.arange(0, 24, 3, dtype=mx.uint32)[:, None]) & mask
    codes = []
    for lane in range(8):
        byte, shift = divmod(bits * lane, 8)
        value = grouped[..., byte] >> shift
        if shift + bits > 8:
            value = value | (grouped[..., byte + 1] << (8 - shift))
        codes.append(value & mask)
    return mx.stack(codes, axis=-2)
