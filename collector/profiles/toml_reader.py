"""The strict reader of profile documents: unknown keys, missing keys and wrong types are refused."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from collector.errors import ConfigurationError
from collector.profiles.schema import Profile

Record = TypeVar("Record")


def parse_profile(table: Mapping[str, object], where: str) -> Profile:
    """Turn a parsed TOML document into a profile.

    Args:
        table: The document.
        where: Name of the file, for messages.

    Returns:
        The profile.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value has the wrong type.
    """
    return parse_record(Profile, table, where)


def parse_record(record: type[Record], table: Mapping[str, object], where: str) -> Record:
    """Turn a parsed TOML table into a dataclass.

    Args:
        record: The dataclass; its fields are the keys.
        table: The table.
        where: What it is, for messages.

    Returns:
        The dataclass, filled.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value has the wrong type.
    """
    built = _parse_record(record, table, where)
    if not isinstance(built, record):  # pragma: no cover - _parse_record builds what it is asked for
        raise TypeError(type(built).__name__)
    return built


def _parse_record(record: type, table: Mapping[str, object], where: str) -> object:
    """Build a dataclass from a table, refusing what it does not know."""
    annotations = typing.get_type_hints(record)
    fields = {field.name: field for field in dataclasses.fields(record)}
    for key in table:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(fields)}"
            raise ConfigurationError(f"{where}: unknown key {key!r}{hint}")
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = _parse_value(annotations[name], table[name], f"{where}: {name}")
        elif field.default is dataclasses.MISSING:
            raise ConfigurationError(f"{where}: key {name!r} is missing")
    built: object = record(**values)
    return built


def _parse_value(annotation: object, value: object, where: str) -> object:
    """Check one value against its annotation; an int may stand for a float, a bool for nothing else."""
    if isinstance(annotation, types.UnionType):
        (annotation,) = (kind for kind in typing.get_args(annotation) if kind is not types.NoneType)
    if typing.get_origin(annotation) is tuple:
        if not isinstance(value, list):
            raise ConfigurationError(f"{where}: {value!r} must be a list")
        item = typing.get_args(annotation)[0]
        return tuple(_parse_value(item, each, f"{where}[{index}]") for index, each in enumerate(value))
    if isinstance(annotation, type):
        if dataclasses.is_dataclass(annotation):
            if not isinstance(value, dict):
                raise ConfigurationError(f"{where}: {value!r} must be a table")
            return _parse_record(annotation, value, where)
        if issubclass(annotation, StrEnum):
            words = [member.value for member in annotation]
            if value not in words:
                raise ConfigurationError(f"{where}: {value!r} must be one of {', '.join(words)}")
            return annotation(value)
        if annotation is float and type(value) is int:
            return float(value)
        if type(value) is annotation:
            return value
        raise ConfigurationError(f"{where}: {value!r} must be of type {annotation.__name__}")
    raise TypeError(f"{where}: a profile cannot hold {annotation!r}")
