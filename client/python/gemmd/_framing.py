"""Messages written and read around their payload, by hand.

A protobuf message with 64 MiB of bytes in it is copied several times by its class. Here what describes the
payload goes through the classes, and the payload itself is joined to it, or cut out of it, as it lies.
"""

from __future__ import annotations

from typing import NamedTuple

Bytes = bytes | bytearray | memoryview

PAYLOAD_FIELD = 100  # of every message that carries payload; the chunk's data has the same number
_LENGTH = 2  # the wire type of strings, bytes and messages


class BadMessage(ValueError):
    """The bytes are no protobuf message, or no such one."""


class Chunk(NamedTuple):
    """Bytes of one plane of one operand; `data` is a view into the message it came in."""

    request_id: int
    operand: int
    plane: int
    offset: int
    data: memoryview


def varint(value: int) -> bytes:
    """Base 128, the lowest seven bits first. REQUIRES: 0 <= value < 2**64."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(view: Bytes, at: int) -> tuple[int, int]:
    """The value at `at`, and where the next byte is."""
    value = shift = 0
    try:
        while True:
            byte = view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, at
            shift += 7
            if shift > 63:
                raise BadMessage("a number has more than ten bytes")
    except IndexError:
        raise BadMessage("the message ends within a number") from None


def uint_field(number: int, value: int) -> bytes:
    """A number as a field; empty for 0, which is what an absent field means."""
    return varint(number << 3) + varint(value) if value else b""


def field_prefix(number: int, length: int) -> bytes:
    """What comes before the content of a field that is a message, or bytes."""
    return varint(number << 3 | _LENGTH) + varint(length)


def chunk_prefix(number: int, request_id: int, operand: int, plane: int, offset: int, length: int) -> bytes:
    """What comes before the data of a Chunk that is field `number`: with the data it is the whole field."""
    head = (
        uint_field(1, request_id)
        + uint_field(2, operand)
        + uint_field(3, plane)
        + uint_field(4, offset)
        + field_prefix(PAYLOAD_FIELD, length)
    )
    return field_prefix(number, len(head) + length) + head


def _skip(view: memoryview, at: int, wire_type: int) -> tuple[int, int]:
    """Where a field's content begins and ends."""
    if wire_type == _LENGTH:
        length, at = read_varint(view, at)
        end = at + length
    elif wire_type == 0:
        _, end = read_varint(view, at)
    elif wire_type == 1:
        end = at + 8
    elif wire_type == 5:
        end = at + 4
    else:
        raise BadMessage(f"a field has wire type {wire_type}")
    if end > len(view):
        raise BadMessage("the message ends within a field")
    return at, end


def _parse_chunk(view: memoryview) -> Chunk:
    numbers = [0, 0, 0, 0, 0]
    data = view[:0]
    at = 0
    while at < len(view):
        tag, at = read_varint(view, at)
        start, end = _skip(view, at, tag & 7)
        if tag == PAYLOAD_FIELD << 3 | _LENGTH:
            data = view[start:end]
        elif tag & 7 == 0 and 1 <= tag >> 3 <= 4:
            numbers[tag >> 3], _ = read_varint(view, start)
        at = end
    return Chunk(numbers[1], numbers[2], numbers[3], numbers[4], data)


def split(message: Bytes) -> tuple[bytes, list[Chunk]]:
    """A message's fields but the payload, as a message, and its chunks. BadMessage where it is none."""
    view = memoryview(message)
    rest: list[memoryview] = []
    chunks = []
    at = 0
    while at < len(view):
        begin = at
        tag, at = read_varint(view, at)
        start, at = _skip(view, at, tag & 7)
        if tag == PAYLOAD_FIELD << 3 | _LENGTH:
            chunks.append(_parse_chunk(view[start:at]))
        else:
            rest.append(view[begin:at])
    return b"".join(rest), chunks
