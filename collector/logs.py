"""The log: one line an event, for people or for machines, in UTC, without secrets.

Loggers are called `rackwatt.agent`, `rackwatt.reader` and so on. What varies goes into `extra`:

```python
log.info("reader restarted", extra={"reason": reason, "restarts": 3})
```

```
12:00:01 INFO  reader  reader restarted reason="no answer for 10 s" restarts=3
{"time": "2026-01-05T12:00:01.250Z", "level": "info", "logger": "rackwatt.reader", "message": …}
```
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TextIO

ROOT = "rackwatt"
"""Parent of all loggers of this program."""

FORMATS = ("human", "json")
LEVELS = ("debug", "info", "warning", "error")

_HIDDEN = "[hidden]"
_SECRET_KEY = re.compile(
    r"passw|secret|token(?!s)|authori[sz]ation|credential|api_?key|cookie", re.IGNORECASE
)
# What people put into a URL or a header, and errors of clients then repeat.
_SECRET_TEXT = (
    (re.compile(r"(://)[^/\s@]+@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"\b(Bearer|Basic|Token)(\s+)[A-Za-z0-9._~+/=-]{12,}"), rf"\1\2{_HIDDEN}"),
)

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN_VALUE = re.compile(r"[^\s\"'=\x00-\x1f\x7f]+")


_LEVEL_WORDS = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class _OwnHandler(logging.StreamHandler[TextIO]):
    """A handler that `setup` made, so that a second call replaces it; writes no secret."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(without_secrets(record))


def setup(format: str = "human", level: str = "info", stream: TextIO | None = None) -> None:
    """Direct the log to a stream; calling it again replaces what an earlier call did.

    Libraries are heard from warnings on, whatever the level.

    Args:
        format: `human` or `json`.
        level: Least severe line of rackwatt that is written: `debug`, `info`, `warning`, `error`.
        stream: Where to write; standard error if None.

    Raises:
        ValueError: Format or level is not one of these.
    """
    if format not in FORMATS:
        raise ValueError(f"log format {format!r}: {' or '.join(FORMATS)} is right")
    if level not in LEVELS:
        raise ValueError(f"log level {level!r}: one of {', '.join(LEVELS)} is right")
    handler = _OwnHandler(stream)
    handler.setFormatter(_json_formatter() if format == "json" else HumanFormatter())
    root = logging.getLogger()
    for other in [each for each in root.handlers if isinstance(each, _OwnHandler)]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.ERROR if level == "error" else logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())


def hide_secrets(text: str) -> str:
    """Replace what looks like a password or a token in a text, as in a URL or a header."""
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def without_secrets(record: logging.LogRecord) -> logging.LogRecord:
    """Copy a record without its secrets; the record itself stays as it is, for other handlers.

    Args:
        record: Message, extras and exception as they were logged.

    Returns:
        A record with its message put together, extras that are called like a secret hidden, and the
        traceback written out.
    """
    clean = logging.makeLogRecord(vars(record))
    clean.msg, clean.args = hide_secrets(record.getMessage()), None
    for key, value in _extras(record):
        if _SECRET_KEY.search(key):
            setattr(clean, key, _HIDDEN)
        elif isinstance(value, str):
            setattr(clean, key, hide_secrets(value))
    if record.exc_info:
        clean.exc_text = hide_secrets(logging.Formatter().formatException(record.exc_info))
        clean.exc_info = None
    return clean


def _extras(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    return ((key, value) for key, value in vars(record).items() if key not in _STANDARD_ATTRIBUTES)


class HumanFormatter(logging.Formatter):
    """Writes `12:00:01 INFO  agent  message key=value`; foreign text cannot break the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record; a traceback follows on lines of its own, indented."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        level = _LEVEL_WORDS.get(record.levelname, record.levelname)
        logger = record.name.removeprefix(f"{ROOT}.")
        parts = [
            f"{time} {level:<5} {logger:<7} {_one_line(record.getMessage())}",
            *(f"{key}={_value(value)}" for key, value in _extras(record)),
        ]
        line = " ".join(parts)
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        return "\n    ".join([line, *map(_one_line, trace.splitlines())])


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _value(value: object) -> str:
    text = _one_line(str(value))
    return text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _json_formatter() -> logging.Formatter:
    """Make the formatter for machines; the library is imported only where it is wanted."""
    from pythonjsonlogger.core import RESERVED_ATTRS
    from pythonjsonlogger.json import JsonFormatter

    class RackwattJsonFormatter(JsonFormatter):
        """Adds the time as RFC 3339 and the level in lower case."""

        def add_fields(
            self, log_data: dict[str, object], record: logging.LogRecord, message_dict: Mapping[str, object]
        ) -> None:
            """Put our own fields first."""
            time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            log_data["time"] = time.replace("+00:00", "Z")
            log_data["level"] = record.levelname.lower()
            log_data["logger"] = record.name
            super().add_fields(log_data, record, dict(message_dict))

    return RackwattJsonFormatter(
        "%(message)s", rename_fields={"exc_info": "exception"}, reserved_attrs=[*RESERVED_ATTRS, "taskName"]
    )
