"""The activations in binary64, for products that are made in this process because their factors are empty."""

from __future__ import annotations

import numpy as np

from gemmd._layout import Array


def activated(x: Array, name: str) -> Array:
    """activation(x), by a name that was checked; gemm.proto has the formulas."""
    made = x
    if name == "relu":
        made = np.where(x < 0, 0.0, x)
    elif name == "gelu_tanh":
        made = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    elif name == "silu":
        with np.errstate(over="ignore"):
            made = x / (1 + np.exp(-x))
    return made
