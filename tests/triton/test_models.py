"""What the server says of itself and of its models."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

BUILT_IN = ["matmul_fp64", "matmul_fp32", "matmul_fp16", "matmul_bf16", "matmul_int8"]


def test_the_server_is_live_and_ready(triton):
    assert triton.is_server_live()
    assert triton.is_server_ready()
    about = triton.get_server_metadata()
    assert about.name == "gemmd"
    assert "statistics" in about.extensions
    assert "system_shared_memory" in about.extensions
    # Nothing is said to be there that is not.
    assert not {"sequence", "classification", "trace", "logging"} & set(about.extensions)


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("version", ["", "1"])
def test_built_in_models(triton, name, version):
    assert triton.is_model_ready(name, version)
    about = triton.get_model_metadata(name, version)
    config = triton.get_model_config(name, version).config
    datatype = name.removeprefix("matmul_").upper()
    inputs = {each.name: each for each in about.inputs}
    assert (inputs["A"].datatype, list(inputs["A"].shape)) == (datatype, [-1, -1])
    assert (inputs["B"].datatype, list(inputs["B"].shape)) == (datatype, [-1, -1])
    assert list(about.versions) == ["1"]
    # perf_analyzer sends every input that it is told of.
    assert list(inputs) == [each.name for each in config.input] == ["A", "B"]
    optional = config.parameters["optional_inputs"].string_value
    assert optional == ("C, BIAS, A_SCALE, B_SCALE" if name == "matmul_int8" else "C, BIAS")
    assert about.outputs[0].datatype == ("INT32" if name == "matmul_int8" else datatype)
    assert config.max_batch_size == 0
    assert config.dynamic_batching.priority_levels == 3


def test_an_operand_is_a_model(triton, client):
    w = np.arange(6, dtype="f4").reshape(2, 3)
    with client.put(w, name="of two / and three"):
        model = "linear/of two / and three"
        assert triton.is_model_ready(model)
        about = triton.get_model_metadata(model)
        inputs = {each.name: list(each.shape) for each in about.inputs}
        assert inputs == {"A": [-1, 2]}
        config = {each.name: list(each.dims) for each in triton.get_model_config(model).config.input}
        assert config == {"A": [-1, 2]}
        assert list(about.outputs[0].shape) == [-1, 3]
        index = triton.get_model_repository_index().models
        assert {each.name: each.state for each in index}[model] == "READY"
    with pytest.raises(InferenceServerException, match=r"NOT_FOUND.*is not found"):
        triton.is_model_ready(model)
    assert model not in {each.name for each in triton.get_model_repository_index().models}


@pytest.mark.parametrize(
    ("name", "version"),
    [("resnet50", ""), ("", ""), ("matmul_fp32", "2"), ("linear/nobody's", ""), ("MATMUL_FP32", "")],
)
def test_others_are_unknown(triton, name, version):
    for ask in [triton.is_model_ready, triton.get_model_metadata, triton.get_model_config]:
        with pytest.raises(InferenceServerException, match="is not found") as refused:
            ask(name, version)
        assert refused.value.status() == "StatusCode.NOT_FOUND"


def test_tenants_have_their_own(triton, server):
    import gemmd

    with gemmd.Client(server.address, tenant="others") as other:
        with other.put(np.eye(3, dtype="f4"), name="theirs"):
            with pytest.raises(InferenceServerException, match="is not found"):
                triton.is_model_ready("linear/theirs")
            headers = {"gemmd-tenant": "others"}
            assert triton.is_model_ready("linear/theirs", headers=headers)
            names = {each.name for each in triton.get_model_repository_index(headers=headers).models}
            assert "linear/theirs" in names


def test_settings_are_elsewhere(triton):
    for ask in [triton.get_trace_settings, triton.get_log_settings]:
        with pytest.raises(InferenceServerException) as refused:
            ask()
        assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
        assert "Settings" in refused.value.message() or "TraceSetting" in refused.value.message()


def test_without_the_option_nothing_is_served():
    from testing.processes import Server

    with Server("--oip=off") as server:
        with grpcclient.InferenceServerClient(server.address) as triton:
            with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
                triton.is_server_live()
