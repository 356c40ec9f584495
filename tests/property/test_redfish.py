"""Whatever a Redfish service answers: a power that it told, or an error; and never a request elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.redfish import RedfishTarget
from collector.sources.redfish.client import RedfishClient, check_path
from collector.sources.redfish.documents import (
    Chassis,
    Collection,
    ComputerSystem,
    EnvironmentMetrics,
    Power,
    PowerSupply,
    PowerSupplyMetrics,
    ServiceRoot,
    decode,
)
from collector.sources.redfish.shelf_plan import find_plan
from collector.sources.redfish.shelf_ways import NOT_DRAWING
from collector.sources.redfish.target import RedfishError
from tests.redfish_services import (
    ROOT,
    SUPPLIES,
    Document,
    collection,
    metrics,
    ocp_shelf,
    supply,
)

KINDS = [
    Chassis,
    Collection,
    ComputerSystem,
    EnvironmentMetrics,
    Power,
    PowerSupply,
    PowerSupplyMetrics,
    ServiceRoot,
]
STATES = st.sampled_from(["Enabled", "Absent", "StandbyOffline", "Disabled", "StandbySpare", "Standby", None])
WATTS = st.none() | st.floats(0, 10_000).map(lambda value: round(value, 1))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


class DocumentClient(RedfishClient):
    """A client of documents in memory."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        super().__init__(RedfishTarget(name="s", url="http://127.0.0.1"))
        self.documents = documents
        self.asked: list[str] = []

    async def _fetch(self, path: str) -> bytes:
        self.asked.append(path)
        try:
            return msgspec.json.encode(self.documents[path.rstrip("/")])
        except KeyError:
            raise RedfishError("the service has no such resource (status 404)") from None


def read(documents: Mapping[str, Any]) -> float:
    async def both() -> float:
        client = DocumentClient(documents)
        return await (await find_plan(client)).read(client)

    return asyncio.run(both())


@given(st.lists(st.tuples(STATES, WATTS), min_size=1, max_size=6))
def test_a_shelf_is_the_sum_of_what_draws_or_nothing(supplies: list[tuple[str | None, float | None]]) -> None:
    documents: dict[str, Document] = ocp_shelf()
    paths = [f"{SUPPLIES}/{number}" for number in range(len(supplies))]
    documents[SUPPLIES] = collection(*paths)
    for number, (state, power) in enumerate(supplies):
        documents[paths[number]] = supply(str(number), state)
        documents[f"{paths[number]}/Metrics"] = metrics(str(number), power)
    drawing = [power for state, power in supplies if state not in NOT_DRAWING]
    told = [power for power in drawing if power is not None]
    if not told:
        # Then the chassis tells: the 6,438 W of OCP's usage guide.
        assert read(documents) == 6438
    elif len(told) < len(drawing):
        with pytest.raises(RedfishError, match="tells no input power now"):
            read(documents)
    else:
        assert read(documents) == pytest.approx(sum(told))


@given(st.data())
def test_a_broken_resource_is_an_error_or_changes_nothing(data: st.DataObject) -> None:
    documents: dict[str, Any] = dict(ocp_shelf())
    path = data.draw(st.sampled_from(sorted(documents)))
    document = dict(documents[path])
    member = data.draw(st.sampled_from(sorted(document)))
    document[member] = data.draw(json_values)
    documents[path] = document
    try:
        value = read(documents)
    except RedfishError:
        return
    # The supplies, one of them where the other is said not to be there, or the chassis as a whole.
    assert any(value == pytest.approx(each) for each in (1879.5, 937.4, 942.1, 6438))


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=50) | json_values.map(msgspec.json.encode))
def test_decoding_gives_a_resource_or_an_error(kind: type[Any], body: bytes) -> None:
    try:
        resource = decode(body, kind)
    except RedfishError:
        return
    assert isinstance(resource, kind)


@given(st.text(alphabet="/.%2eE:@?#\\ abcredfish\r\n", max_size=30) | st.text(max_size=30))
def test_a_path_that_is_followed_stays_below_redfish_of_its_origin(rest: str) -> None:
    for path in (rest, f"/redfish/{rest}"):
        try:
            checked = check_path(path)
        except RedfishError:
            continue
        joined = urlsplit(urljoin("https://shelf-1/", checked))
        assert (joined.scheme, joined.netloc) == ("https", "shelf-1")
        assert joined.path.startswith("/redfish/")
        assert not any(each in checked for each in "\r\n\\# ")


@given(st.lists(st.sampled_from([ROOT, SUPPLIES, "/admin", "//x/redfish/v1"]), max_size=4))
def test_members_elsewhere_are_never_asked(paths: list[str]) -> None:
    client = DocumentClient(ocp_shelf() | {f"{ROOT}/Chassis": collection(*paths)})
    with pytest.raises(RedfishError):
        asyncio.run(find_plan(client))
    assert all(path.startswith("/redfish/") for path in client.asked)
