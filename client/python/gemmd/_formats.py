"""Quantized formats as values, and the table of their names: base/numbers/quant/README.md specifies each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import NamedTuple

from gemmd import types
from gemmd.types import ElementType

WHOLE = 0  # a block that takes the whole of a dimension
_GROUPS = (16, 32, 64, 128)  # of integers along K


class Format(NamedTuple):
    """What the elements of a matrix are, and what scales them.

    block_lines, block_k: elements that share a scale, of as many lines and of K; WHOLE: all of them.
    """

    name: str
    element: ElementType
    scale: ElementType
    block_lines: int
    block_k: int
    has_zero_points: bool = False
    has_tensor_scale: bool = False
    has_offsets: bool = False

    @property
    def has_blocks(self) -> bool:
        """Whether scales change along K."""
        return self.block_k != WHOLE

    @property
    def has_sign(self) -> bool:
        """Whether there are codes for negative values: all have but uint8 without zero points and offsets."""
        return self.element.name not in ("uint8", "uint4") or self.has_zero_points or self.has_offsets

    @property
    def has_full_range(self) -> bool:
        """Whether the lowest value has the largest magnitude, so that scales of either sign may use it."""
        return self.element.name in ("int8", "int4", "iq4_nl") and not self.has_zero_points and not self.has_offsets

    @property
    def zero_point(self) -> ElementType:
        """The type of zero points: bytes, signed as the elements are."""
        return types.by_name("int8" if self.element.name in ("int8", "int4") else "uint8")

    def blocks_of(self, lines: int, k: int) -> tuple[int, int]:
        """Blocks along lines and along K of a matrix of that size."""
        return _blocks(lines, self.block_lines), _blocks(k, self.block_k)


def _blocks(size: int, block: int) -> int:
    return 1 if block == WHOLE else -(-size // block)


def _make() -> list[Format]:
    formats = []

    def add(
        name: str, element: str, scale: str, lines: int, k: int, zero: bool = False, tensor: bool = False
    ) -> None:
        has_offsets = name.endswith("-offset")
        formats.append(
            Format(name, types.by_name(element), types.by_name(scale), lines, k, zero, tensor, has_offsets)
        )

    for element in ("int8", "uint8"):
        for suffix in ("", "-zp"):
            add(f"{element}-tensor{suffix}", element, "f32", WHOLE, WHOLE, bool(suffix))
            add(f"{element}-row{suffix}", element, "f32", 1, WHOLE, bool(suffix))
            for group in _GROUPS:
                add(f"{element}-g{group}{suffix}", element, "f32", 1, group, bool(suffix))
    for group in _GROUPS:
        add(f"uint8-g{group}-offset", "uint8", "f32", 1, group)
    for element in ("fp8-e4m3", "fp8-e5m2"):
        add(f"{element}-tensor", element, "f32", WHOLE, WHOLE)
        add(f"{element}-row", element, "f32", 1, WHOLE)
        add(f"{element}-1x128", element, "f32", 1, 128)
        add(f"{element}-128x128", element, "f32", 128, 128)
    for element in ("fp8-e4m3", "fp8-e5m2", "fp6-e3m2", "fp6-e2m3"):
        add(f"mx{element}", element, "e8m0", 1, 32)
    add("mxfp4", "fp4_e2m1", "e8m0", 1, 32)
    add("nvfp4", "fp4_e2m1", "fp8_e4m3", 1, 16, tensor=True)
    for group in _GROUPS:
        for scale in ("f16", "bf16", "f32"):
            add(f"int4-g{group}-{scale}", "int4", scale, 1, group)
            add(f"int4-g{group}-{scale}-zp", "uint4", scale, 1, group, zero=True)
            add(f"int4-g{group}-{scale}-offset", "uint4", scale, 1, group)
    for element in ("nf4", "bnb-fp4", "iq4-nl"):
        for group in _GROUPS:
            for scale in ("f16", "bf16", "f32"):
                add(f"{element}-g{group}-{scale}", element, scale, 1, group)
    return formats


FORMATS = {each.name: each for each in _make()}
# The names of one scale and of one for each line before there were more formats.
_SHORT = ("int8", "fp8-e4m3", "fp8-e5m2")


def find(name: str) -> Format | None:
    """The format of that name ("mxfp4", "int8-g128"); None: there is none."""
    return FORMATS.get(name.replace("_", "-"))


def nearest(name: str, known: Iterable[str]) -> str:
    """What a name that is none of these may have meant: longer ones, else shorter and similar ones."""
    plain, known = name.lower().replace("_", "-"), tuple(known)
    found = [each for each in known if each.startswith(plain)][:4]
    shorter = [each for each in known if plain.startswith(each)]
    found = found or [*shorter, *difflib.get_close_matches(plain, known, 3, 0.8)]
    if not found:
        return "docs/quantization.md has all names, such as mxfp8-e4m3 and int4-g128-bf16"
    return f"is {' or '.join(found)} meant? docs/quantization.md has all names"


def by_name(name: str, axis: int | None) -> Format:
    """The format of that name; "int8" and fp8's have one scale where axis is None, else one for each line.

    ValueError: there is none.
    """
    plain = name.replace("_", "-")
    if plain in _SHORT:
        plain += "-tensor" if axis is None else "-row"
    found = FORMATS.get(plain)
    if found is None:
        raise ValueError(f"type is {name!r}; {nearest(name, (*_SHORT, *FORMATS))}")
    return found


def of_blocks(element: ElementType, block_lines: int, block_k: int) -> list[Format]:
    """The formats of these elements in such blocks, those of scales alone first. ValueError: there is none."""
    formats = [each for each in FORMATS.values() if each.element == element]
    found = [
        each for each in formats if each.has_blocks and (each.block_lines, each.block_k) == (block_lines, block_k)
    ]
    if not found:
        raise ValueError(
            f"block_lines x block_k is {block_lines} x {block_k}; of {element.name} it must be "
            f"{_known_blocks(formats) or 'left out'}"
        )
    return sorted(found, key=lambda each: each.has_zero_points or each.has_offsets)


def of_lines(element: ElementType) -> list[Format]:
    """The formats of these elements with one scale, or one for each line. ValueError: there is none."""
    formats = [each for each in FORMATS.values() if each.element == element]
    found = [each for each in formats if not each.has_blocks]
    if not found:
        raise ValueError(
            f"block_k is missing; of {element.name} block_lines x block_k must be {_known_blocks(formats)}"
        )
    return found


def _known_blocks(formats: list[Format]) -> str:
    return " or ".join(dict.fromkeys(f"{each.block_lines} x {each.block_k}" for each in formats if each.has_blocks))
