"""Where servers are: what callers write, checked, and what gRPC is given."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence

DEFAULT_ADDRESS = "127.0.0.1:50051"
DEFAULT_PORT = 50051
MOST_SERVERS = 256  # of one client

_FORMS = 'it must be "HOST:PORT", or "unix:PATH"'
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
# Those of gRPC's schemes that this module does not look into.
_OTHERS = ("google-c2p", "passthrough", "vsock", "xds")


class Address:
    """target: what gRPC resolves. stays_here: whether what is sent there never leaves this host.

    servers: the name and the port of dns:///NAME:PORT, each of whose addresses is a server; None: it is one server.
    """

    __slots__ = ("servers", "stays_here", "target")

    def __init__(self, text: str, name: str = "address") -> None:
        """ValueError: it is none; `name` is what the caller knows it by."""
        if not isinstance(text, str):
            raise TypeError(f"{name} is {text!r}; it must be a str")
        wrong = next((each for each in text if each.isspace() or not each.isprintable() or each in "\"'"), None)
        if not text:
            raise ValueError(f"{name} is {text!r}, which names no server; {_FORMS}")
        if wrong is not None:
            raise ValueError(f"{name} is {text!r}, which contains {wrong!r}; {_FORMS}")
        self.target, self.stays_here = _read(text, name)
        self.servers = _name_and_port(self.target)


def addresses_of(given: str | Sequence[str] | None) -> list[Address]:
    """The entries of a list of servers; None: GEMMD_SERVER's, else the default.

    A text has commas between them, but for one that begins with ipv4: or ipv6:, whose commas are gRPC's.
    ValueError names the entry: it is wrong, or there twice; or the list is empty, or too long.
    """
    field = "address"
    if given is None:
        named = os.environ.get("GEMMD_SERVER")
        field, given = ("GEMMD_SERVER", named) if named else (field, DEFAULT_ADDRESS)
    if isinstance(given, str):
        given = [given] if given.startswith(("ipv4:", "ipv6:")) else given.split(",")
    entries = list(given)
    if not entries:
        raise ValueError(f"{field} is {given!r}, which names no server; {_FORMS}, or a list of such")
    if len(entries) > MOST_SERVERS:
        raise ValueError(f"{field} has {len(entries)} entries; it must have at most {MOST_SERVERS}")
    found: dict[str, Address] = {}
    for number, entry in enumerate(entries, 1):
        which = field if len(entries) == 1 else f"entry {number} of {field}"
        address = Address(entry, which)
        if address.target in found:
            raise ValueError(
                f"{which} is {entry!r}, which is the server of entry {list(found).index(address.target) + 1}; "
                "each must be there once"
            )
        found[address.target] = address
    return list(found.values())


def _name_and_port(target: str) -> tuple[str, int] | None:
    if not target.startswith("dns:///"):
        return None
    host, _, port = target.removeprefix("dns:///").rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host, int(port)
    return None


def _read(text: str, name: str) -> tuple[str, bool]:
    scheme, colon, rest = text.partition(":")
    if colon and scheme in ("unix", "unix-abstract"):
        if not rest.strip("/"):
            raise ValueError(f"{name} is {text!r}, which names no socket; {_FORMS}")
        return text, True
    if colon and scheme in _OTHERS:
        return text, False
    if colon and scheme == "dns":
        # After dns: may come the server to ask: //AUTHORITY/.
        authority, slash, found = rest.rpartition("/") if rest.startswith("//") else ("", "", rest)
        host, port = _host_and_port(found, text, name)
        # Another server may say of any name that it is elsewhere.
        stays_here = not authority.strip("/") and _is_loopback(host)
        return f"dns:{authority}{slash}{_joined(host, port)}", stays_here
    if colon and scheme in ("ipv4", "ipv6"):
        hosts = [_host_and_port(each, text, name) for each in rest.split(",")]
        return f"{scheme}:{','.join(_joined(*each) for each in hosts)}", all(_is_loopback(h) for h, _ in hosts)
    if "://" in text:
        raise ValueError(f"{name} is {text!r}; {_FORMS}, without {text.partition('://')[0]}://")
    host, port = _host_and_port(text, text, name)
    return _joined(host, port), _is_loopback(host)


def _host_and_port(found: str, text: str, name: str) -> tuple[str, int]:
    """IPv6 addresses may go without brackets where no port follows them."""
    if _is_v6(found):
        return found, DEFAULT_PORT
    bracketed = re.fullmatch(r"\[([^]]*)\](?::(.*))?", found)
    if bracketed:
        host, port = bracketed.groups()
    else:
        host, colon, port = found.partition(":")
        port = port if colon else None
    if bracketed and not _is_v6(host):
        raise ValueError(f"{name} is {text!r}, whose brackets hold no IPv6 address; {_FORMS}")
    if not bracketed and not _HOST.fullmatch(host):
        raise ValueError(f"{name} is {text!r}, where {host!r} is no host; {_FORMS}")
    if port is None:
        return host, DEFAULT_PORT
    if not (re.fullmatch("[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        raise ValueError(f"{name} is {text!r}, whose port is {port!r}; it must be 1 to 65535")
    return host, int(port)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_v6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    """Whether it is this host for certain: the one name that is is "localhost"; others may change their host.

    "localhost." is one of them: with the point /etc/hosts does not have it.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
