"""libgemmd.so.0, gemmd's C library, by ctypes: what is called of it here. gemmd.h describes each function."""

from __future__ import annotations

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import lru_cache
from typing import Any

from gemmd import errors

NAME = "libgemmd.so.0"
_VARIABLE = "GEMMD_LIBRARY"


class TensorInfo(ctypes.Structure):
    """gemmd_tensor_info."""

    _fields_ = (
        ("size", c_size_t),
        ("name", c_char_p),
        ("type", c_char_p),
        ("form", c_char_p),
        ("refusal", c_char_p),
        ("shape", POINTER(c_int64)),
        ("dimensions", c_int32),
        ("matrices", c_int64),
        ("rows", c_int64),
        ("columns", c_int64),
        ("bytes", c_int64),
    )


class Plane(ctypes.Structure):
    """gemmd_plane."""

    _fields_ = (
        ("size", c_size_t),
        ("data", c_void_p),
        ("bytes", c_int64),
        ("dtype", c_int32),
        ("rows", c_int64),
        ("columns", c_int64),
        ("column_major", c_bool),
    )


class ClientOptions(ctypes.Structure):
    """gemmd_client_options."""

    _fields_ = (
        ("size", c_size_t),
        ("target", c_char_p),
        ("token", c_char_p),
        ("tenant", c_char_p),
        ("tls", c_bool),
        ("root_certificates", c_char_p),
        ("client_certificate", c_char_p),
        ("client_key", c_char_p),
        ("server_name", c_char_p),
        ("retry_patience_ms", c_int64),
        ("timeout_ms", c_int64),
        ("affinity_header", c_bool),
    )


class EncodedPlane(ctypes.Structure):
    """gemmd_encoded_plane."""

    _fields_ = (("operand", c_int32), ("plane", c_int32), ("data", c_void_p), ("data_bytes", c_uint64))


class EncodedMatmul(ctypes.Structure):
    """gemmd_encoded_matmul."""

    _fields_ = (
        ("size", c_size_t),
        ("header", c_char_p),
        ("header_bytes", c_uint64),
        ("planes", POINTER(EncodedPlane)),
        ("plane_count", c_int64),
        ("d_type", c_int32),
        ("d_is_column_major", c_bool),
        ("d_rows", c_int64),
        ("d_columns", c_int64),
        ("d", c_void_p),
        ("traceparent", c_char_p),
        ("tracestate", c_char_p),
        ("transport", c_int32),
        ("channels", c_int32),
        ("chunk_bytes", c_int64),
        ("timeout_us", c_int64),
        ("d_count", c_int64),
    )


class Route(ctypes.Structure):
    """gemmd_route."""

    _fields_ = (("size", c_size_t), ("transport", c_int32), ("channels", c_int32), ("chunk_bytes", c_int64))


# gemmd_matmul_callback: context, result, error.
CALLBACK = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)

_ERROR = POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gemmd_version": (c_char_p, ()),
    "gemmd_error_message": (c_char_p, (c_void_p,)),
    "gemmd_error_code": (c_int32, (c_void_p,)),
    "gemmd_error_details": (c_void_p, (c_void_p, POINTER(c_uint64))),
    "gemmd_error_free": (None, (c_void_p,)),
    "gemmd_client_new": (c_int32, (POINTER(ClientOptions), POINTER(c_void_p), _ERROR)),
    "gemmd_client_free": (c_int32, (c_void_p, _ERROR)),
    "gemmd_matmul_encoded": (
        c_int32,
        (c_void_p, POINTER(EncodedMatmul), CALLBACK, c_void_p, POINTER(c_void_p), _ERROR),
    ),
    "gemmd_call_cancel": (None, (c_void_p,)),
    "gemmd_call_free": (None, (c_void_p,)),
    "gemmd_result_response": (c_void_p, (c_void_p, POINTER(c_uint64))),
    "gemmd_result_route": (c_int32, (c_void_p, POINTER(Route), _ERROR)),
    "gemmd_result_free": (None, (c_void_p,)),
    "gemmd_weights_open": (c_int32, (c_char_p, POINTER(c_void_p), _ERROR)),
    "gemmd_weights_kind": (c_char_p, (c_void_p,)),
    "gemmd_weights_count": (c_int64, (c_void_p,)),
    "gemmd_weights_info": (c_int32, (c_void_p, c_int64, POINTER(TensorInfo), _ERROR)),
    "gemmd_weights_read": (c_int32, (c_void_p, c_char_p, POINTER(c_void_p), _ERROR)),
    "gemmd_weights_free": (None, (c_void_p,)),
    "gemmd_tensor_plane": (c_int32, (c_void_p, c_int32, POINTER(Plane), _ERROR)),
    "gemmd_tensor_form": (c_char_p, (c_void_p,)),
    "gemmd_tensor_free": (None, (c_void_p,)),
}


class Library:
    """The library, loaded."""

    def __init__(self, path: str) -> None:
        try:
            self._loaded = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(
                f"gemmd.weights and Client(library=) need {NAME}, gemmd's C library, which was not found: {error}. "
                f"deploy/install_library.sh of gemmd's sources builds it (docs/library.md); give its path as "
                f"library= or in {_VARIABLE}, or have it in the linker's path"
            ) from error
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(self._loaded, name)
            except AttributeError:
                raise ImportError(
                    f"{path} has no {name}: it is no {NAME}, or one that is older than this package"
                ) from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # for type checkers: functions are set one by one

    def call(self, name: str, *arguments: Any) -> None:
        """One that returns a code and takes an error last. Raises the class of a server's code."""
        error = c_void_p()
        code = getattr(self, name)(*arguments, byref(error))
        if code == 0:
            return
        try:
            message = self.gemmd_error_message(error).decode(errors="replace")
        finally:
            self.gemmd_error_free(error)
        raise errors.class_of(code)(message)


@lru_cache(maxsize=8)
def _loaded(path: str) -> Library:
    return Library(path)


def load(path: str | None) -> Library:
    """The library there; None: at GEMMD_LIBRARY, or where the linker finds it. ImportError: there is none."""
    return _loaded(path or os.environ.get(_VARIABLE) or NAME)
