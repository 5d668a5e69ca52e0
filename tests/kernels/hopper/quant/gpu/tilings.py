"""The formats of B by the letters that name their tilings in check_bench.py, and the tilings of
kernels/hopper/quant/tilings.h: rows of A and lines of W that a block has, and blocks of a multiprocessor."""
from collections import namedtuple

# code: "u4", "i4", "u8", "i8", or exponent and fraction: "e4m3"; scale: "f16", "bf16", "f32", "e8m0", "e4m3"; scale_k: 0 for all of K.
Format = namedtuple("Format", "letter code scale scale_k zeros offsets", defaults=(False, False))
# In the order of kFormats in quant_library.cu. A tiling is timed with the first format of its letter.
FORMATS = [
    Format("", "u4", "f16", 128), Format("", "i4", "f16", 128), Format("", "i4", "f16", 128, True),
    Format("m", "e2m1", "e8m0", 32), Format("n", "e2m1", "e4m3", 16),
    Format("i", "i8", "f32", 128), Format("i", "i8", "f32", 128, True), Format("i", "i8", "f32", 0),
    Format("e", "e4m3", "f32", 128),
    Format("g32", "i4", "f16", 32), Format("g32", "u4", "bf16", 32, True),
    Format("g64", "i4", "f16", 64), Format("g64", "u4", "bf16", 64, True),
    Format("i32", "i8", "f32", 32), Format("i32", "u8", "f32", 32, True),
    Format("i64", "i8", "f32", 64), Format("i64", "u8", "f32", 64, True),
    Format("i", "u8", "f32", 128), Format("v", "e5m2", "f32", 128),
    Format("x", "e4m3", "e8m0", 32), Format("y", "e5m2", "e8m0", 32),
    Format("s", "e3m2", "e8m0", 32), Format("t", "e2m3", "e8m0", 32),
    Format("o128", "u4", "f16", 128, offsets=True), Format("o64", "u4", "bf16", 64, offsets=True),
    Format("o32", "u4", "f16", 32, offsets=True), Format("of32", "u4", "f32", 32, offsets=True),
    Format("ob32", "u8", "f32", 32, offsets=True),
    Format("t64", "nf4", "f32", 64), Format("t64", "bnb_fp4", "f32", 64),
    Format("l32", "iq4_nl", "f16", 32), Format("lf32", "iq4_nl", "f32", 32),
]

TABLES = {
    "nf4": [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0],
    "bnb_fp4": [sign * x for sign in (1, -1) for x in (0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)],
    "iq4_nl": [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
}


def bits_of_code(code): return {"u4": 4, "i4": 4, "e2m1": 4, "nf4": 4, "bnb_fp4": 4, "iq4_nl": 4, "e3m2": 6, "e2m3": 6}.get(code, 8)
def bits_of(format): return bits_of_code(format.code)
def scale_bytes(format): return {"f16": 2, "bf16": 2, "f32": 4, "e8m0": 1, "e4m3": 1}[format.scale]
def first_of(letter): return next(f for f in FORMATS if f.letter == letter)
def unit_bytes(format):
    """The bytes of 16 lines by 128 of K."""
    return 16 * (16 * bits_of(format) + 128 // (format.scale_k or 128) * scale_bytes(format) * (1 + format.offsets))


CHAIN = [(1, 64, 2), (8, 64, 2), (16, 64, 2)]
BYTES = [(1, 64, 2), (1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 32, 2), (16, 64, 2), (16, 32, 2)]
PARTS = [(1, 64, 2), (1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 16, 1), (16, 64, 2)]
OFFSETS = [(1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 16, 1), (16, 64, 1)]
FINE_OFFSETS = [(1, 64, 2), (1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 16, 1), (16, 64, 1)]
OFFSET_BYTES = [(1, 32, 2), (1, 16, 1), (8, 64, 2), (16, 64, 2)]
TABLE = [(1, 32, 2), (1, 64, 2), (1, 16, 1), (1, 64, 1), (8, 64, 1), (8, 32, 1), (8, 16, 1), (16, 64, 1), (16, 32, 1)]
PART_BYTES = [(1, 64, 2), (1, 32, 2), (1, 16, 1), (8, 64, 2), (16, 64, 2)]
FEW = {"": [(1, 64, 2), (1, 32, 2), (1, 16, 1), (1, 64, 1), (8, 64, 2), (8, 32, 2), (8, 16, 1), (16, 64, 2), (16, 64, 1)],
       "m": CHAIN, "n": CHAIN, "i": BYTES, "e": BYTES, "g32": PARTS, "g64": PARTS, "i32": PART_BYTES, "i64": PART_BYTES,
       "v": BYTES} | {letter: PART_BYTES for letter in "xyst"} | \
      {"o128": OFFSETS, "o64": OFFSETS, "o32": FINE_OFFSETS, "of32": FINE_OFFSETS, "ob32": OFFSET_BYTES} | \
      {letter: TABLE for letter in ("t64", "l32", "lf32")}
WHOLE_WIDE = [(64, 64, 1, 2), (64, 256, 1, 2), (128, 128, 1, 2), (128, 256, 1, 1), (128, 256, 1, 2), (16, 128, 2, 1)]
PART_WIDE = [(64, 64, 1, 2), (64, 256, 1, 2), (128, 128, 1, 2), (16, 128, 2, 1)]
# And blocks of a cluster.
WIDE = {letter: PART_WIDE if letter[-2:] in ("32", "64") or letter[:1] in list("oxyst") else WHOLE_WIDE for letter in FEW}
