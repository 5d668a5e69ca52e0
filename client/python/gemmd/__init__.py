"""Client of gemmd, a server for matrix multiplication.

    import gemmd

    with gemmd.Client("host:50051") as client:
        d = client.matmul(a, b)          # NumPy in, NumPy out
        print(d.receipt)                 # where every microsecond went
        w = client.put(weights)          # stays on the server
        y = client.matmul(x, w, activation="relu")

gemmd.matmul(a, b) does it on the servers that GEMMD_SERVER names. gemmd.aio has the same for asyncio.

A map: client.py is what users call; _prepare.py makes products of arrays; _running.py and _engine.py see to their
attempts; _fleet.py and _servers.py choose where; _session.py, _stream.py and _channel.py are the wire; _framing.py
and _messages.py the bytes.
"""

import pkgutil as _pkgutil

# So that modules that protoc makes of proto/, which are gemmd.v1.*, are found beside this package.
__path__ = _pkgutil.extend_path(__path__, __name__)

from gemmd import _fork as _fork  # before anything that imports gRPC  # isort: split
from gemmd._channel import Tls
from gemmd._fleet import ServerState
from gemmd._version import __version__
from gemmd.admin import Estimate, Info, Statistics
from gemmd.client import Client, Pending, default_client, matmul
from gemmd.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    ClosedError,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    ForkedError,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
)
from gemmd.linear import Linear
from gemmd.quantized import Quantized
from gemmd.receipt import Receipt
from gemmd.resident import Named, Resident, Transposed
from gemmd.result import Result
from gemmd.retry import RetryPolicy
from gemmd.stacked import Stacked

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "Client",
    "ClosedError",
    "DataLoss",
    "DeadlineExceeded",
    "Error",
    "Estimate",
    "FailedPrecondition",
    "ForkedError",
    "Info",
    "Internal",
    "InvalidArgument",
    "Linear",
    "Named",
    "NotFound",
    "OutOfRange",
    "Pending",
    "PermissionDenied",
    "Quantized",
    "Receipt",
    "Resident",
    "ResourceExhausted",
    "Result",
    "RetryPolicy",
    "ServerState",
    "Stacked",
    "Statistics",
    "Tls",
    "Transposed",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "__version__",
    "default_client",
    "matmul",
]
