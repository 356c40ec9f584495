"""Published figures: literals are those of the documents that references.toml names."""

from __future__ import annotations

import pytest

from collector import profiles
from collector.errors import ConfigurationError
from collector.profiles import references
from collector.profiles.references import PowerBasis, Reference, ReferenceKind, TokenKind

# Millions of tokens a second for each megawatt, and joules a token, as printed beside the published rows.
PER_MEGAWATT = [
    ("inferencex-dsr1-8k1k-gb300-fp4", 18_131.6, 33.6, 8.63, 0.116),
    ("inferencex-dsr1-8k1k-b300-fp4", 15_868.1, 38.5, 7.31, 0.137),
    ("inferencex-dsr1-8k1k-gb200-fp4", 14_952.0, 36.9, 7.12, 0.140),
    ("inferencex-dsr1-8k1k-b200-fp4", 13_429.7, 33.5, 6.19, 0.162),
    ("inferencex-dsr1-8k1k-gb300-fp8", 8980.3, None, 4.28, 0.234),
    ("inferencex-dsr1-8k1k-mi355x-fp4", 4222.8, 108.1, 1.59, 0.628),
    ("inferencex-dsr1-8k1k-h200-fp8", 2453.9, 106.1, 1.42, 0.705),
    ("inferencex-dsr1-8k1k-h100-fp8", 850.1, 25.1, 0.491, 2.04),
]


def found(reference_id: str) -> Reference:
    own = references.by_id(reference_id)
    assert own is not None
    return own


@pytest.mark.parametrize(("reference_id", "per_gpu", "milliseconds", "per_megawatt", "joules"), PER_MEGAWATT)
def test_rows_of_inferencex(
    reference_id: str, per_gpu: float, milliseconds: float | None, per_megawatt: float, joules: float
) -> None:
    own = found(reference_id)
    assert (own.prompt_tokens, own.generation_tokens) == (8192, 1024)
    assert (own.token_kind, own.power_basis) == (TokenKind.TOTAL, PowerBasis.PROVISIONED)
    assert own.tokens_per_second_per_gpu == per_gpu
    assert own.tokens_per_second_per_megawatt is not None
    assert own.tokens_per_second_per_megawatt / 1e6 == pytest.approx(per_megawatt, abs=0.005)
    assert 1e6 / own.tokens_per_second_per_megawatt == pytest.approx(joules, rel=0.005)
    if milliseconds is None:
        assert own.seconds_per_output_token is None
    else:
        assert own.seconds_per_output_token == pytest.approx(milliseconds / 1000)


@pytest.mark.parametrize(
    ("per_user", "per_gpu", "usd"), [(42, 266.3, 1.37), (71, 73.4, 4.86), (100, 23.3, 15.69)]
)
def test_h100_by_interactivity(per_user: int, per_gpu: float, usd: float) -> None:
    own = found(f"inferencex-dsr1-1k1k-h100-fp8-{per_user}")
    assert own.tokens_per_second_per_user == pytest.approx(per_user, abs=0.001)
    assert (own.tokens_per_second_per_gpu, own.usd_per_million_tokens) == (per_gpu, usd)
    assert (own.prompt_tokens, own.generation_tokens) == (1024, 1024)


def test_scaling_and_claims() -> None:
    assert [
        (own.id, own.racks, own.ratio) for own in references.load() if own.kind is ReferenceKind.SCALING
    ] == [
        # 8,661 / 9,821 and 5,400 / 8,064 tok/s/GPU; 99 % as told
        ("mlperf-v60-dsr1-gb300-offline-4-racks", 4, 0.88),
        ("mlperf-v60-dsr1-gb300-server-4-racks", 4, 0.67),
        ("mlperf-v61-scaling-4-racks", 4, 0.99),
    ]
    claims = [own.ratio for own in references.load() if own.kind is ReferenceKind.CLAIM]
    assert claims == [6.5, 50, 35, 1.53, 3.7, 2.5, 1.6, 30]


def test_every_figure_names_its_source_and_conditions() -> None:
    assert len(references.load()) == 24
    for own in references.load():
        assert own.source, own.id
        assert own.conditions, own.id
        assert own.title.isascii(), own.id


# GPU_SPECS of InferenceX: kW for each GPU.
@pytest.mark.parametrize(
    ("platform", "watts"),
    [
        ("gb300-nvl72", 2100),
        ("gb200-nvl72", 2100),
        ("hgx-b200", 2170),
        ("hgx-h200", 1730),
        ("hgx-h100", 1730),
    ],
)
def test_each_platform_has_one_provisioned_power(platform: str, watts: float) -> None:
    assert references.provisioned_watts_per_gpu(platform, references.load()) == watts
    powers = {own.provisioned_watts_per_gpu for own in references.load() if own.platform == platform}
    assert powers - {None} == {watts}


def test_every_platform_is_there() -> None:
    assert {own.platform for own in references.load()} - {""} == set(profiles.names())
    assert references.provisioned_watts_per_gpu("", references.load()) is None
    assert references.by_id("no-such") is None
    assert references.load() is references.load()


GOOD: dict[str, object] = {
    "id": "a",
    "kind": "throughput",
    "title": "A",
    "source": "a document",
    "conditions": "some",
    "hardware": "H100",
    "token_kind": "total",
    "power_basis": "provisioned",
    "tokens_per_second_per_gpu": 1.0,
    "provisioned_watts_per_gpu": 2.0,
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": "green"}, "reference 0: unknown key 'colour'"),
        ({"model": 3}, "model: 3 must be of type str"),
        ({"token_kind": "decode"}, "'decode' must be one of generation, total"),
        ({"platform": "gb300"}, "reference 'a': platform 'gb300' is none of"),
        ({"ratio": 2.0}, "throughput needs tokens_per_second_per_gpu alone"),
        ({"kind": "claim"}, "claim needs ratio alone"),
        ({"racks": 4}, "`racks` belongs to scaling"),
        ({"power_basis": "none"}, "`provisioned_watts_per_gpu` belongs to the power basis"),
        ({"prompt_tokens": 1024}, "are stated together"),
    ],
)
def test_a_wrong_figure_is_refused(changes: dict[str, object], said: str) -> None:
    assert references.parse_references({"reference": [GOOD]}, "x.toml")[0].id == "a"
    with pytest.raises(ConfigurationError, match=said):
        references.parse_references({"reference": [GOOD | changes]}, "x.toml")


def test_a_wrong_document_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="its id stands twice"):
        references.parse_references({"reference": [GOOD, GOOD]}, "x.toml")
    for wrong in ({}, {"reference": GOOD}, {"reference": [], "other": 1}):
        with pytest.raises(ConfigurationError, match="tables \\[\\[reference\\]\\] and nothing else"):
            references.parse_references(wrong, "x.toml")
    with pytest.raises(ConfigurationError, match="reference 0: 3 must be a table"):
        references.parse_references({"reference": [3]}, "x.toml")
    missing = {key: value for key, value in GOOD.items() if key != "source"}
    with pytest.raises(ConfigurationError, match="key 'source' is missing"):
        references.parse_references({"reference": [missing]}, "x.toml")
