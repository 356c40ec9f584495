"""Schemathesis: what the OpenAPI document allows is answered as it says; what it does not is no 5xx.

Requests go through the application's own door; nothing leaves the process.
"""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from exporters.rest.app import create_app
from exporters.rest.settings import RestSettings
from tests.rest_double import ServiceDouble
from tests.rest_literals import TOKEN

KNOWN = {"rack": "r01", "node": "n07", "gpu_uuid": "GPU-n07-2", "window_id": "m-1", "baseline_id": "b-1"}

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(ServiceDouble(), RestSettings()))

bounded = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

ALWAYS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schema.parametrize()
@bounded
def test_the_service_does_what_its_document_says(case: Case[APIOperation[Any, Any, Any, Any]]) -> None:
    case.call_and_validate(checks=[*ALWAYS, negative_data_rejection])


@schema.parametrize()
@bounded
def test_it_does_so_for_what_is_there_and_who_may_write(
    case: Case[APIOperation[Any, Any, Any, Any]], app: FastAPI
) -> None:
    case.path_parameters = {name: KNOWN[name] for name in case.path_parameters or {}}
    if isinstance(case.body, dict) and "rack" in case.body:
        case.body["rack"] = "r01"
    case.call_and_validate(app=app, headers={"Authorization": f"Bearer {TOKEN}"}, checks=ALWAYS)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    file = tmp_path_factory.mktemp("rest") / "api.token"
    file.write_text(TOKEN)
    return create_app(ServiceDouble(), RestSettings(api_token_file=str(file)))
