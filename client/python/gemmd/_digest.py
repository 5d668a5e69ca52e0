"""What an operand is known by: SHA-256 of its form and of the digests of its mebibytes (operands.proto)."""

from __future__ import annotations

import hashlib
import os
import struct
from concurrent.futures import ThreadPoolExecutor

from gemmd._header import DATA, SCALES, OperandSpec
from gemmd._layout import Plane

_CHUNK = 1 << 20
_FROM_THREADS = 4 << 20  # bytes from which hashing in threads pays; hashlib lets others run meanwhile


def _chunk_digests(data: memoryview) -> bytes:
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    if len(data) < _FROM_THREADS:
        return b"".join(hashlib.sha256(each).digest() for each in pieces)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        return b"".join(threads.map(lambda each: hashlib.sha256(each).digest(), pieces))


def operand_digest(stored_type: int, planes: list[tuple[int, Plane, memoryview]]) -> bytes:
    """32 bytes. planes: PlaneName, layout and tightly packed bytes, in the order of PlaneName."""
    whole = hashlib.sha256(b"gemmd.v1.operand\n" + struct.pack("<II", stored_type, len(planes)))
    for name, plane, data in planes:
        whole.update(struct.pack("<IIQQIQ", name, plane.type, plane.rows, plane.columns, plane.order, len(data)))
        whole.update(_chunk_digests(data))
    return whole.digest()


class Source:
    """An operand whose bytes are here, so that a server that lost it gets it again. It never changes."""

    __slots__ = ("digest", "keeps", "planes", "size_bytes")

    def __init__(
        self, data: tuple[Plane, memoryview], scales: tuple[Plane, memoryview] | None, keeps: object
    ) -> None:
        self.planes = [(DATA, *data)]
        if scales is not None:
            self.planes.append((SCALES, *scales))
        self.digest = operand_digest(data[0].type, self.planes)
        self.size_bytes = sum(len(each[2]) for each in self.planes)
        self.keeps = keeps  # the arrays that the views are of

    def spec(self) -> OperandSpec:
        """Its planes, as an upload describes them."""
        return OperandSpec(self.planes[0][1], self.planes[1][1] if len(self.planes) > 1 else None)
