"""Input power of a shelf, from literal documents in the shape of DMTF's schemas."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from aiohttp import web

from collector.sources.redfish.client import RedfishClient
from collector.sources.redfish.shelf_watch import PLAN_SECONDS, ShelfReader
from collector.sources.redfish.target import RedfishError
from tests.agent_http_client import Clock, run
from tests.redfish_services import (
    PATIENT,
    ROOT,
    SHELF,
    SUPPLIES,
    Answer,
    Document,
    LiteralService,
    collection,
    link,
    metrics,
    ocp_shelf,
    reading,
    serving,
    supply,
    target,
    without,
)


def watts_of(documents: Mapping[str, Document]) -> float:
    """Read a shelf once."""
    found: list[float] = []

    async def scenario() -> None:
        async with reading(LiteralService(documents)) as reader:
            found.append(await reader.watts())

    run(scenario)
    return found[0]


def error_of(documents: Mapping[str, Document]) -> str:
    with pytest.raises(RedfishError) as caught:
        watts_of(documents)
    return str(caught.value)


# The ways, in their order.


def test_the_supplies_are_summed_and_nothing_is_added_to_them() -> None:
    # 937.4 + 942.1; the 6,438 W of EnvironmentMetrics are the same power again, or another one.
    assert watts_of(ocp_shelf()) == pytest.approx(1879.5)


def test_without_supply_metrics_the_chassis_tells() -> None:
    documents = ocp_shelf()
    for number in "12":
        del documents[f"{SUPPLIES}/{number}"]["Metrics"]
    assert watts_of(documents) == 6438


def test_metrics_that_are_named_but_not_there_are_none() -> None:
    gone = (f"{SUPPLIES}/{number}/Metrics" for number in "12")
    assert watts_of(without(ocp_shelf(), *gone)) == 6438


def test_metrics_without_input_power_are_none() -> None:
    # IBM's controllers had nothing but a history of their own there (ibm-openbmc/dev issue 1815).
    documents = ocp_shelf()
    for number in "12":
        documents[f"{SUPPLIES}/{number}/Metrics"] = {"Oem": {"IBM": {"InputPowerHistoryItems": []}}}
    assert watts_of(documents) == 6438


def liteon_shelf() -> dict[str, Document]:
    """A LITE-ON shelf, with states and sensor names of a capture (LambdaLabs/redfish_exporter, docs)."""
    shelf = f"{ROOT}/Chassis/powershelf"
    supplies = f"{shelf}/PowerSubsystem/PowerSupplies"
    return {
        ROOT: {"Chassis": link(f"{ROOT}/Chassis")},
        f"{ROOT}/Chassis": collection(f"{ROOT}/Chassis/chassis", shelf),
        # The same shelf under a second name, with nothing in it.
        f"{ROOT}/Chassis/chassis": {"Sensors": link(f"{ROOT}/Chassis/chassis/Sensors")},
        f"{ROOT}/Chassis/chassis/Sensors": collection(),
        shelf: {
            "Manufacturer": "LITE-ON TECHNOLOGY CORP.",
            "PowerSubsystem": link(f"{shelf}/PowerSubsystem"),
            "Sensors": link(f"{shelf}/Sensors"),
        },
        f"{shelf}/PowerSubsystem": {"PowerSupplies": link(supplies)},
        supplies: collection(f"{supplies}/0"),
        # A state that DMTF does not know, and a power state of another type than anywhere else.
        f"{supplies}/0": {
            **link(f"{supplies}/0"),
            "Id": "0",
            "PowerState": True,
            "Status": {"State": "Standby", "Health": "OK"},
        },
        f"{shelf}/Sensors": collection(
            f"{shelf}/Sensors/power_p0_pin",
            f"{shelf}/Sensors/power_chassis_output_power",
            f"{shelf}/Sensors/power_chassis_input_power",
        ),
        f"{shelf}/Sensors/power_chassis_input_power": {
            "Id": "chassis_input_power",
            "ReadingType": "Power",
            "ReadingUnits": "W",
            "Reading": 4321.5,
        },
    }


def test_a_shelf_of_liteon_tells_by_a_sensor() -> None:
    assert watts_of(liteon_shelf()) == 4321.5


def test_a_shelf_of_delta_tells_by_a_sensor() -> None:
    # 1,749 W as captured (LambdaLabs/redfish_exporter, tests of the power shelf collector).
    documents = ocp_shelf()
    for number in "12":
        del documents[f"{SUPPLIES}/{number}"]["Metrics"]
    documents[SHELF]["Sensors"] = link(f"{SHELF}/Sensors")
    documents[f"{SHELF}/Sensors"] = collection(
        f"{SHELF}/Sensors/ps1_input_power", f"{SHELF}/Sensors/total_power_in"
    )
    documents[f"{SHELF}/Sensors/total_power_in"] = {"ReadingUnits": "W", "Reading": 1749}
    assert watts_of(documents) == 1749


def test_a_sensor_of_another_unit_is_refused() -> None:
    documents = liteon_shelf()
    sensor = f"{ROOT}/Chassis/powershelf/Sensors/power_chassis_input_power"
    documents[sensor]["ReadingUnits"] = "kW"
    assert error_of(documents) == f"{sensor}: the sensor reads in 'kW', not in W"


def old_shelf(**members: object) -> dict[str, Document]:
    """A shelf of before 2020: `Power` in one resource."""
    return {
        ROOT: {"Chassis": link(f"{ROOT}/Chassis")},
        f"{ROOT}/Chassis": collection(SHELF),
        SHELF: {"Power": link(f"{SHELF}/Power")},
        f"{SHELF}/Power": {"@odata.type": "#Power.v1_7_1.Power", **members},
    }


def test_an_old_shelf_tells_by_its_power_control() -> None:
    # 900 W is what the supply of 750 W is rated at its input (influxdata/telegraf issue 9575).
    supplies = [{"PowerInputWatts": 900, "Status": {"State": "Enabled"}}]
    control = [{"PowerConsumedWatts": 135}, {"PowerConsumedWatts": 60}]
    assert watts_of(old_shelf(PowerControl=control, PowerSupplies=supplies)) == 135


def test_an_old_shelf_without_power_control_tells_by_its_supplies() -> None:
    supplies = [
        {"PowerInputWatts": 500, "Status": {"State": "Enabled"}},
        {"PowerInputWatts": 510.5, "Status": None},
        {"PowerInputWatts": None, "Status": {"State": "Absent"}},
    ]
    assert watts_of(old_shelf(PowerControl=[{"PowerConsumedWatts": None}], PowerSupplies=supplies)) == 1010.5


def test_an_old_shelf_of_which_one_supply_is_silent_tells_nothing() -> None:
    supplies = [{"PowerInputWatts": 500}, {"PowerInputWatts": None}]
    assert error_of(old_shelf(PowerSupplies=supplies)).startswith("nothing tells the input power")


# Supplies that are not there, and those that say nothing.


@pytest.mark.parametrize("state", ["Absent", "Disabled", "StandbyOffline", "UnavailableOffline"])
def test_a_supply_that_draws_nothing_is_passed_over(state: str) -> None:
    documents = ocp_shelf() | {
        f"{SUPPLIES}/2": supply("2", state),
        f"{SUPPLIES}/2/Metrics": metrics("2", None),
    }
    assert watts_of(documents) == 937.4


@pytest.mark.parametrize("state", ["Enabled", "StandbySpare", "Degraded", "Sleep", None])
def test_a_supply_that_may_draw_power_and_tells_none_makes_the_shelf_unknown(state: str | None) -> None:
    documents = ocp_shelf() | {
        f"{SUPPLIES}/2": supply("2", state),
        f"{SUPPLIES}/2/Metrics": metrics("2", None),
    }
    assert error_of(documents) == f"{SUPPLIES}/2/Metrics: power supply 2 tells no input power now"


def test_a_supply_without_metrics_beside_one_with_them_makes_the_shelf_unknown() -> None:
    documents = ocp_shelf()
    del documents[f"{SUPPLIES}/2"]["Metrics"]
    assert error_of(documents) == f"{SUPPLIES}/2: power supply 2 tells no input power now"


def test_a_shelf_without_any_supply_is_not_zero() -> None:
    documents = without(ocp_shelf(), f"{SHELF}/EnvironmentMetrics")
    for number in "12":
        documents[f"{SUPPLIES}/{number}"] = supply(number, "Absent")
    assert error_of(documents).startswith("nothing tells the input power")


def test_supplies_that_share_their_metrics_make_the_shelf_unknown() -> None:
    documents = ocp_shelf()
    documents[f"{SUPPLIES}/2"]["Metrics"] = link(f"{SUPPLIES}/1/Metrics")
    assert error_of(documents) == f"{SHELF}: several power supplies name the same metrics as theirs"


@pytest.mark.parametrize("value", [-1, 2e6])
def test_a_power_that_cannot_be_is_refused(value: float) -> None:
    documents = ocp_shelf() | {f"{SUPPLIES}/1/Metrics": metrics("1", value)}
    assert error_of(documents).startswith(f"{SUPPLIES}/1/Metrics: a power of ")


# Several chassis.


def second_chassis(serial: str | None, **more: object) -> dict[str, Document]:
    """A second chassis of the service, with a supply of its own that has no metrics."""
    other = f"{ROOT}/Chassis/other"
    return {
        f"{ROOT}/Chassis": collection(SHELF, other),
        other: {"SerialNumber": serial, "PowerSubsystem": link(f"{other}/PowerSubsystem"), **more},
        f"{other}/PowerSubsystem": {"PowerSupplies": link(f"{other}/Supplies")},
        f"{other}/Supplies": collection(f"{other}/Supplies/1"),
        f"{other}/Supplies/1": {**link(f"{other}/Supplies/1"), "Id": "1"},
    }


def test_two_shelves_of_one_service_are_summed() -> None:
    other = f"{ROOT}/Chassis/other"
    documents = ocp_shelf() | second_chassis("another")
    documents[f"{other}/Supplies/1"]["Metrics"] = link(f"{other}/Metrics")
    documents[f"{other}/Metrics"] = metrics("1", 1000.5)
    assert watts_of(documents) == pytest.approx(2880.0)


def test_a_second_name_of_the_same_chassis_counts_once() -> None:
    other = f"{ROOT}/Chassis/other"
    documents = ocp_shelf() | second_chassis("SERIAL NUMBER STRING")
    documents[f"{other}/Supplies/1"]["Metrics"] = link(f"{other}/Metrics")
    documents[f"{other}/Metrics"] = metrics("1", 1000.5)
    assert watts_of(documents) == pytest.approx(1879.5)


def test_the_same_supplies_under_two_chassis_count_once() -> None:
    documents = ocp_shelf() | second_chassis("another")
    documents[f"{ROOT}/Chassis/other/PowerSubsystem"]["PowerSupplies"] = link(SUPPLIES)
    assert watts_of(documents) == pytest.approx(1879.5)


@pytest.mark.parametrize("serial", [None, "", "SERIAL NUMBER STRING"])
def test_a_chassis_that_tells_nothing_and_may_be_a_second_name_is_passed_over(serial: str | None) -> None:
    assert watts_of(ocp_shelf() | second_chassis(serial)) == pytest.approx(1879.5)


def test_a_chassis_of_its_own_that_tells_nothing_makes_the_sum_unknown() -> None:
    said = error_of(ocp_shelf() | second_chassis("another"))
    assert said.startswith(f"{ROOT}/Chassis/other: its power supplies do not tell their input power as those")
    assert said.endswith("a sum without them would be too small")


def test_a_chassis_within_another_is_part_of_its_power() -> None:
    other = f"{ROOT}/Chassis/other"
    documents = ocp_shelf() | second_chassis(
        "another", EnvironmentMetrics=link(f"{other}/Environment"), Links={"ContainedBy": link(SHELF)}
    )
    documents[f"{other}/Environment"] = {"PowerWatts": {"Reading": 1000}}
    for number in "12":
        del documents[f"{SUPPLIES}/{number}"]["Metrics"]
    assert watts_of(documents) == 6438


# What is remembered.


def test_where_it_stands_is_found_out_once() -> None:
    async def scenario() -> None:
        service = LiteralService(ocp_shelf())
        async with reading(service) as reader:
            await reader.watts()
            service.requests.clear()
            service.documents[f"{SUPPLIES}/1/Metrics"] = metrics("1", 1000)
            assert await reader.watts() == pytest.approx(1942.1)
            assert service.requests == [SUPPLIES, f"{SUPPLIES}/1/Metrics", f"{SUPPLIES}/2/Metrics"]

    run(scenario)


@pytest.mark.parametrize("own", [{}, link(f"{SUPPLIES}/Bay1"), link(f"{SUPPLIES}/1/")])
def test_a_supply_may_call_itself_otherwise_than_its_collection_does(own: Document) -> None:
    async def scenario() -> None:
        documents = ocp_shelf()
        del documents[f"{SUPPLIES}/1"]["@odata.id"]
        documents[f"{SUPPLIES}/1"] |= own
        # Served as it is: the simulated server would put the right path in.
        service = LiteralService({})
        service.answer = verbatim(documents)
        async with reading(service) as reader:
            assert await reader.watts() == pytest.approx(1879.5)
            service.requests.clear()
            assert await reader.watts() == pytest.approx(1879.5)
            assert len(service.requests) == 3

    run(scenario)


def verbatim(documents: Mapping[str, Document]) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(documents[request.path.rstrip("/")])

    return answer


def test_a_supply_that_is_plugged_in_counts_at_once() -> None:
    async def scenario() -> None:
        service = LiteralService(ocp_shelf())
        async with reading(service) as reader:
            await reader.watts()
            paths = [f"{SUPPLIES}/{number}" for number in "123"]
            service.documents |= {
                SUPPLIES: collection(*paths),
                paths[2]: supply("3"),
                f"{paths[2]}/Metrics": metrics("3", 100.5),
            }
            assert await reader.watts() == pytest.approx(1980.0)

    run(scenario)


def test_a_supply_that_is_switched_on_counts_at_once() -> None:
    async def scenario() -> None:
        service = LiteralService(ocp_shelf() | {f"{SUPPLIES}/2": supply("2", "StandbyOffline")})
        async with reading(service) as reader:
            assert await reader.watts() == 937.4
            assert await reader.watts() == 937.4
            service.documents[f"{SUPPLIES}/2"] = supply("2")
            assert await reader.watts() == pytest.approx(1879.5)

    run(scenario)


def test_a_supply_that_is_pulled_is_passed_over_after_one_reading_without_it() -> None:
    async def scenario() -> None:
        service = LiteralService(ocp_shelf())
        async with reading(service) as reader:
            await reader.watts()
            service.documents[f"{SUPPLIES}/2"] = supply("2", "Absent")
            del service.documents[f"{SUPPLIES}/2/Metrics"]
            with pytest.raises(RedfishError, match="power supply 2 tells no input power now"):
                await reader.watts()
            assert await reader.watts() == 937.4

    run(scenario)


def test_after_an_hour_it_is_found_out_anew() -> None:
    async def scenario() -> None:
        clock = Clock()
        service = LiteralService(ocp_shelf())
        async with serving(service):
            client = RedfishClient(target(service), PATIENT)
            reader = ShelfReader(client, monotonic=clock)
            await reader.watts()
            clock.seconds += PLAN_SECONDS + 1
            service.requests.clear()
            await reader.watts()
            await client.close()
            assert service.requests[0] == f"{ROOT}/"

    run(scenario)


# Collections.


def test_members_of_all_pages_count() -> None:
    documents = ocp_shelf()
    documents[SUPPLIES] = collection(f"{SUPPLIES}/1", **{"Members@odata.nextLink": f"{SUPPLIES}/page-2"})
    documents[f"{SUPPLIES}/page-2"] = collection(f"{SUPPLIES}/2")
    assert watts_of(documents) == pytest.approx(1879.5)


@pytest.mark.parametrize(("no_links", "asked"), [(True, 1), (False, 0)])
def test_collections_are_expanded_only_where_that_is_advertised(no_links: bool, asked: int) -> None:
    async def scenario() -> None:
        documents = ocp_shelf()
        documents[ROOT]["ProtocolFeaturesSupported"] = {
            "ExpandQuery": {"NoLinks": no_links, "ExpandAll": True}
        }
        documents[SUPPLIES] = {"Members": [supply("1"), supply("2")]}
        service = LiteralService(documents)
        async with reading(service) as reader:
            assert await reader.watts() == pytest.approx(1879.5)
            assert service.requests.count(f"{SUPPLIES}?$expand=.") == asked
            assert (f"{SUPPLIES}/1" in service.requests) is not no_links

    run(scenario)
