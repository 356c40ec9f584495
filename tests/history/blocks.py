"""Fills a Prometheus: blocks from samples, from the shipped recording rules, and from the shipped alerts.

Prometheus makes blocks from recording rules itself. It makes none from alerts, so that their states are made
here, by Prometheus' own rules (its documentation, "Alerting rules"): pending while `for` is not over, then
firing, and firing on for `keep_firing_for`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from dashboards.rules.files import rule_files
from tests.history.exposition import end, series
from tests.history.prometheus import Prometheus, serving

RULE_SECONDS = 30
"""How often rules are evaluated: the shortest interval of the shipped ones."""
_TIMEOUT_SECONDS = 300.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is shipped.

    Attributes:
        name: Name of the series, or of the alert.
        expression: What it evaluates.
        labels: Labels that it sets.
        is_alert: Whether it is an alert.
        wait_seconds: For how long an alert's condition must hold.
        keep_seconds: For how long an alert fires on.
    """

    name: str
    expression: str
    labels: Mapping[str, str]
    is_alert: bool
    wait_seconds: float
    keep_seconds: float


def shipped_rules() -> tuple[Rule, ...]:
    """Read all rules from the files that are shipped."""
    return tuple(
        Rule(
            name=rule.get("record") or rule["alert"],
            expression=rule["expr"],
            labels=rule.get("labels", {}),
            is_alert="alert" in rule,
            wait_seconds=_seconds(rule.get("for", "0s")),
            keep_seconds=_seconds(rule.get("keep_firing_for", "0s")),
        )
        for text in rule_files().values()
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
    )


def _seconds(text: str) -> float:
    return float(text[:-1]) * _UNITS[text[-1]]


def levels(rules: Iterable[Rule]) -> Iterator[tuple[Rule, ...]]:
    """Order recording rules so that each reads only what earlier groups record.

    Raises:
        ValueError: Some read one another.
    """
    left = list(rules)
    while left:
        names = {rule.name for rule in left}
        ready = [rule for rule in left if not any(name in rule.expression for name in names)]
        if not ready:
            raise ValueError(f"rules that read one another: {sorted(names)}")
        # Several rules may record under one name; what reads it waits for all of them.
        yield tuple(ready)
        left = [rule for rule in left if rule not in ready]


class PromtoolError(Exception):
    """promtool fails; the message says at what, and what it said."""


def promtool(*words: str) -> None:
    """Run promtool.

    Raises:
        PromtoolError: It fails.
    """
    done = subprocess.run(
        ["promtool", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PromtoolError(f"promtool {' '.join(words)}:\n{done.stdout}{done.stderr}")


def import_samples(file: Path, data: Path) -> None:
    """Make blocks from OpenMetrics text."""
    promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(file), str(data))


def record(data: Path, begin_seconds: int, end_seconds: int) -> None:
    """Make blocks from the shipped recording rules, over what is there."""
    recording = (rule for rule in shipped_rules() if not rule.is_alert)
    for number, level in enumerate(levels(recording)):
        file = data.parent / f"{data.name}-rules-{number}.yaml"
        file.write_text(json.dumps({"groups": [_group(level)]}), "utf-8")  # JSON is YAML
        # A Prometheus sees new blocks at its start.
        with serving(data) as prometheus:
            promtool(
                "tsdb",
                "create-blocks-from",
                "rules",
                "--quiet",
                f"--url=http://127.0.0.1:{prometheus.port}",
                f"--start={begin_seconds}",
                f"--end={end_seconds}",
                f"--output-dir={data}",
                str(file),
            )


def _group(rules: Sequence[Rule]) -> Mapping[str, object]:
    return {
        "name": "recording",
        "interval": f"{RULE_SECONDS}s",
        "rules": [
            {"record": rule.name, "expr": rule.expression, "labels": dict(rule.labels)} for rule in rules
        ],
    }


def raise_alerts(data: Path, begin_seconds: int, end_seconds: int) -> None:
    """Make blocks from the shipped alerts, over what is there."""
    file = data.parent / f"{data.name}-alerts.txt"
    with serving(data) as prometheus, file.open("wb") as written:
        for rule in shipped_rules():
            if rule.is_alert:
                written.writelines(_states(rule, prometheus, begin_seconds, end_seconds))
        end(written)
    import_samples(file, data)


def _states(rule: Rule, prometheus: Prometheus, begin_seconds: int, end_seconds: int) -> Iterator[bytes]:
    moments = range(begin_seconds, end_seconds + 1, RULE_SECONDS)
    for found in prometheus.between(rule.expression, begin_seconds, end_seconds, RULE_SECONDS):
        own = {name: value for name, value in found.labels.items() if name != "__name__"}
        labels = {"alertname": rule.name, **own, **rule.labels}
        holds = set(map(round, found.times))
        since: int | None = None
        last = begin_seconds
        fires = False
        for moment in moments:
            if moment in holds:
                since, last = (moment if since is None else since), moment
                fires = fires or moment - since >= rule.wait_seconds
            elif not fires or moment - last >= rule.keep_seconds:
                since, fires = None, False
            if since is not None:
                state = "firing" if fires else "pending"
                yield series("ALERTS", {**labels, "alertstate": state}, moment, 1.0)
                yield series("ALERTS_FOR_STATE", labels, moment, float(since))


def fill(file: Path, data: Path, begin_seconds: int, end_seconds: int) -> None:
    """Make everything that a Prometheus with the shipped rules would have.

    Args:
        file: The samples, as OpenMetrics.
        data: Folder of the blocks.
        begin_seconds: Unix time of the first sample.
        end_seconds: Unix time of the last.
    """
    import_samples(file, data)
    record(data, begin_seconds, end_seconds)
    raise_alerts(data, begin_seconds, end_seconds)
