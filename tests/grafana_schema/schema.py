"""Makes the schemas, and holds dashboards against them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import jsonschema_rs

SOURCES = Path(__file__).parent
_INPUTS = (".npmrc", "package.json", "package-lock.json", "tsconfig.json", "types.ts")
_CACHE = Path(sys.prefix) / "grafana-schema"
"""Beside the tests' own packages: `make clean` removes both."""

_NPM = ("npm", "ci", "--no-progress")
_GENERATE = (
    "node_modules/.bin/ts-json-schema-generator",
    *("--path", "types.ts", "--tsconfig", "tsconfig.json", "--type", "Grafana"),
    # Several kinds have a type called `Options`: none keeps its name.
    *("--expose", "none", "--no-type-check"),
)
_PATIENCE_SECONDS = 300.0
"""For 38 MB from a registry; it takes 3 s where that is near."""

Json = dict[str, Any]  # JSON of any shape, which is what a schema judges
Value = TypeVar("Value")


@dataclass(frozen=True)
class Schemas:
    """Validators.

    Attributes:
        dashboard: Of a whole dashboard; its panels are judged apart, so that errors say more.
        row: Of a row.
        panel: Of a panel, where its own parts are any objects.
        options: Of `options`, by kind of panel.
        custom: Of `fieldConfig.defaults.custom`, by kind of panel.
        overrides: Of one property of an override, by kind of panel: id and value.
    """

    dashboard: jsonschema_rs.Validator
    row: jsonschema_rs.Validator
    panel: jsonschema_rs.Validator
    options: Mapping[str, jsonschema_rs.Validator]
    custom: Mapping[str, jsonschema_rs.Validator]
    overrides: Mapping[str, jsonschema_rs.Validator]


def load() -> Schemas:
    """Return the validators; makes their schemas where that has not been done on this machine."""
    whole = json.loads(_schema_file().read_text("utf-8"))["definitions"]["Grafana"]["properties"]
    dashboard = _without_annotation_targets(whole["dashboard"])
    options = {kind: _nothing_required(part) for kind, part in whole["options"]["properties"].items()}
    custom = {kind: _nothing_required(part) for kind, part in whole["custom"]["properties"].items()}
    row, panel = _panel_schemas(dashboard)
    fields = panel["properties"]["fieldConfig"]["properties"]["defaults"]["properties"]
    return Schemas(
        jsonschema_rs.Draft7Validator(dashboard),
        jsonschema_rs.Draft7Validator(row),
        jsonschema_rs.Draft7Validator(panel),
        {kind: jsonschema_rs.Draft7Validator(part) for kind, part in options.items()},
        {kind: jsonschema_rs.Draft7Validator(part) for kind, part in custom.items()},
        {
            kind: jsonschema_rs.Draft7Validator(_override_schema(fields, part.get("properties", {})))
            for kind, part in custom.items()
        },
    )


def violations(schemas: Schemas, dashboard: Json) -> Iterator[str]:
    """Yield what Grafana's types do not allow in a dashboard, with the place where it stands."""
    yield from _errors(schemas.dashboard, dashboard, "dashboard")
    for row in dashboard["panels"]:
        if row["type"] == "row":
            yield from _errors(schemas.row, row, f"row {row['title']!r}")
    for panel in panels_of(dashboard):
        yield from _panel_violations(schemas, panel)


def panels_of(dashboard: Json) -> Iterator[Json]:
    """Yield every panel, those in folded rows too, and no rows."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def _panel_violations(schemas: Schemas, panel: Json) -> Iterator[str]:
    kind, where = panel["type"], f"panel {panel['title']!r}"
    yield from _errors(schemas.panel, panel, where)
    if kind not in schemas.options:
        yield f"{where}: no schema for the kind {kind!r}"
        return
    yield from _errors(schemas.options[kind], panel["options"], f"{where}: options")
    fields = panel.get("fieldConfig")
    if fields is None:
        return
    yield from _errors(schemas.custom[kind], fields["defaults"].get("custom", {}), f"{where}: custom")
    for override in fields["overrides"]:
        for changed in override["properties"]:
            yield from _errors(schemas.overrides[kind], {changed["id"]: changed.get("value")}, where)


def _errors(validator: jsonschema_rs.Validator, value: object, where: str) -> Iterator[str]:
    for error in validator.iter_errors(value):
        place = "/".join(str(step) for step in error.instance_path)
        yield f"{where}: {place}: {error.message[:300]}"


def _schema_file() -> Path:
    digest = hashlib.sha256()
    for name in _INPUTS:
        digest.update((SOURCES / name).read_bytes())
    made = _CACHE / f"{digest.hexdigest()[:16]}.json"
    if not made.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            _generate(Path(folder)).replace(made)
    return made


def _generate(folder: Path) -> Path:
    for name in _INPUTS:
        shutil.copy(SOURCES / name, folder)
    for command in (_NPM, (*_GENERATE, "--out", "schema.json")):
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, f"{command[0]} failed:\n{done.stderr[-2000:]}"
    return folder / "schema.json"


def _nothing_required(schema: Value) -> Value:
    """Drop every `required`: Grafana fills in what a panel does not say."""
    if isinstance(schema, dict):
        return cast(
            Value, {key: _nothing_required(value) for key, value in schema.items() if key != "required"}
        )
    if isinstance(schema, list):
        return cast(Value, [_nothing_required(value) for value in schema])
    return schema


def _without_annotation_targets(schema: Json) -> Json:
    """Let an annotation have a query of any data source.

    The type knows those of Grafana's own only, and says itself that this should be a normal target. The
    further keys are those of the Prometheus data source (its `PrometheusAnnotationSupport`).
    """
    annotation = schema["properties"]["annotations"]["properties"]["list"]["items"]["properties"]
    annotation["target"] = {"type": "object"}
    annotation["titleFormat"] = annotation["textFormat"] = {"type": "string"}
    return schema


def _panel_schemas(dashboard: Json) -> tuple[Json, Json]:
    """Take the types of rows and of panels out of that of a dashboard, which leaves any objects there."""
    kinds: list[Json] = dashboard["properties"]["panels"]["items"]["anyOf"]
    dashboard["properties"]["panels"]["items"] = {"type": "object"}
    (row,) = [kind for kind in kinds if "collapsed" in kind["properties"]]
    (panel,) = [kind for kind in kinds if "fieldConfig" in kind["properties"]]
    row["properties"]["panels"]["items"] = {"type": "object"}
    return row, panel


def _override_schema(fields: Json, custom: Json) -> Json:
    """An override sets what `defaults` has, and what `custom` has under that name."""
    own = {f"custom.{name}": part for name, part in custom.items()}
    return {"type": "object", "properties": {**fields, **own}, "additionalProperties": False}
