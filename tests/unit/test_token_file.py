"""A token in a file, read anew when it changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from collector.errors import ConfigurationError
from collector.token_file import TokenFile

SECRET = "s3cr3t-0123456789"  # noqa: S105 - a test's own


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o600)
    return str(path)


def test_white_space_around_a_token_is_none_of_it(tmp_path: Path) -> None:
    assert TokenFile(write(tmp_path / "token", f"\n {SECRET} \n")).token() == SECRET


@pytest.mark.parametrize("content", ["", "\n", "two words", "é", b"\xff", b"a\x00b", "x" * 5000, "a\nb"])
def test_a_file_without_a_token_is_refused_without_showing_it(tmp_path: Path, content: str | bytes) -> None:
    path = write(tmp_path / "token", content)
    with pytest.raises(ConfigurationError) as caught:
        TokenFile(path)
    assert str(caught.value) == (
        f"{path}: holds no token: one line of visible ASCII characters without spaces is right"
    )


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        TokenFile(str(tmp_path / "token"))


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    own = TokenFile(write(path, SECRET))
    write(tmp_path / "new", "another-token")
    (tmp_path / "new").replace(path)
    assert own.token() == "another-token"


def test_a_file_that_is_gone_or_spoilt_keeps_the_token_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "token"
    own = TokenFile(write(path, SECRET))
    with caplog.at_level(logging.DEBUG):
        path.unlink()
        assert [own.token(), own.token()] == [SECRET, SECRET]
        assert len(caplog.records) == 1
        write(path, "no token here")
        assert own.token() == SECRET
        write(path, "fresh-token-0987654321")
        assert own.token() == "fresh-token-0987654321"
    assert SECRET not in caplog.text
    assert "fresh" not in caplog.text
    assert SECRET not in repr(own)


def test_a_file_that_everybody_can_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token"
    write(path, SECRET)
    path.chmod(0o644)
    TokenFile(str(path))
    assert "every user of this machine can read" in caplog.text
