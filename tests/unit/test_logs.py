"""The log: one line an event, in UTC, without secrets."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import logs

# 2026-01-05 12:00:01.250 UTC.
NOON = 1767614401.25

log = logging.getLogger("rackwatt.agent")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("rackwatt")
    before = (list(root.handlers), root.level, own.level)
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


class KeepRecords(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def fail(message: str) -> None:
    raise ValueError(message)


def written(
    format: str,
    message: str,
    *arguments: object,
    level: int = logging.INFO,
    logger: str = "rackwatt.agent",
    extra: dict[str, object] | None = None,
    **more: object,
) -> str:
    """Write one record at noon and return the line."""
    stream = io.StringIO()
    logs.setup(format, "debug", stream)
    record = logging.getLogger(logger).makeRecord(
        logger, level, __file__, 1, message, arguments, None, extra={**(extra or {}), **more}
    )
    record.created = NOON
    logging.getLogger(logger).handle(record)
    return stream.getvalue()


def test_a_line_for_people() -> None:
    line = written("human", "reader restarted", reason="no answer for 10 s", restarts=3)
    assert line == '12:00:01 INFO  agent   reader restarted reason="no answer for 10 s" restarts=3\n'


@pytest.mark.parametrize(
    ("level", "word"),
    [
        (logging.DEBUG, "DEBUG"),
        (logging.INFO, "INFO "),
        (logging.WARNING, "WARN "),
        (logging.ERROR, "ERROR"),
        (logging.CRITICAL, "FATAL"),
    ],
)
def test_levels_are_words_of_one_width(level: int, word: str) -> None:
    assert written("human", "x", level=level) == f"12:00:01 {word} agent   x\n"


def test_other_programs_loggers_keep_their_names() -> None:
    assert written("human", "x", level=logging.WARNING, logger="asyncio") == "12:00:01 WARN  asyncio x\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (1.5, "1.5"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("é", "é"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
    ],
)
def test_values_are_told_apart(value: object, text: str) -> None:
    assert written("human", "x", key=value) == f"12:00:01 INFO  agent   x key={text}\n"


def test_foreign_text_cannot_break_a_line_or_paint_a_terminal() -> None:
    line = written("human", "GPU %s", "a\n12:00:02 ERROR agent   forged \x1b[31m\u2028")
    assert line == "12:00:01 INFO  agent   GPU a\\n12:00:02 ERROR agent   forged \\x1b[31m\\u2028\n"


def test_libraries_are_heard_from_warnings_on() -> None:
    stream = io.StringIO()
    logs.setup("human", "debug", stream)
    logging.getLogger("asyncio").info("quiet")
    logging.getLogger("asyncio").warning("loud")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["loud"]


def test_a_line_for_machines() -> None:
    line = written("json", "reader %s", "restarted", restarts=3, reason="a\nb", level=logging.WARNING)
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "time": "2026-01-05T12:00:01.250Z",
        "level": "warning",
        "logger": "rackwatt.agent",
        "message": "reader restarted",
        "restarts": 3,
        "reason": "a\nb",
    }


def test_the_time_of_day_is_utc_whatever_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC-9")
        time.tzset()
        try:
            assert time.localtime(NOON).tm_hour == 21
            assert written("human", "x").startswith("12:00:01 ")
        finally:
            patch.undo()
            time.tzset()


SECRETS = [
    ("cannot reach http://ops:hunter2@influxdb:8086/x", "cannot reach http://[hidden]@influxdb:8086/x"),
    ("sent Authorization: Bearer abcdefghijkl.mno-pqr", "sent Authorization: Bearer [hidden]"),
    ("sent Token 0123456789abcdef==", "sent Token [hidden]"),
    ("Basic research and a Token gesture", "Basic research and a Token gesture"),
    ("see https://example.org/a@b", "see https://example.org/a@b"),
]


@pytest.mark.parametrize(("text", "shown"), SECRETS)
@pytest.mark.parametrize("format", logs.FORMATS)
def test_secrets_in_texts_are_hidden(format: str, text: str, shown: str) -> None:
    line = written(format, "x: %s", text, url=text)
    plain = json.loads(line) if format == "json" else None
    if plain is None:
        assert line == f'12:00:01 INFO  agent   x: {shown} url="{shown}"\n'
    else:
        assert (plain["message"], plain["url"]) == (f"x: {shown}", shown)


@pytest.mark.parametrize("key", ["password", "influx_token", "api_key", "Authorization", "client_secret"])
def test_values_that_are_called_like_a_secret_are_hidden(key: str) -> None:
    assert written("human", "x", extra={key: "hunter2"}) == f"12:00:01 INFO  agent   x {key}=[hidden]\n"


def test_tokens_that_are_counted_are_no_secret() -> None:
    assert written("human", "x", tokens=412) == "12:00:01 INFO  agent   x tokens=412\n"


@pytest.mark.parametrize("format", logs.FORMATS)
def test_secrets_in_a_traceback_are_hidden_and_stay_in_the_record(format: str) -> None:
    stream = io.StringIO()
    logs.setup(format, "info", stream)
    keeper = KeepRecords()
    log.addHandler(keeper)
    try:
        fail("http://ops:hunter2@influxdb/\x1b[31m")
    except ValueError:
        log.exception("failed")
    finally:
        log.removeHandler(keeper)
    assert "hunter2" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "ValueError: http://[hidden]@influxdb/" in stream.getvalue()
    assert keeper.records[0].exc_info is not None


def test_a_traceback_for_people_is_indented() -> None:
    stream = io.StringIO()
    logs.setup("human", "info", stream)
    try:
        fail("bad")
    except ValueError:
        log.exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR agent   failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    ValueError: bad"


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_decides_what_is_written(level: str, heard: list[str]) -> None:
    stream = io.StringIO()
    logs.setup("json", level, stream)
    for word in ("debug", "info", "warning", "error"):
        log.log(logging.getLevelNamesMapping()[word.upper()], word)
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == heard


def test_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.setup("human", "info", first)
    logs.setup("human", "info", second)
    log.info("x")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1


def test_a_wrong_format_or_level_is_refused() -> None:
    with pytest.raises(ValueError, match="log format 'xml': human or json is right"):
        logs.setup("xml")
    with pytest.raises(ValueError, match="log level 'loud': one of debug, info, warning, error is right"):
        logs.setup(level="loud")


texts = st.text(max_size=60)


@given(
    texts, st.dictionaries(st.from_regex(r"[a-z]{1,8}_x", fullmatch=True), texts | st.floats(), max_size=4)
)
def test_whatever_is_logged_is_one_printable_line(message: str, extra: dict[str, object]) -> None:
    line = written("human", "%s", message, extra=extra)
    assert line.endswith("\n")
    assert line[:-1].isprintable()


@given(texts, st.dictionaries(st.from_regex(r"[a-z]{1,8}_x", fullmatch=True), texts, max_size=4))
def test_whatever_is_logged_for_machines_can_be_read_back(message: str, extra: dict[str, object]) -> None:
    line = written("json", "%s", message, extra=extra)
    assert line.count("\n") == 1
    document = json.loads(line)
    assert document["message"] == logs.hide_secrets(message)
    assert {key: document[key] for key in extra} == {
        key: logs.hide_secrets(str(value)) for key, value in extra.items()
    }
