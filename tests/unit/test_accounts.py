"""What the agent says of itself: sums over all readers, and Xids by GPU and number."""

from __future__ import annotations

from collector.accounts import Accounts
from collector.catalog.node import READ_ERRORS
from collector.model import Value
from collector.readings import Reading, SeriesKey


def rows(accounts: Accounts, ages: dict[str, float | None] | None = None) -> dict[SeriesKey, Value | None]:
    return {(series.metric.name, series.labels): value for series, value in accounts.rows(ages or {})}


def test_everything_counts_from_zero() -> None:
    told = rows(Accounts())
    assert told["agent_nvml_up", ()] == 0
    assert told["agent_reader_restarts_total", ()] == 0
    assert told["agent_nvml_calls_total", ()] == 0
    assert {told["agent_read_errors_total", (error,)] for error in READ_ERRORS} == {0}
    for cadence in ("fast", "links", "slow"):
        assert told["agent_sample_age_seconds", (cadence,)] is None
        assert told["agent_sweep_seconds", (cadence,)] is None


def test_readings_add_up_and_the_last_sweep_stands() -> None:
    accounts = Accounts(up=True, restarts=2)
    first = Reading(1.0, 1, True, calls=30, errors={"timeout": 2}, sweep_seconds={"fast": 0.25, "slow": 0.5})
    accounts.add(first)
    accounts.add(Reading(2.0, 1, True, calls=12, errors={"timeout": 1}, sweep_seconds={"fast": 0.125}))
    told = rows(accounts, {"fast": 0.75, "links": None})
    assert told["agent_nvml_up", ()] == 1
    assert told["agent_reader_restarts_total", ()] == 2
    assert told["agent_nvml_calls_total", ()] == 42
    assert told["agent_read_errors_total", ("timeout",)] == 3
    assert told["agent_sweep_seconds", ("fast",)] == 0.125
    assert told["agent_sweep_seconds", ("slow",)] == 0.5
    assert told["agent_sample_age_seconds", ("fast",)] == 0.75


def test_an_error_that_nobody_named_counts_as_other() -> None:
    accounts = Accounts()
    accounts.add(Reading(1.0, 1, True, errors={"invented": 5, 'a"b': 1, "other": 1}))
    told = rows(accounts)
    assert told["agent_read_errors_total", ("other",)] == 7
    assert {labels for name, labels in told if name == "agent_read_errors_total"} == {
        (error,) for error in READ_ERRORS
    }


def test_an_xid_is_born_on_first_sight_and_then_counts() -> None:
    accounts = Accounts()
    assert accounts.see_xid("0", "GPU-aaaa", 79, 5_000_000_000)
    assert not accounts.see_xid("0", "GPU-aaaa", 79, 7_500_000_000)
    assert not accounts.see_xid("0", "GPU-aaaa", 79, 6_000_000_000)  # told late, it happened before
    assert accounts.see_xid("1", "GPU-bbbb", 79, 8_000_000_000)
    told = rows(accounts)
    assert told["gpu_xid_total", ("0", "GPU-aaaa", "79")] == 3
    assert told["gpu_xid_last_seen_timestamp_seconds", ("0", "GPU-aaaa", "79")] == 7.5
    assert told["gpu_xid_total", ("1", "GPU-bbbb", "79")] == 1
