"""Wrong requests are refused with the code that a Triton user knows, naming the input and the limit."""

import re

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from triton import infer_input
from tritonclient.utils import InferenceServerException

Request = grpcclient.service_pb2.ModelInferRequest


def good():
    """A request for the product of two matrices of 2 x 2, whose raw contents are 16 bytes each."""
    request = Request(model_name="matmul_fp32", id="wrong")
    for name in "AB":
        request.inputs.add(name=name, datatype="FP32", shape=[2, 2])
        request.raw_input_contents.append(np.ones((2, 2), "f4").tobytes())
    return request


def scaled():
    request = Request(model_name="matmul_int8")
    for name in "AB":
        request.inputs.add(name=name, datatype="INT8", shape=[2, 2])
        request.raw_input_contents.append(bytes(4))
    request.inputs.add(name="A_SCALE", datatype="FP32", shape=[1])
    request.raw_input_contents.append(np.ones(1, "f4").tobytes())
    return request


def parameter(name, **value):
    def change(request):
        (kind,) = value
        setattr(request.parameters[name], kind, value[kind])

    return change


def of_input(number, **fields):
    def change(request):
        for name, value in fields.items():
            if name == "shape":
                del request.inputs[number].shape[:]
                request.inputs[number].shape.extend(value)
            else:
                setattr(request.inputs[number], name, value)

    return change


def more(name, datatype="FP32", shape=(2, 2), data=bytes(16)):
    def change(request):
        request.inputs.add(name=name, datatype=datatype, shape=shape)
        if data is not None:
            request.raw_input_contents.append(data)

    return change


def typed(request):
    del request.raw_input_contents[:]
    for each in request.inputs:
        each.contents.fp32_contents.extend([1] * 4)


def changed(*changes):
    def change(request):
        for each in changes:
            each(request)

    return change


def shared(name, value, kind="string_param", where="inputs"):
    def change(request):
        if where == "inputs":
            del request.raw_input_contents[0]
            parameters = request.inputs[0].parameters
        else:
            parameters = request.outputs.add(name="D").parameters
        setattr(parameters[name], kind, value)

    return change


def text(**contents):
    def change(request):
        typed(request)
        for field, values in contents.items():
            request.inputs[0].contents.Clear()
            getattr(request.inputs[0].contents, field).extend(values)

    return change


INVALID, MISSING = "INVALID_ARGUMENT", "NOT_FOUND"
WRONG = [
    (lambda r: setattr(r, "model_name", "resnet50"), MISSING, 'unknown model: "resnet50"'),
    (lambda r: setattr(r, "model_name", "linear/gone"), MISSING, 'unknown model: "linear/gone"'),
    (lambda r: setattr(r, "model_name", "linear/"), INVALID, "model_name after linear/"),
    (lambda r: setattr(r, "model_version", "3"), MISSING, 'version "3"'),
    (lambda r: setattr(r, "id", "x" * 2000), INVALID, "id has 2000 bytes; it may have 1024"),
    (more("D"), INVALID, 'unexpected inference input "D".*it may have A, B, C, BIAS$'),
    (more("A_SCALE", shape=[1], data=bytes(4)), INVALID, "unexpected inference input"),
    (more("A"), INVALID, 'input "A" comes twice'),
    (lambda r: r.inputs.pop(), INVALID, "input 'B' is missing"),
    (of_input(0, datatype="FP16"), INVALID, 'datatype "FP16" of input \'A\'.*must be FP32'),
    (of_input(1, datatype="BYTES"), INVALID, 'datatype "BYTES" of input \'B\''),
    (more("C", datatype="FP64", data=bytes(32)), INVALID, "datatype \"FP64\" of input 'C'.*must be FP32"),
    (of_input(0, shape=[4]), INVALID, r"shape \[4\] of input 'A'.*2 to 8 dimensions"),
    (of_input(0, shape=[1] * 9), INVALID, r"of input 'A'.*2 to 8 dimensions"),
    (of_input(1, shape=[1] * 9), INVALID, r"of input 'B'.*2 to 8 dimensions"),
    (of_input(1, shape=[3, 2, 2]), INVALID, "byte size 16 of input 'B'.*takes 48"),
    (of_input(1, shape=[0, 2, 2]), INVALID, "of input 'B'.*a stack of 1 to 16777216 matrices"),
    (changed(of_input(0, shape=[2, 1, 2]), of_input(1, shape=[3, 2, 2])), INVALID, r"B is a stack of shape \[3\]"),
    (of_input(0, shape=[-1, 2]), INVALID, r"shape \[-1,2\] of input 'A'.*0 to 2147483647"),
    (of_input(0, shape=[2**40, 2]), INVALID, "a dimension must be 0 to 2147483647"),
    (of_input(0, shape=[2**30, 2**30, 2]), INVALID, "rows together must be 0 to 2147483647"),
    (of_input(0, shape=[4, 1]), INVALID, r"op\(A\) is 4 x 1 and op\(B\) is 2 x 2"),
    (of_input(0, shape=[0, 2]), INVALID, "byte size 16 of input 'A'.*takes 0"),
    (more("C", shape=[3, 2], data=bytes(24)), INVALID, r"shape \[3,2\] of input 'C'.*must be D's, \[2,2\]"),
    (more("BIAS", shape=[3], data=bytes(12)), INVALID, r"input 'BIAS'.*must be \[2\] or \[1,2\]"),
    (lambda r: r.raw_input_contents.pop(), INVALID, "1 raw_input_contents; it must have one for each of its 2"),
    (lambda r: r.raw_input_contents.append(b""), INVALID, "3 raw_input_contents"),
    (lambda r: r.raw_input_contents.__setitem__(0, bytes(15)), INVALID, "byte size 15 of input 'A'.*takes 16"),
    (text(fp32_contents=[1] * 3), INVALID, "input 'A' has 3 elements in fp32_contents.*takes 4"),
    (text(fp64_contents=[1] * 4), INVALID, "input 'A' has fp64_contents; of FP32 it must have fp32_contents"),
    (lambda r: r.inputs[0].contents.fp32_contents.append(1), INVALID, "contents, and the request has raw"),
    (lambda r: r.outputs.add(name="OUTPUT0"), INVALID, 'unexpected inference output "OUTPUT0".*D is the only one'),
    (lambda r: [r.outputs.add(name="D") for _ in range(2)], INVALID, "asks for 2 outputs"),
    (shared("classification", 3, "int64_param", "outputs"), INVALID, "'classification' is set.*of output 'D'"),
    (shared("shared_memory_region", "r"), INVALID, "'shared_memory_byte_size' is missing, of input 'A'"),
    (shared("shared_memory_color", "r"), INVALID, 'unexpected parameter "shared_memory_color".*of input \'A\''),
    (parameter("alpha", string_param="2"), INVALID, "'alpha' is \"2\"; it must be a number"),
    (parameter("alpha", double_param=float("inf")), INVALID, "'alpha' is inf; it must be finite"),
    (parameter("activation", string_param="elu"), INVALID, '\'activation\' is "elu"; it must be "none", "relu"'),
    (parameter("output_type", string_param="INT64"), INVALID, "'output_type' is \"INT64\""),
    (parameter("determinism", bool_param=True), INVALID, "'determinism' is true; it must be \"batch_invariant\""),
    (parameter("transpose_a", int64_param=1), INVALID, "'transpose_a' is 1; it must be true or false"),
    (parameter("verify", int64_param=65), INVALID, "'verify' is 65; it must be an integer of 0 to 64"),
    (parameter("priority", uint64_param=4), INVALID, "'priority' is 4; it must be an integer of 0 to 3"),
    (parameter("timeout", int64_param=-1), INVALID, "'timeout' is -1; it must be an integer of 0 to"),
    (parameter("kernel", string_param="sm90/imagined"), "FAILED_PRECONDITION", 'kernel is "sm90/imagined"'),
    (parameter("sequence_id", int64_param=7), INVALID, "sequence_id.*gemmd has no sequences"),
    (parameter("temperature", double_param=1), INVALID, 'unexpected parameter "temperature"; a request may have'),
    (changed(parameter("verify", int64_param=1), parameter("activation", string_param="relu")), INVALID,
     "only products without activation are verified"),
    (parameter("output_type", string_param="INT32"), "FAILED_PRECONDITION|INVALID_ARGUMENT", "int32"),
]  # fmt: skip
WRONG_INTEGERS = [
    (of_input(2, shape=[3]), INVALID, r"shape \[3\] of input 'A_SCALE'.*\[2\] or \[2,1\]"),
    (of_input(2, datatype="FP64"), INVALID, "datatype \"FP64\" of input 'A_SCALE'.*must be FP32"),
    (more("BIAS", datatype="INT32", shape=[2], data=bytes(8)), INVALID, "of input 'BIAS'.*must be FP32"),
    (lambda r: r.raw_input_contents.__setitem__(2, b"\0\0\xc0\x7f"), INVALID, "a.scales.*nan"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong(triton, number):
    change, code, message = WRONG[number]
    refuse(triton, good(), change, code, message)


@pytest.mark.parametrize("number", range(len(WRONG_INTEGERS)))
def test_wrong_integers(triton, number):
    change, code, message = WRONG_INTEGERS[number]
    refuse(triton, scaled(), change, code, message)


def refuse(triton, request, change, code, message):
    import grpc

    triton._client_stub.ModelInfer(request)  # it is good
    change(request)
    with pytest.raises(grpc.RpcError) as refused:
        triton._client_stub.ModelInfer(request)
    assert refused.value.code().name in code.split("|")
    assert re.search(message, refused.value.details())


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_types_have_no_typed_contents(triton, datatype):
    import grpc

    request = Request(model_name=f"matmul_{datatype.lower()}")
    for name in "AB":
        one = request.inputs.add(name=name, datatype=datatype, shape=[1, 1])
        one.contents.fp32_contents.append(1)
    with pytest.raises(grpc.RpcError, match="no typed contents") as refused:
        triton._client_stub.ModelInfer(request)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_typed_integers_have_their_range(triton):
    import grpc

    request = Request(model_name="matmul_int8")
    for name in "AB":
        one = request.inputs.add(name=name, datatype="INT8", shape=[1, 1])
        one.contents.int_contents.append(128)
    with pytest.raises(grpc.RpcError, match="128 in int_contents; INT8 is -128 to 127"):
        triton._client_stub.ModelInfer(request)


def test_a_result_that_no_answer_carries(triton):
    a = np.zeros((20000, 1), "f4")
    with pytest.raises(InferenceServerException, match=r"output 'D'.*at most 67108864 bytes") as refused:
        triton.infer("matmul_fp32", [infer_input("A", a), infer_input("B", a.T.copy())])
    assert refused.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_a_model_of_another_type_of_operand(triton, client):
    with client.put(np.ones((3, 2), "f2"), name="half"):
        with pytest.raises(InferenceServerException, match=r"datatype \"FP32\" of input 'A'.*must be FP16"):
            triton.infer("linear/half", [infer_input("A", np.ones((1, 3), "f4"))])
        with pytest.raises(InferenceServerException, match=r"op\(A\) is 1 x 2 and op\(B\) is 3 x 2"):
            triton.infer("linear/half", [infer_input("A", np.ones((1, 2), "f2"))])
