"""The addresses of a name."""

from __future__ import annotations

import socket

from gemmd import errors


def resolve_by_host(name: str, port: int) -> list[str]:
    """Targets of gRPC's, "10.0.0.7:50051". Asks this host's resolver, and waits for it. Unavailable: there is none.

    Where a name has addresses of both families, these are IPv4's: a host often has one of each, and would be two
    servers. Sorted, so that a name whose addresses come in another order each time is the same list.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that IDNA does not take
        unknown = errors.Unavailable(f"DNS resolution failed for {name}: {error}")
        unknown.is_unreachable = True
        raise unknown from None
    v4 = {f"{at[0]}:{port}" for family, _, _, _, at in found if family == socket.AF_INET}
    v6 = {f"[{at[0]}]:{port}" for family, _, _, _, at in found if family == socket.AF_INET6}
    return sorted(v4 or v6)
