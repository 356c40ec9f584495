"""Recorded series and alerts held against literals by `promtool test rules`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboards.build import GENERATED
from dashboards.recorded import recording_groups
from dashboards.rules.alerts import alert_groups

RULES = sorted((GENERATED / "rules").glob("*.yaml"))
GROUPS = [*(group.name for group in recording_groups()), *(group.name for group in alert_groups())]


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    return subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=300, check=False)


R01 = 'rack="r01"'


def near(expression: str, value: float) -> str:
    """Ask whether an expression gives a value: 1 or 0, or nothing."""
    return f"abs({expression} - {value!r}) <= bool {abs(value) * 1e-6!r}"


@dataclass(frozen=True)
class Figures:
    """Series, and what recorded series must be then.

    Attributes:
        given: Values in promtool's notation by series.
        values: Literals by selector; None where nothing may be.
        at: When they are asked for.
        step: Time between two values.
    """

    given: Mapping[str, str]
    values: Mapping[str, float | None] = field(default_factory=dict)
    at: str = "20m"
    step: str = "1m"


def tokens(a_second: float, phase: str = "generation", more: str = "") -> dict[str, str]:
    series = f'rackwatt_rack_llm_tokens_total{{{R01},model="m",phase="{phase}"{more}}}'
    return {series: f"0+{a_second * 60:g}x30"}


def joules(
    watts: float, domain: str = "rack_input", coverage: str = "1+0x30", more: str = ""
) -> dict[str, str]:
    return {
        f'rackwatt_rack_energy_joules_total{{{R01},domain="{domain}"{more}}}': f"0+{watts * 60:g}x30",
        f'rackwatt_rack_energy_coverage_ratio{{{R01},domain="{domain}"{more}}}': coverage,
    }


def endpoints(up: str = "2+0x30", more: str = "") -> dict[str, str]:
    return {
        f"rackwatt_rack_llm_endpoints_expected{{{R01}{more}}}": "2+0x30",
        f"rackwatt_rack_llm_endpoints_up{{{R01}{more}}}": up,
    }


SLO = f"rackwatt_rack_slo_ratio{{{R01}}}"


def hold(figures: Figures, folder: Path) -> None:
    """Assert that recorded series and alerts are the literals."""
    asked = [
        {
            "expr": f"count({expression})" if value is None else f"sum({near(expression, value)})",
            "eval_time": figures.at,
            "exp_samples": [] if value is None else [{"labels": "{}", "value": 1}],
        }
        for expression, value in figures.values.items()
    ]
    test = {
        "interval": figures.step,
        "input_series": [{"series": name, "values": values} for name, values in figures.given.items()],
        "promql_expr_test": asked,
    }
    document = {
        "rule_files": [str(path) for path in RULES],
        "evaluation_interval": figures.step,
        "group_eval_order": GROUPS,
        "tests": [test],
    }
    path = folder / "figures.yaml"
    path.write_text(json.dumps(document), "utf-8")  # JSON is YAML
    result = promtool("test", "rules", str(path))
    assert result.returncode == 0, result.stdout + result.stderr
