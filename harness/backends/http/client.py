"""One endpoint over plain `http.client`: no proxies, no redirects, no unlimited answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

Kind = Literal["refused", "busy", "oom", "http", "protocol", "late"]

LIMIT = 64 << 20
"""Bytes of one answer."""
_LINE = 16 << 20
_START = 200
_MEMORY = ("out of memory", "outofmemory", "memoryerror", "kv cache is full", "oom")


class EndpointError(Exception):
    """A request that failed, in one line without the secret; `retry` may help or not."""

    def __init__(self, kind: Kind, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status

    @property
    def retry(self) -> bool:
        """Whether the same request may succeed a moment later."""
        failed = (self.status or 0) >= 500 and self.kind != "oom"
        return failed or self.kind in ("refused", "busy")


class Connection:
    """One connection for one exchange; `abort` may be called from another thread."""

    def __init__(self, endpoint: Endpoint, until: float) -> None:
        self._endpoint = endpoint
        self._http = endpoint.connection(_left(until))
        with endpoint.failures():
            self._http.connect()
        # An answer with `Connection: close` takes it from the connection before it is read.
        self._socket: socket.socket = self._http.sock

    def send(self, method: str, path: str, body: Any, until: float) -> http.client.HTTPResponse:
        """Send a request and return the answer once its head has come and says success.

        Raises:
            EndpointError: anything else.
        """
        data = None if body is None else json.dumps(body).encode("utf-8")
        with self._endpoint.failures():
            self._patience(until)
            where = self._endpoint.prefix + path
            self._http.request(method, where, data, self._endpoint.headers)
            response = self._http.getresponse()
            if response.status == 200:
                return response
            raise self._endpoint.refusal(response.status, response.read(1 << 16))

    def lines(self, response: http.client.HTTPResponse, until: float) -> Iterator[bytes]:
        """Yield the answer's lines as they come.

        Raises:
            EndpointError: the answer is cut off, or longer than the limit.
        """
        total = 0
        while True:
            with self._endpoint.failures():
                self._patience(until)
                line = response.readline(_LINE)
            total += len(line)
            if total > LIMIT or len(line) >= _LINE:
                raise EndpointError(
                    "protocol",
                    f"the answer has over {LIMIT >> 20} MiB, or a line over {_LINE >> 20} MiB",
                )
            if not line:
                return
            yield line

    def whole(self, response: http.client.HTTPResponse, until: float) -> bytes:
        """Return the rest of the answer."""
        return b"".join(self.lines(response, until))

    def abort(self) -> None:
        """Cut the connection, whoever waits on it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Release the socket."""
        self._http.close()

    def _patience(self, until: float) -> None:
        self._socket.settimeout(_left(until))


class Endpoint:
    """Where a server listens, and how its failures read."""

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self._tls else 80)
        self.prefix = parts.path.rstrip("/")
        self._key = key
        self.headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            self.headers["Authorization"] = f"Bearer {key}"

    @property
    def name(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        if self._tls:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=timeout_s, context=context
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)

    def ask(self, method: str, path: str, timeout_s: float, body: Any = None) -> Any:
        """Return the JSON (or else the text) of one short exchange.

        Raises:
            EndpointError: it failed.
        """
        until = time.monotonic() + timeout_s
        connection = Connection(self, until)
        try:
            data = connection.whole(connection.send(method, path, body, until), until)
        finally:
            connection.close()
        try:
            return json.loads(data)
        except ValueError:
            return data.decode("utf-8", "replace")

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Turn what sockets and HTTP raise into one kind of error."""
        try:
            yield
        except TimeoutError as error:
            raise EndpointError("late", f"{self.name}: no answer by the deadline") from error
        except ConnectionRefusedError as error:
            raise EndpointError(
                "refused", f"{self.name}: connection refused; no server listens there"
            ) from error
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            raise EndpointError(
                "protocol", f"{self.name}: the connection broke: {self.clean(_said(error))}"
            ) from error

    def refusal(self, status: int, body: bytes) -> EndpointError:
        """Return the error for an HTTP status other than success."""
        said = self.clean(body.decode("utf-8", "replace"))
        if 300 <= status < 400:
            return EndpointError("http", f"HTTP {status}: redirects are not followed", status)
        kind: Kind = "busy" if status in (429, 503) else "http"
        if out_of_memory(said):
            kind = "oom"
        return EndpointError(kind, f"HTTP {status}: {said or 'no message'}", status)

    def clean(self, text: str) -> str:
        """Return the start of a text as one line, without the secret."""
        if self._key:
            text = text.replace(self._key, "<key>")
        return " ".join(text.split())[:_START]


def out_of_memory(text: str) -> bool:
    """Whether a server's message means that its device is full."""
    words = text.lower()
    return any(sign in words for sign in _MEMORY[:-1]) or "oom" in words.split()


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}" if str(error) else type(error).__name__


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
