"""Where a server is: what callers write, checked, and what gRPC is given."""

from __future__ import annotations

import ipaddress
import re

DEFAULT_PORT = 50051
_FORMS = 'it must be "HOST:PORT", or "unix:PATH"'
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
# Those of gRPC's schemes that this module does not look into.
_OTHERS = ("google-c2p", "passthrough", "vsock", "xds")


class Address:
    """target: what gRPC resolves. stays_here: whether what is sent there never leaves this host."""

    __slots__ = ("stays_here", "target")

    def __init__(self, text: str, name: str = "address") -> None:
        """ValueError: it is none; `name` is what the caller knows it by."""
        if not isinstance(text, str):
            raise TypeError(f"{name} is {text!r}; it must be a str")
        wrong = next((each for each in text if each.isspace() or not each.isprintable() or each in "\"'"), None)
        if wrong is not None:
            raise ValueError(f"{name} is {text!r}, which contains {wrong!r}; {_FORMS}")
        self.target, self.stays_here = _read(text, name)


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
    """Of a name, "localhost" alone: what others resolve to may be another host the next time.

    "localhost." is one of them: with the point /etc/hosts does not have it.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
