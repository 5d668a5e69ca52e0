"""A layer whose weights are on the server."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gemmd.resident import Resident, Transposed

if TYPE_CHECKING:
    from gemmd.client import Client


class Linear:
    """layer(x) is activation(x @ w + bias): x of (..., K), w K x N, bias (N,); the result (..., N).

    `w` is the Resident, or its T. As a context manager it is released at the end. It pickles as its client and its
    Resident do.
    """

    def __init__(
        self, client: Client, w: Resident | Transposed, bias: Any, activation: str, asked: Mapping[str, Any]
    ) -> None:
        self._client = client
        self.w = w
        self.bias = bias
        self.activation = activation
        self._asked = dict(asked)

    def __call__(self, x: Any, **asked: Any) -> Any:
        """The layer's output for x, as Client.matmul() returns it; further arguments are matmul()'s."""
        return self._client.matmul(x, self.w, **self.arguments(asked))

    def submit(self, x: Any, **asked: Any) -> Any:
        """Multiplies in the background, as Client.submit()."""
        return self._client.submit(x, self.w, **self.arguments(asked))

    def arguments(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What matmul() is called with besides x and w."""
        return {"bias": self.bias, "activation": self.activation, **self._asked, **asked}

    def release(self) -> None:
        """The server forgets the weights."""
        self.w.release()

    def __enter__(self) -> Linear:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"Linear({self.w!r}, activation={self.activation!r})"
