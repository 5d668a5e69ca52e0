"""What an operand is known by: SHA-256 of its form and of the digests of its mebibytes (operands.proto)."""

from __future__ import annotations

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor

from gemmd._cpus import usable_cpus
from gemmd._header import OperandSpec
from gemmd._layout import Array, Blocks, Laid, Plane

_CHUNK = 1 << 20
_FROM_THREADS = 4 << 20  # bytes from which hashing in threads pays; hashlib lets others run meanwhile


def _chunk_digests(data: memoryview) -> bytes:
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    if len(data) < _FROM_THREADS:
        return b"".join(hashlib.sha256(each).digest() for each in pieces)
    with ThreadPoolExecutor(min(8, usable_cpus())) as threads:
        return b"".join(threads.map(lambda each: hashlib.sha256(each).digest(), pieces))


def operand_digest(
    planes: list[tuple[int, Plane, memoryview]], blocks: Blocks | None, k_order: bytes = b""
) -> bytes:
    """32 bytes. planes: PlaneName, layout and tightly packed bytes, in the order of PlaneName, data first."""
    whole = hashlib.sha256(b"gemmd.v1.operand\n" + struct.pack("<II", planes[0][1].type, len(planes)))
    for name, plane, data in planes:
        whole.update(struct.pack("<IIQQIQ", name, plane.type, plane.rows, plane.columns, plane.order, len(data)))
        whole.update(_chunk_digests(data))
    if blocks is not None:
        whole.update(struct.pack("<III", *blocks))
    whole.update(k_order)
    return whole.digest()


class Source:
    """An operand whose bytes are here, so that a server that lost it gets it again. It never changes.

    planes: by PlaneName, in its order, tightly packed. stored_form: what the server is to keep instead of it.
    k_order: as Operand.k_order has it; empty: there is none.
    """

    __slots__ = ("blocks", "digest", "k_order", "keeps", "planes", "size_bytes", "stored_form")

    def __init__(
        self,
        planes: list[tuple[int, Laid]],
        blocks: Blocks | None,
        stored_form: OperandSpec | None = None,
        k_order: Array | None = None,
    ) -> None:
        self.planes = [(name, laid.plane, laid.data) for name, laid in planes]
        self.blocks = blocks
        self.k_order = b"" if k_order is None else k_order.astype("<u4").tobytes()
        self.digest = operand_digest(self.planes, blocks, self.k_order)
        self.size_bytes = sum(len(each[2]) for each in self.planes)
        self.stored_form = stored_form
        self.keeps = planes  # the arrays that the views are of

    def spec(self) -> OperandSpec:
        """Its planes, as an upload describes them."""
        return OperandSpec(
            self.planes[0][1], tuple((name, plane) for name, plane, _ in self.planes[1:]), self.blocks
        )
