"""The OpenAPI document describes what is served, with examples that are right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from collector import catalog
from collector.catalog.checks import GPU_CHECKS, NODE_CHECKS
from exporters.rest.app import create_app
from exporters.rest.examples import EXAMPLES
from exporters.rest.models.baselines import BaselineRequest
from exporters.rest.models.maintenance import WindowRequest
from exporters.rest.problems import Problem
from exporters.rest.settings import RestSettings
from tests.golden.rest_bodies import BODIES
from tests.rest_client import ask
from tests.rest_double import ServiceDouble

APP = create_app(ServiceDouble(), RestSettings())
DOCUMENT: dict[str, Any] = ask(APP, "/openapi.json").json()
ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "rest"

# CONTRACTS §5, without what comes later; and baselines, which it does not have.
PATHS = {
    *("/v1/racks", "/v1/racks/{rack}", "/v1/racks/{rack}/health", "/v1/racks/{rack}/availability"),
    *("/v1/racks/{rack}/efficiency", "/v1/baselines", "/v1/baselines/{baseline_id}"),
    *("/v1/racks/{rack}/nodes", "/v1/nodes/{node}", "/v1/gpus/{gpu_uuid}", "/v1/domains", "/v1/events"),
    *("/v1/maintenance", "/v1/maintenance/{window_id}", "/sd/prometheus", "/metrics"),
    *("/-/healthy", "/-/ready"),
}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Put a schema beside the components that it refers to."""
    return {**schema, "components": DOCUMENT["components"]}


def test_the_paths_are_those_of_the_contract() -> None:
    assert set(DOCUMENT["paths"]) == PATHS


def test_the_paths_are_those_of_the_page_about_them() -> None:
    page = (ROOT / "docs" / "rest.md").read_text("utf-8")
    named = set(re.findall(r"`(/[^`?]*)`", page.partition("## Paths")[2].partition("## Conventions")[0]))
    later = {"/v1/topology", "/"}
    assert named - later == PATHS


def test_every_operation_has_a_summary_and_a_description() -> None:
    for path, method, operation in operations():
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)


def test_operations_are_called_after_what_they_do() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and "__" not in name for name in names)


@pytest.mark.parametrize("body", EXAMPLES, ids=lambda body: body.__name__)
def test_an_example_is_what_its_schema_allows(body: type[BaseModel]) -> None:
    example = json.loads(json.dumps(EXAMPLES[body]))
    schema = resolved({"$ref": f"#/components/schemas/{body.__name__}"})
    jsonschema_rs.validator_for(schema, validate_formats=True).validate(example)
    assert json.loads(body.model_validate(example).model_dump_json()) == example


@pytest.mark.parametrize("model", [Problem, WindowRequest, BaselineRequest])
def test_examples_of_problems_and_requests_are_right(model: type[BaseModel]) -> None:
    schema = DOCUMENT["components"]["schemas"][model.__name__]
    assert schema["examples"]
    for example in schema["examples"]:
        jsonschema_rs.validator_for(resolved(schema), validate_formats=True).validate(example)
        model.model_validate(example)


def test_examples_name_checks_and_metrics_that_exist() -> None:
    text = json.dumps([EXAMPLES[body] for body in EXAMPLES])
    checks = set(re.findall(r'"check": "(\w+)"', text))
    assert checks - {"maintenance"} - {check.id for check in (*GPU_CHECKS, *NODE_CHECKS)} == set()
    assert set(re.findall(r"rackwatt_\w+", text)) - {metric.exposed_name for metric in catalog.ALL} == set()


def test_every_json_answer_has_a_schema_and_an_example() -> None:
    for path, method, operation in operations():
        for status, answer in operation["responses"].items():
            for media, content in answer.get("content", {}).items():
                assert content["schema"], (method, path, status)
                if media == "application/json":
                    assert "example" in content, (method, path, status)


def test_every_reference_leads_somewhere() -> None:
    references = {
        part.split('"')[0] for part in json.dumps(DOCUMENT).split('"$ref": "#/components/schemas/')[1:]
    }
    assert references - set(DOCUMENT["components"]["schemas"]) == set()


def test_errors_are_problems_everywhere() -> None:
    assert "HTTPValidationError" not in json.dumps(DOCUMENT)
    for path, method, operation in operations():
        for status, answer in operation["responses"].items():
            if status >= "400" and path != "/-/ready":
                assert list(answer["content"]) == ["application/problem+json"], (method, path, status)


def test_only_writes_ask_for_the_token() -> None:
    secured = {(method, path) for path, method, operation in operations() if operation.get("security")}
    assert secured == {
        ("post", "/v1/maintenance"),
        ("delete", "/v1/maintenance/{window_id}"),
        ("post", "/v1/baselines"),
        ("delete", "/v1/baselines/{baseline_id}"),
    }


@pytest.mark.parametrize("name", BODIES)
def test_a_golden_body_is_what_its_schema_allows(name: str) -> None:
    path = BODIES[name].partition("?")[0]
    body = json.loads((GOLDEN / name).read_text("utf-8"))
    for known in PATHS:
        if known.count("/") == path.count("/") and all(
            own == given or own.startswith("{")
            for own, given in zip(known.split("/"), path.split("/"), strict=True)
        ):
            operation = DOCUMENT["paths"][known]["get"]
    is_problem = name == "problem.json"
    answer = operation["responses"]["409" if is_problem else "200"]
    schema = answer["content"]["application/problem+json" if is_problem else "application/json"]["schema"]
    jsonschema_rs.validator_for(resolved(schema), validate_formats=True).validate(body)


def test_the_document_needs_nothing_from_elsewhere() -> None:
    assert "cdn" not in json.dumps(DOCUMENT).lower()
    assert "http://" not in json.dumps(DOCUMENT)
