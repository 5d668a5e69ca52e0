"""What a server says about itself, as values. Times are in seconds or end in _us; sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmd import _messages, types
from gemmd._header import DETERMINISM, seconds_of
from gemmd.errors import class_of
from gemmd.receipt import ClientTimes, Receipt, Sent, receipt_of

_DETERMINISM = {number: name for name, number in DETERMINISM.items()}
_STAGES = {number: name.lower() for name, number in _messages.enum_numbers("StageName").items()}
_PARTIES = {1: "all", 2: "tenant", 3: "address"}


@dataclass(frozen=True)
class Estimate:
    """What a product would take, as things are now; EstimateResponse in gemm.proto.

    total_us is receive, queue, device and send; caller_us is at caller_gflops, 0 where that was not given.
    """

    kernel: str
    plan: str
    device: str
    numerics_id: str
    receive_us: float
    queue_us: float
    copy_us: float
    compute_us: float
    send_us: float
    device_us: float
    total_us: float
    caller_us: float
    offload_is_faster: bool
    receive_is_measured: bool
    send_is_measured: bool
    receive_bytes: int
    send_bytes: int
    flops: float


@dataclass(frozen=True)
class Memory:
    """Where the bytes of a memory are; the four parts sum to limit_bytes."""

    limit_bytes: int
    resident_bytes: int
    workspace_bytes: int
    in_flight_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Device:
    """One device: name "cuda:0", model, architecture "sm_90", and its memory."""

    name: str
    model: str
    architecture: str
    compute_units: int
    memory: Memory


@dataclass(frozen=True)
class Limits:
    """Over one of these a request is InvalidArgument."""

    message_bytes: int
    dimension: int
    request_bytes: int
    queue_requests: int
    calls_per_connection: int


@dataclass(frozen=True)
class Info:
    """What a server is. shared_memory_prefix is empty where it shares none.

    library: the version of the libgemmd that this client's products go by; empty where it is gRPC's Python.
    """

    version: str
    uptime: float
    draining: bool
    shared_memory_prefix: str
    limits: Limits
    devices: tuple[Device, ...]
    library: str = ""


@dataclass(frozen=True)
class StageTotals:
    """All stages of one name since the server began."""

    count: int
    sum_us: float
    max_us: float


@dataclass(frozen=True)
class OperandTotals:
    """Matrices that the server keeps."""

    residents: int
    resident_bytes: int
    partial_uploads: int
    limit_bytes: int
    uploaded_bytes: int
    downloaded_bytes: int
    hits: int
    misses: int
    evictions: int


@dataclass(frozen=True)
class TenantResident:
    """One matrix that the server keeps, and whose it is: "" is the tenant without a name.

    digest: 32 bytes, none of a result. shape: rows and columns. type: of its elements, "bf16". device_bytes: what
    it takes in devices' memory. lease: seconds that each use keeps it from eviction; lease_remaining: 0 where it
    may be evicted.
    """

    tenant: str
    handle: str
    digest: bytes
    names: tuple[str, ...]
    shape: tuple[int, int]
    type: str
    size_bytes: int
    device_bytes: int
    lease: float
    lease_remaining: float


@dataclass(frozen=True)
class SharedTotals:
    """Memory shared with clients."""

    regions: int
    region_bytes: int
    limit_bytes: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Launches:
    """Launches of one form, and the requests that they served."""

    launches: int
    requests: int


@dataclass(frozen=True)
class Queue:
    """One device's queue. limit_us: what it may be predicted to take before requests are refused.

    Launches by form: a request alone, rows of several over one B as one product, products side by side (group), and
    parts of a long one (slices).
    """

    device: str
    queued_requests: int
    backlog_us: float
    limit_us: float
    alone: Launches
    rows: Launches
    group: Launches
    slices: Launches


@dataclass(frozen=True)
class Holding:
    """The amount that somebody holds of a quantity (docs/operations.md lists them).

    party is "all", "tenant" or "address"; device and name are "" where there is none. limit None: not limited.
    """

    quantity: str
    device: str
    party: str
    name: str
    held: int
    limit: int | None


@dataclass(frozen=True)
class Statistics:
    """What a server has done since it began. finished_requests: by status, "OK" included.

    refused_requests: of finished_requests, by cause (docs/operations.md lists the causes). holdings: where
    stats(holders=N) asked for them.
    """

    uptime: float
    received_requests: int
    admitted_requests: int
    finished_requests: dict[str, int]
    refused_requests: dict[str, int]
    in_flight_requests: int
    queued_requests: int
    reserved_bytes: int
    payload_bytes_in: int
    payload_bytes_out: int
    allocated_bytes: int
    flops: float
    stages: dict[str, StageTotals]
    operands: OperandTotals
    shared_memory: SharedTotals
    queues: tuple[Queue, ...]
    holdings: tuple[Holding, ...]


@dataclass(frozen=True)
class Kernel:
    """One kernel that the server has. unavailable_reason is empty where its device can run it."""

    name: str
    architecture: str
    description: str
    determinism: str
    unavailable_reason: str


@dataclass(frozen=True)
class Candidate:
    """A kernel's part in the choice for one problem; rejection is empty where it takes the problem.

    predicted_us is what tune() measured where `measured` says so.
    """

    kernel: str
    rejection: str
    plan: str
    predicted_us: float
    chosen: bool
    measured: bool


@dataclass(frozen=True)
class TunedCandidate:
    """One plan of one kernel: the median of its compute stage, or why it was rejected."""

    kernel: str
    plan: str
    measured_us: float
    chosen: bool
    rejection: str


@dataclass(frozen=True)
class Tuning:
    """What tune() measured: of each shape its candidates, and the device that measured."""

    shapes: tuple[tuple[TunedCandidate, ...], ...]
    device: str


@dataclass(frozen=True)
class Draining:
    """The work that a server finishes before it ends: products and uploads that have begun."""

    requests: int
    uploads: int


@dataclass(frozen=True)
class Timeline:
    """One request that ended. The receipt's times count from arrival_unix_ns; code is its status, "OK" if well.

    launch is equal for requests that one launch served, connection for those that came over one connection.
    """

    arrival_unix_ns: int
    receipt: Receipt
    code: str
    tenant: str
    launch: int
    connection: int
    trace_id: str
    parent_span_id: str


@dataclass(frozen=True)
class Traces:
    """The last requests, those that ended first first; left_out: older ones that found no room in the answer."""

    timelines: tuple[Timeline, ...]
    left_out: int
    ring_bytes: int
    recorded_requests: int
    dropped_requests: int


def _take(kind: Any, message: Any, **others: Any) -> Any:
    """A value of a message whose fields have the same names, but for the others."""
    names = [each for each in kind.__dataclass_fields__ if each not in others]
    return kind(**{each: getattr(message, each) for each in names}, **others)


def kernels_of(message: Any) -> tuple[Kernel, ...]:
    """The kernels of a ListKernelsResponse."""
    return tuple(
        _take(Kernel, each, determinism=_DETERMINISM.get(each.determinism, str(each.determinism)))
        for each in message.kernels
    )


def candidates_of(message: Any) -> tuple[Candidate, ...]:
    """The candidates of a ListKernelsResponse."""
    return tuple(_take(Candidate, each) for each in message.candidates)


def draining_of(message: Any) -> Draining:
    """The value of a DrainResponse."""
    found: Draining = _take(Draining, message)
    return found


def tuning_of(message: Any) -> Tuning:
    """The value of a TuneResponse."""
    shapes = tuple(tuple(_take(TunedCandidate, each) for each in shape.candidates) for shape in message.shapes)
    return Tuning(shapes, message.device)


def traces_of(message: Any) -> Traces:
    """The value of a TracesResponse."""
    timelines = tuple(
        _take(
            Timeline,
            each,
            receipt=receipt_of(each.receipt, "", ClientTimes(), Sent()),
            code=class_of(each.code).code if each.code else "OK",
        )
        for each in message.timelines
    )
    found: Traces = _take(Traces, message, timelines=timelines)
    return found


def estimate_of(message: Any) -> Estimate:
    """The value of an EstimateResponse."""
    found: Estimate = _take(Estimate, message)
    return found


def info_of(message: Any, library: str) -> Info:
    """The value of a ServerInfoResponse, for a client of that library."""
    devices = tuple(_take(Device, each, memory=_take(Memory, each.memory)) for each in message.devices)
    found: Info = _take(
        Info,
        message,
        uptime=seconds_of(message.uptime),
        limits=_take(Limits, message.limits),
        devices=devices,
        library=library,
    )
    return found


def tenant_resident_of(message: Any) -> TenantResident:
    """The value of a ResidentOperand."""
    data = message.operand.data
    try:
        name = types.by_number(data.type).name
    except TypeError:  # of a newer server
        name = str(data.type)
    found: TenantResident = _take(
        TenantResident,
        message,
        names=tuple(message.names),
        shape=(data.rows, data.columns),
        type=name,
        lease=seconds_of(message.lease),
        lease_remaining=seconds_of(message.lease_remaining),
    )
    return found


_FORMS = ("alone", "rows", "group", "slices")


def _queue_of(message: Any) -> Queue:
    found: Queue = _take(Queue, message, **{each: _take(Launches, getattr(message, each)) for each in _FORMS})
    return found


def _holding_of(message: Any) -> Holding:
    found: Holding = _take(
        Holding,
        message,
        party=_PARTIES.get(message.party, str(message.party)),
        limit=message.limit if message.HasField("limit") else None,
    )
    return found


def statistics_of(message: Any) -> Statistics:
    """The value of a StatisticsResponse."""
    found: Statistics = _take(
        Statistics,
        message,
        uptime=seconds_of(message.uptime),
        finished_requests=dict(message.finished_requests),
        refused_requests=dict(message.refused_requests),
        stages={_STAGES.get(each.name, str(each.name)): _take(StageTotals, each) for each in message.stages},
        operands=_take(OperandTotals, message.operands),
        shared_memory=_take(SharedTotals, message.shared_memory),
        queues=tuple(_queue_of(each) for each in message.queues),
        holdings=tuple(_holding_of(each) for each in message.holdings),
    )
    return found
