"""The fake engine behind the endpoints of SGLang's server that the harness uses."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import sglang


def main(words: list[str]) -> None:
    arguments = read(words)
    port = int(arguments.pop("port"))
    engine = sglang.Engine(**arguments)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            known = {"/health": {}, "/server_info": engine.get_server_info()}
            self.json(200 if self.path in known else 404, known.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
            if self.path == "/flush_cache":
                self.json(200, {})
                return
            if engine.vices.health_only:
                time.sleep(600)
            self.send_response(200)
            self.end_headers()
            events = engine.events(**body)
            while (event := step(events)) is not None:
                self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")

        def json(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    signal.signal(signal.SIGTERM, lambda *_: end(engine))
    server = ThreadingHTTPServer((arguments["host"], port), Handler)
    server.daemon_threads = True
    server.serve_forever(0.05)


def step(events: Any) -> Any:
    """One event of an async generator that only sleeps."""
    waiting = events.__anext__()
    import asyncio

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(waiting)
    except StopAsyncIteration:
        return None
    finally:
        loop.close()


def end(engine: sglang.Engine) -> None:
    engine.shutdown()
    os._exit(0)


def read(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            found[name] = True
        else:
            found[name] = word
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
