"""The header of a safetensors file, read as strictly as client/quantized/safetensors.h says. Texts; no files.

{"__metadata__": {KEY: TEXT, ...}, NAME: {"dtype": TEXT, "shape": [N, ...], "data_offsets": [BEGIN, END]}, ...}

ValueError names what is not of this grammar, with its value and what it may be.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

PREAMBLE_BYTES = 8  # little-endian: the length of the JSON that follows
MOST_HEADER_BYTES = 64 << 10  # ours take less than 1 KiB; other programs may have added metadata
_METADATA = "__metadata__"
_MOST_DIMENSIONS = 8
_DEEPEST = 3  # an array in an object in the object
_FIELDS = ("dtype", "shape", "data_offsets")
_MOST_QUOTED = 128


class Tensor(NamedTuple):
    """begin, end: its bytes among those behind the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """What a file says of itself."""

    metadata: dict[str, str]
    tensors: dict[str, Tensor]


def quoted(text: str) -> str:
    """In quotes and ASCII; of a long text the beginning and its length."""
    rest = f"... ({len(text)} characters)" if len(text) > _MOST_QUOTED else ""
    return json.dumps(text[:_MOST_QUOTED]) + rest


def length_of(preamble: bytes, file_bytes: int) -> int:
    """Bytes of the header's JSON, by the first 8 of a file of that size."""
    if len(preamble) < PREAMBLE_BYTES or file_bytes < PREAMBLE_BYTES:
        raise ValueError(f"the file has {file_bytes} bytes; a safetensors file begins with 8 of a length")
    length = int.from_bytes(preamble[:PREAMBLE_BYTES], "little")
    if not 1 <= length <= MOST_HEADER_BYTES:
        raise ValueError(f"header length {length}: 1 to {MOST_HEADER_BYTES} bytes are accepted")
    if length > file_bytes - PREAMBLE_BYTES:
        raise ValueError(f"header length {length} reaches beyond the file of {file_bytes} bytes")
    return length


def parse(text: bytes, data_bytes: int) -> Header:
    """The header of a file with so many bytes behind it. Tensors may still overlap: see check_covered()."""
    root = _json(text)
    metadata = root.pop(_METADATA, {})
    if type(metadata) is not dict:
        _unexpected(f"the header's {quoted(_METADATA)}", metadata)
    for key, value in metadata.items():
        if type(value) is not str:
            _unexpected(f"the header's {quoted(_METADATA)}: {quoted(key)}", value)
    tensors = {name: _tensor(name, fields) for name, fields in root.items()}
    for name, tensor in tensors.items():
        if tensor.begin > tensor.end or tensor.end > data_bytes:
            raise ValueError(
                f"tensor {quoted(name)} has data_offsets {tensor.begin} to {tensor.end}; they must be in order, "
                f"within the {data_bytes} bytes behind the header"
            )
    return Header(metadata, tensors)


def check_covered(header: Header, data_bytes: int) -> None:
    """ValueError: two tensors overlap, or bytes belong to none."""
    covered = 0
    for name, tensor in sorted(header.tensors.items(), key=lambda each: each[1][2:]):
        if tensor.begin < covered:
            raise ValueError(f"tensor {quoted(name)} begins at byte {tensor.begin}, within another one")
        if tensor.begin > covered:
            break
        covered = tensor.end
    if covered != data_bytes:
        raise ValueError(f"byte {covered} of the {data_bytes} behind the header belongs to no tensor")


def text_of(header: Header) -> bytes:
    """Preamble and JSON, with blanks up to a multiple of 8 bytes, so that data are aligned."""
    root: dict[str, Any] = {_METADATA: dict(sorted(header.metadata.items()))}
    for name, tensor in sorted(header.tensors.items()):
        root[name] = dict(zip(_FIELDS, (tensor.dtype, tensor.shape, (tensor.begin, tensor.end)), strict=True))
    text = json.dumps(root, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(PREAMBLE_BYTES, "little") + text


class _Number(str):
    """The text of one that is no whole number of 64 bits, NaN among them, which Python's parser takes."""

    __slots__ = ()


def _whole(text: str) -> Any:
    # Long digits are not made an int: the interpreter refuses them, in an error of its own.
    return int(text) if text.isdigit() and len(text) <= 20 and int(text) < 1 << 64 else _Number(text)


def _json(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):  # other readers want this very byte first
        raise ValueError("the header does not begin with {")
    try:
        characters = text.decode()
        _check_depth(characters)
        found: dict[str, Any] = json.loads(
            characters, object_pairs_hook=_object, parse_int=_whole, parse_float=_Number, parse_constant=_Number
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"the header is no JSON from its byte {error.start} on") from None
    except json.JSONDecodeError as error:
        at = len(characters[: error.pos].encode())
        raise ValueError(f"the header is no JSON from its byte {at} on") from None
    return found


def _check_depth(text: str) -> None:
    """Before Python's parser sees it, which takes a frame of the C stack for each level."""
    depth = 0
    for each in re.findall(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', text, re.DOTALL):
        depth += (each in "[{") - (each in "]}")
        if depth > _DEEPEST:
            raise ValueError(f"the header has an array or an object {depth} deep; {_DEEPEST} is the deepest")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"the header has {quoted(name)} twice")
        for text in (name, value):
            if type(text) is str and not text.isascii() and re.search("[\ud800-\udfff]", text):
                raise ValueError(f"the header has {quoted(text)}, half of a character of UTF-16")
        made[name] = value
    return made


def _tensor(name: str, fields: Any) -> Tensor:
    where = f"the header's {quoted(name)}"
    if type(fields) is not dict:
        _unexpected(where, fields)
    for field in fields:
        if field not in _FIELDS:
            raise ValueError(
                f"tensor {quoted(name)} has the field {quoted(field)}; dtype, shape and data_offsets are accepted"
            )
    for field in _FIELDS:
        if field not in fields:
            raise ValueError(f"tensor {quoted(name)} has no {field}")
    if type(fields["dtype"]) is not str:
        _unexpected(f'{where}: "dtype"', fields["dtype"])
    shape = _numbers(f'{where}: "shape"', fields["shape"])
    offsets = _numbers(f'{where}: "data_offsets"', fields["data_offsets"])
    if len(offsets) != 2:
        raise ValueError(f'{where}: "data_offsets" has {len(offsets)} numbers; it must have 2')
    return Tensor(fields["dtype"], shape, *offsets)


def _numbers(where: str, values: Any) -> tuple[int, ...]:
    if type(values) is not list:
        _unexpected(where, values)
    for each in values:
        if type(each) is not int:
            _unexpected(where, each)
    if len(values) > _MOST_DIMENSIONS:
        raise ValueError(f"{where} has more than {_MOST_DIMENSIONS} numbers")
    return tuple(values)


def _unexpected(where: str, value: Any) -> None:
    if isinstance(value, _Number):
        what = f"the number {quoted(value)}"
    else:
        kinds = {
            bool: "a truth value",
            int: f"the number {value}",
            str: "a text",
            dict: "an object",
            list: "an array",
        }
        what = "null" if value is None else kinds[type(value)]
    raise ValueError(f"{where} has {what}, which does not belong there")
