#!/bin/bash
# On the CPU jax.lax.ragged_dot() gives NaN for every row where the matrix of any group has a NaN, even of a group that
# has no rows; an infinity does so too, but for the rows of its own group.
#
# Each row is computed by all matrices, with zeros in place of the row for those of other groups. So one broken expert
# of a layer makes the results of all tokens NaN, and does not show which expert it is. The product of each group by
# itself, and torch._grouped_mm, keep the NaN to the rows of that expert.
#
# Seen with jax 0.10.2, 2026-11-30:
#   sizes [3 0 2], expert 1 all NaN: 5 of 5 rows are NaN; group by group 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'jax[cpu]==0.10.2' numpy==2.4.6
JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'PYTHON'
import jax
import numpy

sizes = numpy.array([3, 0, 2], "i4")
x, experts = numpy.ones((5, 4), "f4"), numpy.ones((3, 4, 2), "f4")
experts[1] = numpy.nan
found = numpy.asarray(jax.lax.ragged_dot(x, experts, sizes))
groups = numpy.split(x, numpy.cumsum(sizes)[:-1])
apart = numpy.concatenate([group @ expert for group, expert in zip(groups, experts)])
rows, rows_apart = (int(numpy.isnan(each).any(axis=1).sum()) for each in (found, apart))
print(f"sizes {sizes}, expert 1 all NaN: {rows} of 5 rows are NaN; group by group {rows_apart}")
assert (rows, rows_apart) == (5, 0), (rows, rows_apart)
PYTHON
