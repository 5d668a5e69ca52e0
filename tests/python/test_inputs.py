"""Arrays that mean more than their numbers are refused, with what to give instead."""

import numpy as np
import pytest

import gemmd
from gemmd._inputs import to_numpy

A = np.arange(12.0).reshape(3, 4)


class Metres(np.ndarray):
    """An array with units: its arithmetic is its own."""

    def __array_ufunc__(self, *_, **__):
        raise AssertionError("not asked")


class TorchSparse:
    """As torch's sparse tensors describe themselves."""

    is_sparse = True
    layout = "torch.sparse_coo"

    def __dlpack__(self, **_):
        raise RuntimeError("sparse")

    def __dlpack_device__(self):
        return 1, 0


def everywhere(client, x):
    """Each way by which a matrix comes in."""
    yield lambda: client.matmul(x, A)
    yield lambda: client.matmul(A, x)
    yield lambda: client.submit(A, x)
    yield lambda: client.matmul(A, A.T, c=x)
    yield lambda: client.matmul(A, A.T, bias=x)
    yield lambda: client.put(x)
    yield lambda: client.linear(x)
    yield lambda: gemmd.Quantized.of(x)
    yield lambda: gemmd.Quantized(np.zeros((3, 4), np.int8), scales=x)
    yield lambda: gemmd.Quantized(np.zeros((3, 4), np.int8), 1.0, tensor_scale=x)


def test_masked_arrays(client):
    masked = np.ma.masked_greater(A, 5)
    for call in everywhere(client, masked):
        with pytest.raises(TypeError, match=r"is a masked array with 6 masked elements.*\.filled\(0\)"):
            call()
    with pytest.raises(TypeError, match="out is a masked array"):
        client.matmul(A, A.T, out=np.ma.masked_greater(np.zeros((3, 3)), -1))
    unmasked = np.ma.masked_greater(A, 50)
    assert np.array_equal(client.matmul(unmasked, A.T), A @ A.T)


def test_lists_of_masked_rows(client):
    masked = np.ma.masked_greater(A, 5)
    for rows, first in (([*masked], r"\[1\]"), ((masked[0], [0, np.ma.masked, 0, 0]), r"\[1\]\[1\]")):
        for call in everywhere(client, rows):
            with pytest.raises(TypeError, match=rf"{first} is a masked array with "):
                call()
    unmasked = [*np.ma.masked_greater(A, 50)]
    assert np.array_equal(client.matmul(unmasked, A.T), A @ A.T)


def test_sparse_matrices(client):
    sparse = pytest.importorskip("scipy.sparse")
    for x in (sparse.csr_matrix(A), sparse.coo_array(A)):
        for call in everywhere(client, x):
            with pytest.raises(TypeError, match=r"is a sparse scipy .*: give .*\.toarray\(\)"):
                call()
        assert np.array_equal(client.matmul(x.toarray(), A.T), A @ A.T)


def test_sparse_tensors():
    with pytest.raises(TypeError, match=r"a is a sparse .*: give a.to_dense\(\)"):
        to_numpy(TorchSparse(), "a")


def test_arrays_with_an_arithmetic_of_their_own(client):
    for call in everywhere(client, A.view(Metres)):
        with pytest.raises(TypeError, match=r"test_inputs Metres, which has an arithmetic of its own"):
            call()


def test_what_holds_no_numbers(client):
    for x in (np.array([["a", "b"]] * 2), A.astype(object), A.astype("m8[s]"), A.astype("M8[s]")):
        for call in everywhere(client, x):
            with pytest.raises(TypeError, match="which are no real numbers"):
                call()
    with pytest.raises(TypeError, match="x is a numpy ndarray of complex128"):
        gemmd.Quantized.of(A + 1j)


def test_tables_of_pandas(client):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(A)
    assert np.array_equal(client.matmul(table, table.T), A @ A.T)
    assert np.array_equal(client.put(table).numpy(), A)
    table["name"] = ["x", "y", "z"]
    with pytest.raises(TypeError, match=r"a is a pandas DataFrame of object.*to_numpy\('float64'\)"):
        client.matmul(table, A)
