"""A program that keeps posted bytes in a file and returns them. Run as a script."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class _Handler(BaseHTTPRequestHandler):
    kept: Path

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.kept.exists():
            self.wfile.write(self.kept.read_bytes())

    def do_POST(self) -> None:
        with self.kept.open("ab") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()


def main(port: int, kept: Path) -> None:
    _Handler.kept = kept
    HTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    if "--fail" in sys.argv:
        sys.exit("this is why")
    main(int(sys.argv[1]), Path(sys.argv[2]))
