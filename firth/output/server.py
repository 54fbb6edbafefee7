"""A page served to browsers on this machine alone, with news of what it shows."""

import re
import socketserver
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from firth.base.errors import InputError
from firth.base.notes import warn

LOOPBACK = "127.0.0.1"
# A page of another name that leads to this machine (DNS rebinding) names itself here.
HOST = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
PATIENCE = 10.0  # seconds for a browser to say what it wants
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """Serves a page at `/` and its news at `/runs.json`, both made anew for each request."""

    daemon_threads = True  # a browser that waits doesn't keep the process

    def __init__(self, port: int | None, page: Callable[[], str], news: Callable[[], str]) -> None:
        self.page = page
        self.news = news
        try:
            super().__init__((LOOPBACK, port or 0), Handler)
        except OSError as error:
            raise InputError(
                f"port {port} can't be used ({error.strerror}): "
                "choose another with --port, or leave it out for any that is free"
            ) from error

    def server_bind(self) -> None:
        """Take the port, without asking the network for this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name = LOOPBACK
        self.server_port = self.server_address[1]

    @property
    def address(self) -> str:
        """Return where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a browser that has gone; say what else went wrong."""
        error = sys.exception()
        if not isinstance(error, OSError):
            warn(f"a request was not answered: {type(error).__name__}: {error}")


class Handler(BaseHTTPRequestHandler):
    """Answers GET for two paths, where the browser knows this machine by its own name."""

    server: PageServer
    timeout = PATIENCE
    server_version = "firth"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page, its news, or a refusal."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not HOST.fullmatch(hosts[0]):
            self._answer(403, "text/plain", "This page is for browsers on its own machine.\n")
        elif self.path == "/":
            self._answer(200, "text/html", self.server.page())
        elif self.path == "/runs.json":
            self._answer_news(self.server.news())
        else:
            self._answer(404, "text/plain", "There is nothing here.\n")

    def _answer_news(self, news: str) -> None:
        """Answer with news, unless they are those that the page has."""
        tag = f'"{sha256(news.encode()).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            self._begin(304, {"ETag": tag})
        else:
            self._answer(200, "application/json", news, {"ETag": tag})

    def _answer(
        self, status: int, kind: str, text: str, more: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        body = text.encode()
        about = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        self._begin(status, about | dict(more or {}))
        self.wfile.write(body)

    def _begin(self, status: int, more: Mapping[str, str]) -> None:
        """Send what stands before the body."""
        self.send_response(status)
        for name, value in {**HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its class has it
        """Print nothing of what goes well."""
