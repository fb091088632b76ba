"""The distributions a reply was chosen from, kept until they are compared, within bounds."""

import tempfile

import mlx.core as mx
import numpy as np

MEMORY = 64 << 20
"""Bytes that stay in memory; beyond them everything goes to a temporary file without a name."""
MOST = 512 << 20
"""Bytes kept at most: about 5,000 tokens of a vocabulary of 49,000, 1,700 of 150,000."""


class KeptRows:
    """Log-probabilities of a reply's tokens, one row [V] of float16 each, as ``generate`` hands them out.

    A long reply is kept as far as ``most`` goes, and as far as the disk does; ``count`` says how far. The
    file has no name and goes with the object.
    """

    def __init__(self, memory: int = MEMORY, most: int = MOST) -> None:
        self.count = 0
        """Rows kept, from the first token of the reply on."""
        self.width = 0
        """Entries of a row: the vocabulary."""
        self._most = most
        self._full = False
        self._file = tempfile.SpooledTemporaryFile(max_size=memory)  # noqa: SIM115

    @property
    def nbytes(self) -> int:
        """Bytes kept (counted)."""
        return 2 * self.width * self.count

    def add(self, row: mx.array) -> None:
        """Keep the next row, unless there is no more room: a reply never fails for it."""
        self.width = row.shape[0]
        if self._full or self.nbytes + 2 * self.width > self._most:
            self._full = True
            return
        try:
            self._file.seek(self.nbytes)
            self._file.write(np.array(row).tobytes())
        except OSError:
            self._full = True
        else:
            self.count += 1

    def read(self, first: int, last: int) -> mx.array:
        """Rows ``first`` to ``last``, [last - first, V] float16."""
        self._file.seek(2 * self.width * first)
        data = self._file.read(2 * self.width * (last - first))
        return mx.array(np.frombuffer(data, np.float16).reshape(last - first, self.width))

    def close(self) -> None:
        """Give memory and file back."""
        self._file.close()
