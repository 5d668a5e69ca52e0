"""Inputs and answers as Triton's client has them."""

import numpy as np
import tritonclient.grpc as grpcclient
from ml_dtypes import bfloat16

DATATYPES = {
    np.dtype("f8"): "FP64",
    np.dtype("f4"): "FP32",
    np.dtype("f2"): "FP16",
    np.dtype("i1"): "INT8",
    np.dtype("i4"): "INT32",
    np.dtype(bfloat16): "BF16",
}


def infer_input(name, array):
    one = grpcclient.InferInput(name, array.shape, DATATYPES[array.dtype])
    one.set_data_from_numpy(np.ascontiguousarray(array))
    return one


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
