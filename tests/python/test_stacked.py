"""Stacks of matrices on the server: factors of three dimensions, with the bits of each matrix alone."""

import pickle

import numpy as np
import pytest

import gemmd


def put(client, x):
    return client.put(x.reshape(-1, x.shape[-1])).stack(len(x))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1"])
def test_it_multiplies_as_its_array_does(client, random, dtype):
    w = (9 * random.standard_normal((6, 40, 30))).astype(dtype)
    x = (9 * random.standard_normal((6, 5, 40))).astype(dtype)
    with put(client, w) as experts:
        assert (experts.shape, experts.ndim, len(experts), experts.dtype) == (w.shape, 3, 6, w.dtype)
        assert np.array_equal(experts.numpy(), w)
        d = client.matmul(x, experts)
        assert d.tobytes() == client.matmul(x, w).tobytes()
        assert (d.receipt.products, d.receipt.payload_bytes_in) == (6, x.nbytes)
        assert (x @ experts).tobytes() == d.tobytes()
        assert client.matmul(x[0], experts).tobytes() == client.matmul(x[0], w).tobytes()


def test_each_matrix_and_each_cut(client, random):
    w, x = random.standard_normal((8, 7, 4)), random.standard_normal((8, 3, 7))
    with put(client, w) as experts:
        for key in (0, 7, -1, np.int64(3)):
            one = experts[key]
            assert (one.shape, one.ndim) == ((7, 4), 2)
            assert np.array_equal(one.numpy(), w[key])
            assert client.matmul(x[0], one).tobytes() == client.matmul(x[0], w[key]).tobytes()
            # Broadcast: one right factor of all rows.
            assert client.matmul(x, one).tobytes() == client.matmul(x, w[key]).tobytes()
        for key in (slice(2, 5), slice(1, None, 3), slice(-2, None), slice(5, 6), slice(3, 3)):
            some = experts[key]
            assert some.shape == w[key].shape
            assert np.array_equal(some.numpy(), w[key])
            assert client.matmul(x[key], some).tobytes() == client.matmul(x[key], w[key]).tobytes()
        assert experts[2:7][1:3][1].spec(experts.matrix.place).matrix == 4
        for bad in (8, -9):
            with pytest.raises(IndexError):
                experts[bad]
        with pytest.raises(ValueError, match="must be over 0"):
            experts[::-1]
        with pytest.raises(TypeError, match="one matrix of a stack"):
            experts[0][0]


def test_torchs_layout_is_turned(client, random):
    w = random.standard_normal((4, 30, 20)).astype("f4")  # experts x N x K
    x = random.standard_normal((4, 5, 20)).astype("f4")
    with put(client, w) as experts:
        assert experts.mT.shape == (4, 20, 30)
        wanted = client.matmul(x, w.swapaxes(1, 2)).tobytes()
        assert client.matmul(x, experts.mT).tobytes() == wanted
        assert client.matmul(x, experts, transpose_b=True).tobytes() == wanted
        assert client.matmul(x[1], experts[1].mT).tobytes() == client.matmul(x[1], w[1].T).tobytes()
        assert np.array_equal(experts.mT[2].numpy(), w[2].T)
        # As the left factor.
        y = random.standard_normal((4, 20, 3)).astype("f4")
        assert client.matmul(experts, y).tobytes() == client.matmul(w, y).tobytes()


def test_a_fortran_matrix_is_cut_along_its_columns(client, random):
    w = np.asfortranarray(random.standard_normal((5, 12)))
    with client.put(w) as resident:
        stack = resident.stack(3)
        assert stack.shape == (3, 5, 4)
        assert np.array_equal(stack.numpy(), np.stack(np.split(w, 3, axis=1)))
        x = random.standard_normal((3, 2, 5))
        np.testing.assert_allclose(client.matmul(x, stack), x @ stack.numpy(), rtol=1e-12)


@pytest.mark.parametrize("form", ["int4-g32-f16", "int8-g32", "mxfp4", "nvfp4", "mxfp8-e4m3"])
def test_quantized_experts(client, random, form):
    w = random.standard_normal((5, 24, 64)).astype("f4")  # experts x N x K
    x = random.standard_normal((5, 3, 64)).astype("f4")
    whole = gemmd.Quantized.of(w.reshape(-1, 64), form, axis=0)
    with client.put(whole) as resident:
        experts = resident.stack(5)
        d = client.matmul(x, experts.mT)
        assert d.receipt.products == 5
        for i in range(5):
            one = client.matmul(x[i], experts[i].mT)
            assert one.tobytes() == d[i].tobytes()
            wanted = x[i].astype("f8") @ whole.dequantize().reshape(5, 24, 64)[i].T.astype("f8")
            np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-3)


def test_what_is_put_is_brought_back(client, random):
    w, x = random.standard_normal((4, 9, 6)), random.standard_normal((4, 2, 9))
    with put(client, w) as experts:
        client.release(experts.matrix.handle)
        assert client.matmul(x, experts).tobytes() == client.matmul(x, w).tobytes()
        again = pickle.loads(pickle.dumps(experts.matrix)).stack(4)
        assert client.matmul(x[1:], again[1:]).tobytes() == client.matmul(x[1:], w[1:]).tobytes()


def test_a_name_may_go_to_another_stack(client, random):
    w, x = random.standard_normal((2, 4, 9, 6)), random.standard_normal((4, 2, 9))
    with client.put(w[0].reshape(-1, 6), name="experts"):
        named = client.named("experts").stack(4)
        assert client.matmul(x, named).tobytes() == client.matmul(x, w[0]).tobytes()
        with client.put(w[1].reshape(-1, 6), name="experts", replace=True):
            assert client.matmul(x, named).tobytes() == client.matmul(x, w[1]).tobytes()


def test_results_may_be_one(client, random):
    a, b = random.standard_normal((12, 5)), random.standard_normal((5, 7))
    with client.matmul(a, b, keep=True) as kept:
        x = random.standard_normal((3, 2, 4))
        np.testing.assert_allclose(client.matmul(x, kept.stack(3)), x @ (a @ b).reshape(3, 4, 7), rtol=1e-9)


def test_wrong_uses_are_told_here(client, random):
    w = random.standard_normal((4, 9, 6))
    with put(client, w) as experts:
        for count in (0, -1, 5, 7):
            with pytest.raises(ValueError, match=f"count is {count}, and the matrix on the server is 36 x 6"):
                experts.matrix.stack(count)
        with pytest.raises(ValueError, match="b is a stack of 4 matrices on the server, and the batch has shape"):
            client.matmul(random.standard_normal((2, 4, 3, 9)), experts)
        with pytest.raises(ValueError, match="cannot be broadcast"):
            client.matmul(random.standard_normal((3, 3, 9)), experts)
        with pytest.raises(ValueError, match="a's last dimension is 8"):
            client.matmul(random.standard_normal((4, 3, 8)), experts)
        with pytest.raises(TypeError, match="are on the server"):
            np.asarray(experts)
        with pytest.raises(TypeError, match="on the server already"):
            client.put(experts)
        with pytest.raises(ValueError, match=r"\.stack\(len\(x\)\)"):
            client.put(w)
