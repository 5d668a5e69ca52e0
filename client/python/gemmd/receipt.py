"""Receipts: where every microsecond of a product went. Values, and the texts that people read."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from gemmd import _messages

_STAGES = {number: name.lower() for name, number in _messages.enum_numbers("StageName").items()}
_DETERMINISM = {number: name.lower() for name, number in _messages.enum_numbers("Determinism").items()}


@dataclass(frozen=True)
class Stage:
    """When one stage ran, in us since the server had the header.

    exposed_us is the part for which it alone is accountable: the exposed parts and unattributed_us of a
    receipt add up to its total_us. `count` stages of one name are added up: a sliced product has several.
    """

    name: str
    start_us: float
    end_us: float
    exposed_us: float
    count: int = 1


@dataclass(frozen=True)
class ClientTimes:
    """What only the client sees; seconds.

    refills: how often matrices that the server lacked were brought there. waited: between attempts. round_trip: of
    the last attempt. wire: round_trip without the server's total.
    """

    attempts: int = 1
    encode: float = 0.0
    waited: float = 0.0
    round_trip: float = 0.0
    decode: float = 0.0
    total: float = 0.0
    wire: float = 0.0
    refills: int = 0


@dataclass(frozen=True)
class Sent:
    """How a product travelled: "unary" or "stream", over so many connections, in chunks of so many bytes.

    by_library: carried by libgemmd, else by gRPC's Python.
    """

    transport: str = "unary"
    channels: int = 1
    chunk_bytes: int = 0
    by_library: bool = False


@dataclass(frozen=True)
class Receipt:
    """One request's telemetry. Times end in _us (microseconds); sizes in bytes.

    products: of the request, more than 1 of a stack; 0: the server is too old to say.
    verification_residual is None unless verify= was given; up to 1 is rounding.
    joules is None where the device counts no energy: an estimate of what this product drew.
    error_bound: rounding moved no element of D by more than error_bound * (|alpha| |A| |B| + |beta C| +
    |bias|) and half a unit in D's last place, of the operands as they were sent; None with an activation.
    server: the address of the one of several servers that made it; empty where the client has one.
    rows: those of D, from the first up to the one after the last, of a product that was split; else None. hedged:
    they were asked for at a second server too. repeats: attempts more, because the numerics id was another.
    str() is the table that `gemm matmul` prints; in Jupyter it is shown as bars.
    """

    request_id: int
    device: str
    kernel: str
    plan: str
    numerics_id: str
    determinism: str
    stages: tuple[Stage, ...]
    total_us: float
    unattributed_us: float
    batch_requests: int
    batch_rows: int
    flops: float
    achieved_gflops: float
    payload_bytes_in: int
    payload_bytes_out: int
    shared_bytes_in: int
    shared_bytes_out: int
    verification_residual: float | None
    predicted_device_us: float
    predicted_compute_us: float
    joules: float | None = None
    error_bound: float | None = None
    result: str = ""  # "1500 x 900 f32 row-major"
    client: ClientTimes = field(default_factory=ClientTimes)
    sent: Sent = field(default_factory=Sent)
    products: int = 1
    server: str = ""
    rows: tuple[int, int] | None = None
    hedged: bool = False
    repeats: int = 0

    @property
    def gflops(self) -> float:
        """GFLOP/s as the client sees it, everything included."""
        return self.flops / self.client.total * 1e-9 if self.client.total > 0 else 0.0

    def __str__(self) -> str:
        return _text(self)

    def _repr_html_(self) -> str:
        return _html(self)


def receipt_of(message: Any, result: str, client: ClientTimes, sent: Sent, server: str = "") -> Receipt:
    """A Receipt of the server's message and of what this side saw."""
    return Receipt(
        request_id=message.request_id,
        device=message.device,
        kernel=message.kernel,
        plan=message.plan,
        numerics_id=message.numerics_id,
        determinism=_DETERMINISM.get(message.determinism, str(message.determinism)),
        stages=_sum_by_name(message.stages),
        total_us=message.total_us,
        unattributed_us=message.unattributed_us,
        batch_requests=message.batch_requests,
        batch_rows=message.batch_rows,
        flops=message.flops,
        achieved_gflops=message.achieved_gflops,
        payload_bytes_in=message.payload_bytes_in,
        payload_bytes_out=message.payload_bytes_out,
        shared_bytes_in=message.shared_bytes_in,
        shared_bytes_out=message.shared_bytes_out,
        verification_residual=(
            message.verification_residual if message.HasField("verification_residual") else None
        ),
        predicted_device_us=message.predicted.device_us,
        predicted_compute_us=message.predicted.compute_us,
        joules=message.joules if message.HasField("joules") else None,
        error_bound=message.error_bound if message.HasField("error_bound") else None,
        result=result,
        client=client,
        sent=sent,
        products=message.products,
        server=server,
    )


def _sum_by_name(stages: Any) -> tuple[Stage, ...]:
    sums: dict[str, Stage] = {}
    for each in stages:
        name = _STAGES.get(each.name, f"stage {each.name}")
        old = sums.get(name)
        if old is None:
            sums[name] = Stage(name, each.start_us, each.end_us, each.exposed_us)
        else:
            sums[name] = Stage(
                name,
                min(old.start_us, each.start_us),
                max(old.end_us, each.end_us),
                old.exposed_us + each.exposed_us,
                old.count + 1,
            )
    return tuple(sums.values())


def human_bytes(count: float) -> str:
    """Such as "15.6 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _part_of(receipt: Receipt, rows: tuple[int, int]) -> str:
    """Such as "0 to 128 of D, hedged"."""
    hedged = ", hedged" if receipt.hedged else ""
    repeats = f", repeated {receipt.repeats} times for its numerics" if receipt.repeats else ""
    return f"{rows[0]} to {rows[1]} of D{hedged}{repeats}"


def _facts(receipt: Receipt) -> list[tuple[str, str]]:
    sent = "in one call"
    if receipt.sent.transport == "stream":
        plural = "" if receipt.sent.channels == 1 else "s"
        sent = (
            f"over a stream, {receipt.sent.channels} connection{plural}, "
            f"chunks of {human_bytes(receipt.sent.chunk_bytes)}"
        )
    if receipt.sent.by_library:
        sent += ", by libgemmd"
    plural = "" if receipt.batch_requests == 1 else "s"
    launch = f"launch of {receipt.batch_requests} request{plural}, {receipt.batch_rows} rows"
    rows = [
        ("D", receipt.result),
        *([("rows", _part_of(receipt, receipt.rows))] if receipt.rows else []),
        ("kernel", receipt.kernel),
        ("plan", receipt.plan),
        ("numerics", f"{receipt.numerics_id} ({receipt.determinism.replace('_', '-')})"),
        ("device", f"{receipt.device}, {launch}"),
        *([("server", receipt.server)] if receipt.server else []),
        (
            "payload",
            f"{human_bytes(receipt.payload_bytes_in)} in, {human_bytes(receipt.payload_bytes_out)} out",
        ),
        ("sent", sent),
    ]
    if receipt.shared_bytes_in or receipt.shared_bytes_out:
        shared = (receipt.shared_bytes_in, receipt.shared_bytes_out)
        rows.append(("shared", f"{human_bytes(shared[0])} in, {human_bytes(shared[1])} out"))
    if receipt.predicted_device_us:
        rows.append(
            (
                "predicted",
                f"{receipt.predicted_device_us:.1f} us on the device, "
                f"{receipt.predicted_compute_us:.1f} us of them computing",
            )
        )
    if receipt.error_bound is not None:
        rows.append(("rounding", f"at most {receipt.error_bound:.2g} of |A| |B|, and D's own"))
    if receipt.joules is not None:
        rows.append(("energy", f"{receipt.joules:.3g} J, by the device's counter"))
    if receipt.verification_residual is not None:
        rows.append(("verified", f"residual {receipt.verification_residual:.3g}; up to 1 is rounding"))
    return rows


def _spans(receipt: Receipt) -> list[tuple[str, str, float | None, float | None, float]]:
    """Rows of the table: side, stage, start, end and exposed, in us."""
    times = receipt.client
    total = times.total * 1e6
    other = total - (times.encode + times.waited + times.round_trip + times.decode) * 1e6
    rows: list[tuple[str, str, float | None, float | None, float]] = [
        ("client", "encode", 0.0, times.encode * 1e6, times.encode * 1e6),
        ("client", "network and wire", None, None, times.wire * 1e6),
    ]
    for stage in receipt.stages:
        name = stage.name if stage.count == 1 else f"{stage.name}, {stage.count} times"
        rows.append(("server", name, stage.start_us, stage.end_us, stage.exposed_us))
    rows.append(("server", "unattributed", None, None, receipt.unattributed_us))
    rows.append(("client", "decode", total - times.decode * 1e6, total, times.decode * 1e6))
    if times.attempts > 1:
        rows.append(("client", "waits between attempts", None, None, times.waited * 1e6))
    rows.append(("client", "failed attempts, other" if times.attempts > 1 else "other", None, None, other))
    rows.append(("client", "total", 0.0, total, total))
    return rows


def _last_line(receipt: Receipt) -> str:
    attempts = f" ({receipt.client.attempts} attempts)" if receipt.client.attempts > 1 else ""
    return (
        f"{receipt.flops * 1e-9:.3g} GFLOP: {receipt.achieved_gflops:.1f} GFLOP/s in the kernel, "
        f"{receipt.gflops:.1f} GFLOP/s as the client sees it{attempts}"
    )


def _text(receipt: Receipt) -> str:
    lines = [f"{name:<10} {value}" for name, value in _facts(receipt)]
    cells: list[tuple[str, ...]] = [("side", "stage", "start us", "end us", "exposed us")]
    for side, stage, start, end, exposed in _spans(receipt):
        numbers = ("" if each is None else f"{each:.1f}" for each in (start, end, exposed))
        cells.append((side, stage, *numbers))
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    lines.append("")
    for row in cells:
        left = [row[column].ljust(widths[column]) for column in range(2)]
        right = [row[column].rjust(widths[column]) for column in range(2, 5)]
        lines.append("  ".join(left + right).rstrip())
    return "\n".join([*lines, "", _last_line(receipt)])


def _html(receipt: Receipt) -> str:
    spans = _spans(receipt)
    whole = max((each[4] for each in spans), default=0.0) or 1.0
    rows = []
    for side, stage, _, _, exposed in spans:
        colour = "#4c78a8" if side == "server" else "#9ecae9"
        width = max(0.0, min(100.0, 100 * exposed / whole))
        bar = f'<div style="background:{colour};height:0.8em;width:{width:.1f}%"></div>'
        rows.append(
            f"<tr><td>{html.escape(side)}</td><td>{html.escape(stage)}</td>"
            f'<td style="text-align:right">{exposed:.1f}</td><td style="width:20em">{bar}</td></tr>'
        )
    facts = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in _facts(receipt)
    )
    return (
        f"<table>{facts}</table><table><tr><th>side</th><th>stage</th><th>exposed us</th><th></th></tr>"
        f"{''.join(rows)}</table><p>{html.escape(_last_line(receipt))}</p>"
    )
