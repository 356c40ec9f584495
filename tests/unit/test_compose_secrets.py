"""The scripts of docker-compose.yml that make secrets: each once, none told, none for more than is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose_stack import ROOT
from tests.influxdb_api import InfluxdbApi, influxdb_api

SCRIPTS = ROOT / "deploy" / "compose"
ADMIN_TOKEN = "R" + "0f" * 32


def run(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        umask=0,
    )


# make_secrets.py


def test_secrets_are_made_once(tmp_path: Path) -> None:
    paths = [tmp_path / "password", tmp_path / "token"]
    first = run("make_secrets.py", *map(str, paths))
    assert (first.returncode, first.stderr) == (0, "")
    made = [path.read_text("ascii") for path in paths]
    assert made[0] != made[1]
    for text in made:
        # 256 bits in hexadecimal behind a letter, which leaves nothing to quote.
        assert re.fullmatch(r"R[0-9a-f]{64}\n", text)
        assert text.strip() not in first.stdout
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o640, 0o640]
    assert run("make_secrets.py", *map(str, paths)).returncode == 0
    assert [path.read_text("ascii") for path in paths] == made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["password", "token"]


def test_what_a_kill_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".token.new").write_text("R00", "ascii")
    assert run("make_secrets.py", str(tmp_path / "token")).returncode == 0
    assert len((tmp_path / "token").read_text("ascii")) == 66
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


# influxdb_tokens.py


@pytest.fixture
def server() -> Iterator[InfluxdbApi]:
    with influxdb_api(ADMIN_TOKEN, organization="ops", bucket="gpu") as running:
        yield running


def tokens(server_url: str, folder: Path, bucket: str = "gpu") -> subprocess.CompletedProcess[str]:
    (folder / "admin").write_text(f"{ADMIN_TOKEN}\n", "ascii")
    return run(
        "influxdb_tokens.py",
        f"--url={server_url}",
        "--org=ops",
        f"--bucket={bucket}",
        f"--admin-token-file={folder / 'admin'}",
        f"--write={folder / 'write'}",
        f"--read={folder / 'read'}",
    )


def test_each_token_may_do_one_thing_to_one_bucket(server: InfluxdbApi, tmp_path: Path) -> None:
    result = tokens(server.url, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    # "Create an authorization": orgID, description, permissions of action and resource.
    resource = {"type": "buckets", "id": "0011223344556677", "orgID": "a1b2c3d4e5f60718"}
    assert server.asked == [
        {
            "orgID": "a1b2c3d4e5f60718",
            "description": f"rackwatt: {action}",
            "permissions": [{"action": action, "resource": resource}],
        }
        for action in ("write", "read")
    ]
    assert (tmp_path / "write").read_text("ascii") == "token-1-to-write==\n"
    assert (tmp_path / "read").read_text("ascii") == "token-2-to-read==\n"
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("write", "read")} == {0o640}
    assert not re.search(r"token-\d|R0f", result.stdout)


def test_tokens_that_are_good_stay(server: InfluxdbApi, tmp_path: Path) -> None:
    assert tokens(server.url, tmp_path).returncode == 0
    assert tokens(server.url, tmp_path).returncode == 0
    assert len(server.asked) == 2


def test_a_token_that_influxdb_has_forgotten_is_replaced(server: InfluxdbApi, tmp_path: Path) -> None:
    assert tokens(server.url, tmp_path).returncode == 0
    del server.rights["token-1-to-write=="]  # as after a loss of its volume
    assert tokens(server.url, tmp_path).returncode == 0
    assert (tmp_path / "write").read_text("ascii") == "token-3-to-write==\n"
    assert (tmp_path / "read").read_text("ascii") == "token-2-to-read==\n"


@pytest.mark.parametrize(
    ("bucket", "right", "words"),
    [
        ("other", "everything", "there is no bucket 'other' in the organization 'ops'"),
        ("gpu", "read", "answers 403"),
        ("gpu", None, "answers 401"),
    ],
)
def test_a_refusal_is_told_without_the_token(
    server: InfluxdbApi, tmp_path: Path, bucket: str, right: str | None, words: str
) -> None:
    server.rights = {ADMIN_TOKEN: right} if right else {}
    result = tokens(server.url, tmp_path, bucket)
    assert result.returncode == 1
    assert words in result.stderr
    assert ADMIN_TOKEN not in result.stderr
    assert not (tmp_path / "write").exists()


def test_silence_is_told(tmp_path: Path) -> None:
    with influxdb_api(ADMIN_TOKEN, organization="ops", bucket="gpu") as server:
        url = server.url
    result = tokens(url, tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith(f"influxdb_tokens: {url}/api/v2/buckets")
    assert "Traceback" not in result.stderr
