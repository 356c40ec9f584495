"""Make two tokens of InfluxDB 2 for docker-compose.yml: one that writes to one bucket, one that reads it.

InfluxDB's set-up makes a token that may do everything; no agent and no Grafana should have that one. Paths
and fields are those of its HTTP API (docs.influxdata.com/influxdb/v2/api, "Buckets" and "Authorizations"). A
token that is there and still good stays.
"""

from __future__ import annotations

import argparse
import http
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from make_secrets import write_secret

TIMEOUT_SECONDS = 10.0
MAXIMUM_BYTES = 2**20
"""Longest answer that is read; one of these has some kilobytes."""


class InfluxError(Exception):
    """InfluxDB does not do what it is asked for."""


class Influx:
    """InfluxDB as one token sees it."""

    def __init__(self, url: str, token: str) -> None:
        """Keep whom to ask.

        Args:
            url: Address of InfluxDB, such as http://influxdb:8086.
            token: The token to show.
        """
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        # Without the proxies that the environment may name: InfluxDB is beside us.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def find_bucket(self, organization: str, bucket: str) -> tuple[str, str]:
        """Return the ids of a bucket and of its organization."""
        query = urllib.parse.urlencode({"org": organization, "name": bucket})
        found = self._ask(f"/api/v2/buckets?{query}").get("buckets")
        if not isinstance(found, list) or not found:
            raise InfluxError(f"there is no bucket {bucket!r} in the organization {organization!r}")
        return str(found[0]["id"]), str(found[0]["orgID"])

    def knows_token(self) -> bool:
        """Tell whether InfluxDB takes the token for one of its own; what it may do is another question."""
        try:
            self._send("/api/v2/buckets", None)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code != http.HTTPStatus.UNAUTHORIZED
        return True

    def make_token(self, action: str, bucket_id: str, organization_id: str) -> str:
        """Make a token that may do one thing, `read` or `write`, to one bucket."""
        resource = {"type": "buckets", "id": bucket_id, "orgID": organization_id}
        made = self._ask(
            "/api/v2/authorizations",
            {
                "orgID": organization_id,
                "description": f"rackwatt: {action}",
                "permissions": [{"action": action, "resource": resource}],
            },
        )
        token = made.get("token")
        if not isinstance(token, str) or not token:
            raise InfluxError(f"InfluxDB made a token to {action}, and did not tell it")
        return token

    def _ask(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        try:
            answer = json.loads(self._send(path, body))
        except urllib.error.HTTPError as error:
            words = error.read(400).decode("utf-8", errors="replace")
            raise InfluxError(f"{self._url}{path} answers {error.code}: {words!r}") from None
        except (OSError, ValueError) as error:
            raise InfluxError(f"{self._url}{path}: {error}") from None
        if not isinstance(answer, dict):
            raise InfluxError(f"{self._url}{path} does not answer a JSON object")
        return answer

    def _send(self, path: str, body: Mapping[str, object] | None) -> bytes:
        content = None if body is None else json.dumps(body).encode()
        # The address is this stack's own.
        request = urllib.request.Request(f"{self._url}{path}", content, self._headers)  # noqa: S310
        with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            read: bytes = response.read(MAXIMUM_BYTES)
        return read


def provide(arguments: argparse.Namespace) -> None:
    """See that each file holds a token that InfluxDB knows."""
    admin = Influx(arguments.url, arguments.admin_token_file.read_text("ascii").strip())
    bucket_id, organization_id = admin.find_bucket(arguments.org, arguments.bucket)
    for action, path in (("write", arguments.write), ("read", arguments.read)):
        if path.exists() and Influx(arguments.url, path.read_text("ascii").strip()).knows_token():
            print(f"{path}: is there already, and good", flush=True)
            continue
        write_secret(path, admin.make_token(action, bucket_id, organization_id))
        print(f"{path}: made, to {action} the bucket {arguments.bucket}", flush=True)


def main(words: list[str]) -> int:
    """Read the arguments, and do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--org", required=True)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--admin-token-file", type=Path, required=True)
    parser.add_argument("--write", type=Path, required=True, help="file for the token that writes")
    parser.add_argument("--read", type=Path, required=True, help="file for the token that reads")
    try:
        provide(parser.parse_args(words))
    except (InfluxError, OSError) as error:
        print(f"influxdb_tokens: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
