"""A Grafana for tests: folders and dashboards over real HTTP, in the shape of its documented API.

Paths, fields and status codes: Grafana's documentation, "Dashboard API" and "Folder API".
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "glsa_0123456789abcdef"  # noqa: S105 - in the shape of a service account's token
PATIENCE_SECONDS = 20.0
Json = dict[str, Any]  # as HTTP bodies are


class GrafanaDouble:
    """What it holds, and how it answers.

    Attributes:
        folders: Titles by uid.
        boards: Dashboards by uid, with `id` and `version` as Grafana gives them.
        folder_of: Folder's uid by the dashboard's.
        messages: Messages of the history, in order.
        requests: Method and path of every request, in order.
        answer: Status and body of every answer, instead of what would be right; None for that.
        breaks_off: Whether it closes the connection instead of answering.
        may_answer: It answers while this is set.
    """

    def __init__(self) -> None:
        self.folders: dict[str, str] = {}
        self.boards: dict[str, Json] = {}
        self.folder_of: dict[str, str] = {}
        self.messages: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.answer: tuple[int, bytes] | None = None
        self.breaks_off = False
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.url = ""

    def respond(self, method: str, path: str, token: str, body: Json) -> tuple[int, Json]:
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Unauthorized"}
        match method, path.rpartition("/")[0], path.rpartition("/")[2]:
            case "GET", "/api/folders", uid:
                if uid not in self.folders:
                    return 404, {"message": "folder not found", "status": "not-found"}
                return 200, {"id": 1, "uid": uid, "title": self.folders[uid], "version": 1}
            case "POST", "/api", "folders":
                self.folders[body["uid"]] = body["title"]
                return 200, {"id": 1, "uid": body["uid"], "title": body["title"], "version": 1}
            case "GET", "/api/dashboards/uid", uid:
                if uid not in self.boards:
                    return 404, {"message": "Dashboard not found"}
                meta = {"folderUid": self.folder_of[uid], "provisioned": False, "slug": "x", "url": "/d/x"}
                return 200, {"dashboard": self.boards[uid], "meta": meta}
            case "POST", "/api/dashboards", "db":
                return self._save(body)
            case _:
                return 404, {"message": "Not found"}

    def _save(self, body: Json) -> tuple[int, Json]:
        board, uid = body["dashboard"], body["dashboard"]["uid"]
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found"}
        if uid in self.boards and not body["overwrite"]:
            return 412, {"message": "The dashboard has been changed", "status": "version-mismatch"}
        version = self.boards.get(uid, {"version": 0})["version"] + 1
        self.boards[uid] = {**board, "id": 7, "version": version}
        self.folder_of[uid] = body["folderUid"]
        self.messages.append(body["message"])
        return 200, {"id": 7, "uid": uid, "url": f"/d/{uid}/x", "status": "success", "version": version}


@contextmanager
def grafana(tls: ssl.SSLContext | None = None) -> Iterator[GrafanaDouble]:
    """Let it listen on a free port of 127.0.0.1, with TLS if that is given."""
    double = GrafanaDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Json) -> None:
            double.requests.append((self.command, self.path))
            double.may_answer.wait(PATIENCE_SECONDS)
            if double.breaks_off:
                self.close_connection = True
                return
            if double.answer is not None:
                status, content = double.answer
            else:
                status, answer = double.respond(
                    self.command, self.path, self.headers.get("Authorization", ""), body
                )
                content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    double.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    # It looks that often whether it has been told to end.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_SECONDS)
