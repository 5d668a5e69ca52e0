"""The wire contract's message classes, in a descriptor pool of their own.

They are made at run time of descriptors.binpb, a FileDescriptorSet that protoc wrote when the wheel was
built, and not imported as generated modules. A serialized descriptor is read by every protobuf from 4 to 7,
where generated code demands a runtime that is not older than its generator; and in a pool of their own the
messages clash with nobody's own `gemmd.v1` modules, of whatever version of the contract.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _load() -> Any:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString((importlib.resources.files("gemmd") / "descriptors.binpb").read_bytes())
    for file in files.file:  # those that others import come first
        pool.Add(file) if not hasattr(pool, "AddSerializedFile") else pool.AddSerializedFile(
            file.SerializeToString()
        )
    return pool


_POOL = _load()


def _old_class(descriptor: Any) -> Any:
    factory: Any = message_factory.MessageFactory(_POOL)
    return factory.GetPrototype(descriptor)


def _class_of(name: str, package: str = "gemmd.v1") -> Any:
    descriptor = _POOL.FindMessageTypeByName(f"{package}.{name}")
    make = getattr(message_factory, "GetMessageClass", None)  # protobuf 4.22 and later
    return make(descriptor) if make else _old_class(descriptor)


def enum_numbers(name: str) -> dict[str, int]:
    """Numbers of an enum of gemmd.v1 by its values' names."""
    values = _POOL.FindEnumTypeByName(f"gemmd.v1.{name}").values_by_name
    return {each: values[each].number for each in values}


MatmulHeader = _class_of("MatmulHeader")
MatmulResponse = _class_of("MatmulResponse")
MatmulStreamRequest = _class_of("MatmulStreamRequest")
MatmulStreamResponse = _class_of("MatmulStreamResponse")
EstimateRequest = _class_of("EstimateRequest")
EstimateResponse = _class_of("EstimateResponse")
MissingOperands = _class_of("MissingOperands")
Operand = _class_of("Operand")
Receipt = _class_of("Receipt")
StatusDetails = _class_of("StatusDetails")

FindMissingRequest = _class_of("FindMissingRequest")
FindMissingResponse = _class_of("FindMissingResponse")
UploadRequest = _class_of("UploadRequest")
UploadResponse = _class_of("UploadResponse")
DownloadRequest = _class_of("DownloadRequest")
DownloadResponse = _class_of("DownloadResponse")
GetRequest = _class_of("GetRequest")
GetResponse = _class_of("GetResponse")
ListRequest = _class_of("ListRequest")
ListResponse = _class_of("ListResponse")
SetNameRequest = _class_of("SetNameRequest")
SetNameResponse = _class_of("SetNameResponse")
ReleaseRequest = _class_of("ReleaseRequest")
ReleaseResponse = _class_of("ReleaseResponse")
RenewRequest = _class_of("RenewRequest")
RenewResponse = _class_of("RenewResponse")

RegisterRegionRequest = _class_of("RegisterRegionRequest")
RegisterRegionResponse = _class_of("RegisterRegionResponse")
UnregisterRegionRequest = _class_of("UnregisterRegionRequest")
UnregisterRegionResponse = _class_of("UnregisterRegionResponse")
RenewRegionRequest = _class_of("RenewRegionRequest")
RenewRegionResponse = _class_of("RenewRegionResponse")

ServerInfoRequest = _class_of("ServerInfoRequest")
ServerInfoResponse = _class_of("ServerInfoResponse")
ListKernelsRequest = _class_of("ListKernelsRequest")
ListKernelsResponse = _class_of("ListKernelsResponse")
TuneRequest = _class_of("TuneRequest")
TuneResponse = _class_of("TuneResponse")
DrainRequest = _class_of("DrainRequest")
DrainResponse = _class_of("DrainResponse")
TracesRequest = _class_of("TracesRequest")
TracesResponse = _class_of("TracesResponse")
StatisticsRequest = _class_of("StatisticsRequest")
StatisticsResponse = _class_of("StatisticsResponse")

HealthCheckResponse = _class_of("HealthCheckResponse", "grpc.health.v1")
