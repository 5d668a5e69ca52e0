"""Models that come from files, at the start and while the server runs."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from testing.processes import Server
from triton import infer_input, same_bits
from tritonclient.utils import InferenceServerException

import gemmd


def index(triton):
    return {each.name: each.state for each in triton.get_model_repository_index().models}


def test_files_are_models(tmp_path, random):
    w = random.standard_normal((20, 30), dtype="f4")
    np.save(tmp_path / "w.npy", w)
    with Server(f"--operands.preload={tmp_path}") as server:
        with grpcclient.InferenceServerClient(server.address) as triton, gemmd.Client(server.address) as client:
            assert index(triton)["linear/w"] == "READY"
            a = random.standard_normal((3, 20), dtype="f4")
            d = triton.infer("linear/w", [infer_input("A", a)]).as_numpy("D")
            assert same_bits(d, np.asarray(client.matmul(a, w)))

            triton.unload_model("linear/w")
            assert index(triton)["linear/w"] == "UNAVAILABLE"
            with pytest.raises(InferenceServerException, match="NOT_FOUND"):
                triton.infer("linear/w", [infer_input("A", a)])
            with pytest.raises(InferenceServerException, match="NOT_FOUND"):
                triton.unload_model("linear/w")

            # Read anew: its file has changed, and another one has come.
            np.save(tmp_path / "w.npy", 2 * w)
            np.save(tmp_path / "v.npy", w.T.copy())
            assert "linear/v" not in index(triton)
            triton.load_model("linear/w")
            d = triton.infer("linear/w", [infer_input("A", a)]).as_numpy("D")
            assert same_bits(d, np.asarray(client.matmul(a, 2 * w)))
            assert index(triton)["linear/v"] == "UNAVAILABLE"

            # A loaded model is loaded again, and what it was before does not stay.
            np.save(tmp_path / "w.npy", 3 * w)
            held = len(list(client.residents()))
            triton.load_model("linear/w")
            d = triton.infer("linear/w", [infer_input("A", a)]).as_numpy("D")
            assert same_bits(d, np.asarray(client.matmul(a, 3 * w)))
            assert len(list(client.residents())) == held


def test_wrong_loads(tmp_path):
    np.save(tmp_path / "w.npy", np.ones((2, 2), "f4"))
    with Server(f"--operands.preload={tmp_path}") as server:
        with grpcclient.InferenceServerClient(server.address) as triton:
            with pytest.raises(InferenceServerException, match=r'no file of operands\.preload has a matrix "v"'):
                triton.load_model("linear/v")
            with pytest.raises(InferenceServerException, match="only models linear/NAME are loaded"):
                triton.load_model("matmul_fp32")
            with pytest.raises(InferenceServerException, match="only models linear/NAME are loaded"):
                triton.unload_model("matmul_fp32")
            with pytest.raises(InferenceServerException, match='unexpected parameter "config"'):
                triton.load_model("linear/w", config="{}")
            with pytest.raises(InferenceServerException, match="you have no repository of models"):
                triton.load_model("linear/w", headers={"gemmd-tenant": "others"})
            assert "linear/w" not in {
                each.name for each in triton.get_model_repository_index({"gemmd-tenant": "others"}).models
            }
            (tmp_path / "w.npy").write_bytes(b"no longer a matrix")
            with pytest.raises(InferenceServerException, match=r"w\.npy"):
                triton.load_model("linear/w")


def test_a_server_without_files_has_no_repository(triton):
    with pytest.raises(InferenceServerException, match="you have no repository of models") as refused:
        triton.load_model("linear/w")
    assert refused.value.status() == "StatusCode.NOT_FOUND"


def test_kserve_names_the_model_in_another_field(tmp_path):
    """Its contract has the name in field 1, where Triton's has the repository's, and answers that say so."""
    np.save(tmp_path / "w.npy", np.ones((2, 2), "f4"))
    messages = grpcclient.service_pb2
    as_kserve_has_it = bytes([1 << 3 | 2, 8]) + b"linear/w" + bytes([2 << 3, 1])
    with Server(f"--operands.preload={tmp_path}") as server:
        with grpcclient.InferenceServerClient(server.address) as triton:
            for method in ["Unload", "Load"]:
                request = getattr(messages, f"RepositoryModel{method}Request")(repository_name="linear/w")
                answer = getattr(triton._client_stub, f"RepositoryModel{method}")(request)
                assert answer.SerializeToString() == as_kserve_has_it
            assert triton.is_model_ready("linear/w")
