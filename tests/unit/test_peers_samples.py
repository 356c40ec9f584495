"""Values of a node, made into Samples for whom asks."""

from __future__ import annotations

import pytest

from collector.catalog import BY_NAME
from collector.health.samples import NO_SAMPLES, Samples, SampleTable
from collector.model import Sample

POWER, LINK_UP = BY_NAME["gpu_power_watts"], BY_NAME["nvlink_up"]
EXPECTED = BY_NAME["node_gpus_expected"]
TABLE = SampleTable(
    (POWER, POWER, None, LINK_UP, EXPECTED),
    (("0", "GPU-a"), ("1", "GPU-b"), (), ("1", "GPU-b", "17"), ()),
)
SAMPLES = Samples(TABLE, [412.3, None, 9, 1, 2])


def test_present_values_of_known_metrics_are_samples() -> None:
    assert list(SAMPLES) == [
        Sample(POWER, ("0", "GPU-a"), 412.3),
        Sample(LINK_UP, ("1", "GPU-b", "17"), 1),
        Sample(EXPECTED, (), 2),
    ]


def test_a_gpu_has_its_own_and_its_links() -> None:
    assert list(SAMPLES.of_gpu("GPU-b")) == [Sample(LINK_UP, ("1", "GPU-b", "17"), 1)]
    assert list(SAMPLES.of_gpu("GPU-a")) == [Sample(POWER, ("0", "GPU-a"), 412.3)]
    assert list(SAMPLES.of_gpu("GPU-z")) == []


def test_a_metric_has_all_of_its_series() -> None:
    assert TABLE.of_metric("gpu_power_watts") == (0, 1)
    assert TABLE.of_metric("gpu_power_watts") is TABLE.of_metric("gpu_power_watts")
    assert TABLE.of_metric("llm_up") == ()
    assert list(SAMPLES.of_metric("gpu_power_watts")) == [Sample(POWER, ("0", "GPU-a"), 412.3)]
    assert list(SAMPLES.of_metric("nvlink_up")) == [Sample(LINK_UP, ("1", "GPU-b", "17"), 1)]
    assert list(SAMPLES.of_metric("llm_up")) == []


def test_one_value_is_found_by_name_and_labels() -> None:
    assert SAMPLES.value("gpu_power_watts", "0", "GPU-a") == 412.3
    assert SAMPLES.value("gpu_power_watts", "1", "GPU-b") is None
    assert SAMPLES.value("gpu_power_watts", "7", "GPU-z") is None
    assert SAMPLES.value("node_gpus_expected") == 2


def test_values_must_fit_their_table() -> None:
    with pytest.raises(ValueError, match="1 values, but 5 series"):
        Samples(TABLE, [1])
    with pytest.raises(ValueError, match="1 metrics, but 0 sets of labels"):
        SampleTable((POWER,), ())


def test_nothing_is_an_empty_set() -> None:
    assert list(NO_SAMPLES) == []
    assert list(NO_SAMPLES.of_metric("gpu_power_watts")) == []
