"""A TCP proxy on loopback that can cut connections, or fall silent, as a network does."""

import selectors
import socket
import struct
import threading
import time


class Proxy:
    """Forwards connections to `target`, "127.0.0.1:PORT". A context manager.

    cut(count): closes every connection once that many more bytes of answers have gone through; once.
    freeze(): the connections that there are carry nothing any more, and stay open; new ones work.
    """

    def __init__(self, target):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._frozen = set()
        self.connections = 0
        self.cuts = 0
        self._left = None
        self._selector = selectors.DefaultSelector()
        self._others = {}  # by socket: the other end's
        self._servers = set()
        self._wake, self._woken = socket.socketpair()
        self._over = False
        self._must_freeze = threading.Event()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def cut(self, count):
        self._left = count

    def freeze(self):
        self._must_freeze.set()
        self._wake.send(b"x")
        while self._must_freeze.is_set():
            time.sleep(0.001)

    def close(self):
        self._over = True
        self._wake.send(b"x")
        self._thread.join()
        for each in (self._listener, self._wake, self._woken):
            each.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _run(self):
        while not self._over:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(100)
                elif key.fileobj in self._others:
                    self._forward(key.fileobj)
            if self._must_freeze.is_set():
                for each in self._others:
                    self._selector.unregister(each)
                self._frozen.update(self._others)
                self._others.clear()
                self._must_freeze.clear()
        self._end_all()
        for each in self._frozen:
            each.close()
        self._selector.close()

    def _accept(self):
        client, _ = self._listener.accept()
        self.connections += 1
        server = socket.socket()
        try:
            server.connect(self._target)
        except OSError:
            server.close()
            _reset(client)
            return
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._others[one] = other
            self._selector.register(one, selectors.EVENT_READ)
        self._servers.add(server)

    def _forward(self, one):
        try:
            data = one.recv(1 << 16)
        except OSError:
            data = b""
        is_cut = False
        if one in self._servers and self._left is not None:
            is_cut = len(data) >= self._left
            data = data[: self._left] if is_cut else data
            self._left = None if is_cut else self._left - len(data)
        try:
            self._others[one].sendall(data)
        except OSError:
            data = b""
        if is_cut:
            self.cuts += 1
            self._end_all()
        elif not data:
            self._end(one)

    def _end(self, one):
        for each in (one, self._others[one]):
            del self._others[each]
            self._servers.discard(each)
            self._selector.unregister(each)
            each.close()

    def _end_all(self):
        while self._others:
            self._end(next(iter(self._others)))


def _reset(one):
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()
