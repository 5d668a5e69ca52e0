"""register_lists: headers of the lists of registers that wgmma and tcgen05 name one by one.

An asm statement names each register twice, in the instruction and among its operands, and the
number is fixed in the text: there is a macro for each number. Headers of wrappers include them, for
the device alone; they lie in bazel-bin/kernels/ptx.
"""

load("//deploy/bazel:text_file.bzl", "text_file")

def _names(count):
    return "\"" + ", ".join(["%%%d" % i for i in range(count)]) + "\""

def _operands(constraint, array, count):
    return ", ".join(["\"%s\"(%s[%d])" % (constraint, array, i) for i in range(count)])

def _following(count, operands):
    return ", ".join(["\"%%%d\"" % (count + i) for i in range(operands)])

def _define(name, value):
    return "#define %s %s" % (name, value)

def _header(out, purpose, lines):
    text_file(
        name = out + "_text",
        out = out,
        text = "// %s\n// Written by kernels/ptx/register_lists.bzl.\n#pragma once\n\n%s\n" %
               (purpose, "\n".join(lines)),
    )

# Accumulators of wgmma: n / 2 registers, each an f32 of n columns.
def _wgmma():
    lines = []
    for n in range(8, 257, 8):
        lines.append(_define("GEMMD_WGMMA_ALL_NAMES_%d" % n, _names(n // 2)))
        lines.append(_define("GEMMD_WGMMA_ALL_FLOATS_%d" % n, _operands("+f", "d", n // 2)))

    # Calls f(n, ...) for each n, with the names of the seven operands that follow.
    calls = ["f(%d, %s)" % (n, _following(n // 2, 7)) for n in range(8, 257, 8)]
    lines.append(_define("GEMMD_WGMMA_EACH(f)", " ".join(calls)))
    return lines

# Accumulators of wgmma on integers, which has fewer shapes.
def _wgmma_integer():
    columns = [8, 24] + list(range(16, 257, 16))
    lines = [_define("GEMMD_WGMMA_ALL_INTS_%d" % n, _operands("+r", "d", n // 2)) for n in columns]

    # Calls f(n, ...) for each n, with the names of the three operands that follow.
    calls = ["f(%d, %s)" % (n, _following(n // 2, 3)) for n in columns]
    lines.append(_define("GEMMD_WGMMA_EACH_INTEGER(f)", " ".join(calls)))
    return lines

# Registers of tcgen05.ld: a power of two of them, in an array `registers`.
def _tcgen05():
    counts = [1, 2, 4, 8, 16, 32, 64, 128]
    lines = []
    for count in counts:
        lines.append(_define("GEMMD_TCGEN05_NAMES_%d" % count, _names(count)))
        lines.append(_define("GEMMD_TCGEN05_OUTPUTS_%d" % count, _operands("=r", "registers", count)))

    # Calls f(count, count / 4, ...) for each count, with the name of the operand that follows.
    for name, least in {"EACH": 1, "EACH_FROM_4": 4}.items():
        calls = ["f(%d, %d, %s)" % (c, c // 4, _following(c, 1)) for c in counts if c >= least]
        lines.append(_define("GEMMD_TCGEN05_%s(f)" % name, " ".join(calls)))
    return lines

def register_lists():
    """Writes wgmma_operands.h, wgmma_byte_operands.h and tcgen05_operands.h."""
    _header("wgmma_operands.h", "The registers of wgmma.mma_async for every N.", _wgmma())
    _header("wgmma_byte_operands.h", "The registers of wgmma.mma_async on integers.", _wgmma_integer())
    _header("tcgen05_operands.h", "The registers of tcgen05.ld for every size.", _tcgen05())
