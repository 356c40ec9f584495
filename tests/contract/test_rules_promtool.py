"""The rules by Prometheus' own tools: lint, the cases of each alert, and figures against literals.

The figures are those of the case table in the facts on tokens, §6, and of the definitions in CONTRACTS §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dashboards.build import GENERATED
from dashboards.rules.files import rule_test_files
from tests.rule_figures import R01, RULES, SLO, Figures, endpoints, hold, joules, promtool, tokens

pytestmark = pytest.mark.needs_program("promtool")

TESTS = sorted(rule_test_files())


def test_promtool_finds_nothing_in_the_rules() -> None:
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("SUCCESS") == 2


@pytest.mark.parametrize("name", TESTS)
def test_every_alert_fires_and_rests_as_declared(name: str) -> None:
    result = promtool("test", "rules", str(GENERATED / name))
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_case_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    text = (GENERATED / "rule_tests/rackwatt-alerts-rack-1m.yaml").read_text("utf-8")
    (tmp_path / "rules").symlink_to(GENERATED / "rules")
    folder = tmp_path / "rule_tests"
    folder.mkdir()
    wrong = folder / "wrong.yaml"
    wrong.write_text(text.replace("Rack r01 is unavailable", "Rack r02 is unavailable"), "utf-8")
    assert promtool("test", "rules", str(wrong)).returncode == 1


# Figures.

PRICES = {
    f"rackwatt_rack_gpus_expected{{{R01}}}": "72+0x30",
    f"rackwatt_rack_gpu_hour_usd{{{R01}}}": "2.652+0x30",
    f"rackwatt_rack_electricity_usd_per_kwh{{{R01}}}": "0.08+0x30",
    f"rackwatt_rack_pue_ratio{{{R01}}}": "1.2+0x30",
}
INCLUDED = f"rackwatt_rack_gpu_hour_includes_energy{{{R01}}}"
PER_JOULE = "rack_domain:llm_generation_tokens_per_joule:ratio_rate5m"
KWH = "rack_domain:kwh_per_million_llm_generation_tokens:ratio_rate5m"
ENERGY_USD = "rack:energy_usd_per_million_llm_generation_tokens:ratio_rate5m"
ALL_IN_USD = "rack:all_in_usd_per_million_llm_generation_tokens:ratio_rate5m"
FULL = {**tokens(10_000), **joules(120_000), **endpoints(), **PRICES}
BLANK = dict.fromkeys((PER_JOULE, KWH, ENERGY_USD))

VERDICT_SECONDS = {
    # 31 days, an hour a step: of each hour so many seconds.
    f'rackwatt_rack_verdict_seconds_total{{{R01},verdict="{verdict}"}}': f"0+{seconds}x744"
    for verdict, seconds in {"AVAILABLE": 3000, "UNAVAILABLE": 60, "MAINTENANCE": 450, "UNKNOWN": 90}.items()
}
LATENCY = {
    # A thousand tokens a minute: half below 20 ms, all below 40 ms; 25 ms each on the mean.
    ("bucket", 'le="0.02",'): "0+500x30",
    ("bucket", 'le="0.04",'): "0+1000x30",
    ("bucket", 'le="+Inf",'): "0+1000x30",
    ("count", ""): "0+1000x30",
    ("sum", ""): "0+25x30",
}


def latencies(role: str, values: Mapping[tuple[str, str], str] = LATENCY) -> dict[str, str]:
    labels = f'{R01},node="n01",endpoint="{role}",engine="vllm",model="m",role="{role}"'
    return {
        f"rackwatt_llm_inter_token_latency_seconds_{part}{{{bound}{labels}}}": each
        for (part, bound), each in values.items()
    }


def xid(total: str, seen: str) -> dict[str, str]:
    labels = f'{R01},node="n01",gpu="0",gpu_uuid="GPU-0"'
    return {
        f'rackwatt_gpu_xid_total{{{labels},xid="79"}}': total,
        f'rackwatt_gpu_xid_last_seen_timestamp_seconds{{{labels},xid="79"}}': seen,
        f"rackwatt_gpu_up{{{labels}}}": "1+0x40",
    }


FIGURES = {
    # 10,000 tok/s, 120 kW, PUE 1.2, $0.08, 72 x $2.652: facts on tokens, §6.
    "full load": Figures(
        FULL,
        {
            PER_JOULE: 1 / 12,
            "rack_domain:llm_generation_tokens_per_second_per_megawatt:ratio_rate5m": 1e6 / 12,
            KWH: 10 / 3,
            ENERGY_USD: 0.32,
            ALL_IN_USD: 5.304,
            "rack:llm_generation_tokens_per_gpu:ratio_rate5m": 10_000 / 72,
        },
    ),
    "prompts count in the total alone": Figures(
        {**FULL, **tokens(80_000, "prompt")},
        {PER_JOULE: 1 / 12, "rack_domain:llm_total_tokens_per_joule:ratio_rate5m": 9 / 12},
    ),
    "each domain by itself": Figures(
        {**FULL, **joules(80_000, "gpu")},
        {f'{PER_JOULE}{{domain="gpu"}}': 1 / 8, f'{PER_JOULE}{{domain="rack_input"}}': 1 / 12},
    ),
    "CPUs are no domain of efficiency": Figures(
        {**FULL, **joules(9_000, "cpu")}, {f'{PER_JOULE}{{domain="cpu"}}': None}
    ),
    "no traffic": Figures(
        {**FULL, **tokens(0), **joules(25_000)},
        {PER_JOULE: 0.0, KWH: None, ENERGY_USD: None, ALL_IN_USD: None},
    ),
    "no energy": Figures({**tokens(10_000), **endpoints(), **PRICES}, {**BLANK, ALL_IN_USD: 5.304}),
    "one of two endpoints silent": Figures({**FULL, **endpoints("1+0x30")}, {**BLANK, ALL_IN_USD: None}),
    "one failed scrape of twenty is tolerated": Figures(
        {
            **FULL,
            **dict.fromkeys(endpoints(), "200+0x30"),
            f"rackwatt_rack_llm_endpoints_up{{{R01}}}": "200+0x14 196+0x14",
        },
        {PER_JOULE: 1 / 12, "rack:llm_endpoints_up_per_expected:ratio_rate5m": 0.98},
    ),
    "a shelf of eight missing": Figures({**FULL, **joules(105_000, coverage="0.875+0x30")}, BLANK),
    "no price": Figures(
        {**tokens(10_000), **joules(120_000), **endpoints()},
        {KWH: 10 / 3, ENERGY_USD: None, ALL_IN_USD: None},
    ),
    "a price that pays for the energy": Figures({**FULL, INCLUDED: "1+0x30"}, {ALL_IN_USD: 5.304}),
    # $5.304 of GPU-hours, and $0.32 of energy: `price.gpu_hour_includes_energy: false`.
    "a price that does not pay for the energy": Figures(
        {**FULL, INCLUDED: "0+0x30"},
        {ALL_IN_USD: 5.624, "rack:gpu_hour_usd_per_million_llm_generation_tokens:ratio_rate5m": 5.304},
    ),
    "energy that is to be added and is not known": Figures(
        {**FULL, **joules(105_000, coverage="0.875+0x30"), INCLUDED: "0+0x30"}, {ALL_IN_USD: None}
    ),
    "no PUE is a PUE of 1": Figures(
        {name: values for name, values in FULL.items() if "pue" not in name}, {ENERGY_USD: 0.32 / 1.2}
    ),
    "a second scrape doubles nothing": Figures(
        {
            **FULL,
            **tokens(10_000, more=',instance="b",pod="p"'),
            **joules(120_000, more=',instance="b",pod="p"'),
            **endpoints(more=',instance="b",pod="p"'),
        },
        {PER_JOULE: 1 / 12, KWH: 10 / 3, "rack:llm_generation_tokens:rate5m": 10_000.0},
    ),
    "idle energy": Figures(
        {
            f'rackwatt_rack_energy_joules_total{{{R01},domain="gpu"}}': "0+6000x120",
            f'rackwatt_rack_energy_coverage_ratio{{{R01},domain="gpu"}}': "1+0x120",
            f'rackwatt_rack_idle_energy_joules_total{{{R01},domain="gpu"}}': "0+1500x120",
        },
        {"rack_domain:idle_energy_joules_per_energy_joules:ratio_rate1h": 0.25},
        at="110m",
    ),
    # W = 3600 - 450 s an hour: CONTRACTS §3. 3060 of 3150 s are known, which is more than 95 %.
    "availability": Figures(
        {**VERDICT_SECONDS, SLO: "0.99+0x744"},
        {
            **{f"rack:availability_low:ratio{window}": 3000 / 3150 for window in ("1d", "7d", "30d")},
            "rack:availability_high:ratio30d": 1 - 60 / 3150,
            "rack:availability_coverage:ratio30d": 3060 / 3150,
            "rack:availability_point:ratio30d": 3000 / 3060,
            "rack:availability_burn:ratio30d": 60 / 3150 / 0.01,
            'rack_verdict:verdict_seconds:increase30d{verdict="MAINTENANCE"}': 450.0 * 720,
        },
        at="744h",
        step="1h",
    ),
    "a budget by the SLO of the rack": Figures(
        {**VERDICT_SECONDS, SLO: "0.95+0x744"},
        {
            "rack:availability_target:ratio": 0.95,
            "rack:availability_burn:ratio30d": 60 / 3150 / 0.05,
        },
        at="744h",
        step="1h",
    ),
    "a rack service that does not tell its SLO": Figures(
        {**VERDICT_SECONDS, f"rackwatt_rack_nodes_expected{{{R01}}}": "18+0x744"},
        {
            "rack:availability_target:ratio": 0.99,
            "rack:availability_burn:ratio30d": 60 / 3150 / 0.01,
        },
        at="744h",
        step="1h",
    ),
    "availability of too little": Figures(
        {name: "0+2000x40" if '"AVAILABLE"' in name else "0+100x40" for name in VERDICT_SECONDS},
        {
            "rack:availability_low:ratio1d": 2000 / 3500,
            "rack:availability_high:ratio1d": 1 - 100 / 3500,
            "rack:availability_coverage:ratio1d": 2100 / 3500,
            "rack:availability_point:ratio1d": None,
            "rack:availability_low:ratio7d": None,
        },
        at="40h",
        step="1h",
    ),
    "a ledger that began anew": Figures(
        dict.fromkeys(VERDICT_SECONDS, "100000+100x20 0+100x20"),
        {"rack:availability_low:ratio1d": None, "rack:availability_low:ratio30d": None},
        at="40h",
        step="1h",
    ),
    "nothing but maintenance": Figures(
        {name: "0+3600x40" if "MAINTENANCE" in name else "0+0x40" for name in VERDICT_SECONDS},
        {"rack:availability_low:ratio1d": None, "rack:availability_burn:ratio1d": None},
        at="40h",
        step="1h",
    ),
    "incidents": Figures(
        {
            # 18 nodes a step of an hour; two incidents, six hours down in all.
            f"rackwatt_rack_node_operating_seconds_total{{{R01}}}": "0+64800x744",
            f"rackwatt_rack_node_down_seconds_total{{{R01}}}": "0+0x100 21600+0x644",
            f"rackwatt_rack_incidents_total{{{R01}}}": "5+0x100 7+0x644",
        },
        {
            "rack:incidents:increase30d": 2.0,
            "rack:node_operating_seconds_per_incident:ratio30d": 64800.0 * 720 / 2,
            "rack:node_down_seconds_per_incident:ratio30d": 10800.0,
        },
        at="744h",
        step="1h",
    ),
    "interactivity": Figures(
        {**latencies("engine"), **endpoints()},
        {
            "rack_model:llm_tokens_per_second_per_user:ratio_rate5m": 40.0,
            # The rank 900 of 1000 lies at 20 + 20 x (900 - 500) / 500 = 36 ms.
            "rack_model:llm_slow_tokens_per_second_per_user:p90_rate5m": 1 / 0.036,
        },
    ),
    "engines count, not their router": Figures(
        {**latencies("engine"), **latencies("router", dict.fromkeys(LATENCY, "0+7000x30")), **endpoints()},
        {"rack_model:llm_tokens_per_second_per_user:ratio_rate5m": 40.0},
    ),
    "engines of two kinds, whose buckets differ": Figures(
        {
            **latencies("engine"),
            # The other kind's 1,000 tokens take 30 to 35 ms; its bounds are others, but for 40 ms.
            **{
                name.replace('endpoint="engine",engine="vllm"', 'endpoint="other",engine="sglang"'): each
                for name, each in latencies(
                    "engine",
                    {
                        ("bucket", 'le="0.03",'): "0+0x30",
                        ("bucket", 'le="0.035",'): "0+1000x30",
                        ("bucket", 'le="0.04",'): "0+1000x30",
                        ("bucket", 'le="+Inf",'): "0+1000x30",
                        ("count", ""): "0+1000x30",
                        ("sum", ""): "0+33x30",
                    },
                ).items()
            },
            **endpoints(),
        },
        {
            "rack_model:llm_tokens_per_second_per_user:ratio_rate5m": 2000.0 / 58,
            # 36 ms at the one, 30 + 5 x 0.9 = 34.5 ms at the other; their buckets together would say 39 ms.
            "rack_model:llm_slow_tokens_per_second_per_user:p90_rate5m": 1 / 0.036,
        },
    ),
    "a router whose buckets differ from its engines'": Figures(
        {
            **latencies("engine"),
            **latencies(
                "router",
                {
                    ("bucket", 'le="0.01",'): "0+1000x30",
                    ("bucket", 'le="+Inf",'): "0+1000x30",
                    ("count", ""): "0+1000x30",
                    ("sum", ""): "0+5x30",
                },
            ),
            **endpoints(),
        },
        {"rack_model:llm_slow_tokens_per_second_per_user:p90_rate5m": 1 / 0.036},
    ),
    "a router alone counts": Figures(
        {**latencies("router"), **endpoints()},
        {"rack_model:llm_tokens_per_second_per_user:ratio_rate5m": 40.0},
    ),
    "the first Xid of a number": Figures(
        xid("_x14 1+0x20", "_x14 880+0x20"),
        {
            'rack_node_gpu_class:xids:increase10m{class="fatal"}': 1.0,
            'rack_class:xids:increase10m{class="fatal"}': 1.0,
            'rack_class:xids:increase10m{class="app"}': 0.0,
        },
    ),
    "an old Xid that comes into view": Figures(
        xid("_x14 7+0x20", "_x14 60+0x20"),
        {'rack_node_gpu_class:xids:increase10m{class="fatal"}': None},
    ),
    "power against the limits of the GPUs that tell their power": Figures(
        {
            f'rackwatt_gpu_power_watts{{{R01},node="n01",gpu="0",gpu_uuid="a"}}': "700+0x40",
            **{
                f'rackwatt_gpu_power_limit_watts{{{R01},node="n01",gpu="0",gpu_uuid="{uuid}"}}': "1400+0x40"
                for uuid in ("a", "b")
            },
        },
        {"rack:gpu_power_watts_per_limit:ratio": 0.5},
    ),
    "a cluster is kept, and keeps racks of one name apart": Figures(
        {
            'rackwatt_rack_largest_block_nodes{cluster="a",rack="r01"}': "18+0x30",
            'rackwatt_rack_largest_block_nodes{cluster="b",rack="r01"}': "15+0x30",
            'rackwatt_rack_nodes_expected{cluster="a",rack="r01"}': "18+0x30",
            'rackwatt_rack_nodes_expected{cluster="b",rack="r01"}': "18+0x30",
            'rackwatt_rack_min_block_nodes{cluster="a",rack="r01"}': "16+0x30",
            'rackwatt_rack_min_block_nodes{cluster="b",rack="r01"}': "16+0x30",
        },
        {
            'cluster:racks_whole:sum{cluster="a"}': 1.0,
            'cluster:racks_short:sum{cluster="a"}': 0.0,
            'cluster:racks_whole:sum{cluster="b"}': 0.0,
            'cluster:racks_short:sum{cluster="b"}': 1.0,
        },
    ),
}


@pytest.mark.parametrize("figures", FIGURES.values(), ids=FIGURES)
def test_recorded_figures_are_the_literals(figures: Figures, tmp_path: Path) -> None:
    hold(figures, tmp_path)
