"""How the checks of NVLinks judge: all links of a GPU in one, and which ones stands in the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.health.check_spec import (
    PASSED,
    Finding,
    GpuEvidence,
    GpuJudge,
    NodeEvidence,
    Rule,
    Status,
    unknown,
)

_SHOWN_LINKS = 6


def name_links(links: Sequence[str]) -> str:
    """Name links for a reason: `link 4`, or `links 1, 2, 3`, the first ones of many."""
    more = f" and {len(links) - _SHOWN_LINKS} more" if len(links) > _SHOWN_LINKS else ""
    return f"link{'s' if len(links) > 1 else ''} {', '.join(links[:_SHOWN_LINKS])}{more}"


def _links_missing(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    if not _has_link_counts(gpu):
        return None
    up, expected = gpu.cells.get("gpu_nvlinks_up"), gpu.cells.get("gpu_nvlinks_expected")
    if up is None or expected is None:
        return unknown("gpu_nvlinks_up" if up is None else "gpu_nvlinks_expected")
    if up >= expected:
        return PASSED
    down = [link for link, cells in gpu.links.items() if cells.get("nvlink_up") == 0]
    names = f": {name_links(down)} down" if down else ""
    reason = f"{up} of {expected} NVLinks are up{names}"
    return Finding(Status.FAILED, value=up, threshold=expected, reason=reason)


def _all_links_down(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    if not _has_link_counts(gpu):
        return None
    up, expected = gpu.cells.get("gpu_nvlinks_up"), gpu.cells.get("gpu_nvlinks_expected")
    if up is None or expected is None:
        return unknown("gpu_nvlinks_up" if up is None else "gpu_nvlinks_expected")
    if up or not expected:
        return PASSED
    return Finding(Status.FAILED, value=0, threshold=expected, reason=f"none of {expected} NVLinks is up")


def _has_link_counts(gpu: GpuEvidence) -> bool:
    return gpu.cells.has("gpu_nvlinks_up") and gpu.cells.has("gpu_nvlinks_expected")


def _recovery_failed(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    metric, label = rule.check.metrics[0], "failed"
    grown = {
        link: rise.within(rule.check.window_seconds)
        for link, cells in gpu.links.items()
        if cells.has(metric, label) and (rise := gpu.rises.get((metric, label, link))) is not None
    }
    total = sum(grown.values())
    if total >= rule.threshold:
        links = [link for link, growth in grown.items() if growth]
        reason = f"{total} recoveries failed within 10 minutes on {name_links(links)}"
        return Finding(Status.FAILED, value=total, threshold=rule.threshold, reason=reason)
    return _all_read(metric, label, gpu)


def _errors(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    metric, by_link = rule.check.metrics
    if not gpu.cells.has(metric):
        return None
    rise = gpu.rises.get((metric, "", ""))
    grown = rise.within(rule.check.window_seconds) if rise is not None else 0
    if grown >= rule.threshold:
        links = [
            link
            for link in gpu.links
            if (own := gpu.rises.get((by_link, "", link))) is not None
            and own.within(rule.check.window_seconds)
        ]
        names = f" on {name_links(links)}" if links else ""
        reason = f"NVLinks counted {grown} errors within 10 minutes{names}"
        return Finding(Status.FAILED, value=grown, threshold=rule.threshold, reason=reason)
    return unknown(metric) if gpu.cells.get(metric) is None else PASSED


def _error_ratio(rule: Rule, gpu: GpuEvidence, _node: NodeEvidence) -> Finding | None:
    metric = rule.check.metrics[0]
    ratios = {link: cells.get(metric) for link, cells in gpu.links.items() if cells.has(metric)}
    high = {link: ratio for link, ratio in ratios.items() if ratio is not None and ratio > rule.threshold}
    if high:
        worst = max(high.values())
        kind = "symbol" if "symbol" in metric else "effective bit"
        reason = f"the {kind} error ratio is up to {worst:g} on {name_links(list(high))}"
        return Finding(Status.FAILED, value=worst, threshold=rule.threshold, reason=reason)
    return _all_read(metric, "", gpu)


def _all_read(metric: str, label: str, gpu: GpuEvidence) -> Finding | None:
    """Pass if every link that is up was read. A link that is down counts nothing; another check has it."""
    supported = {link: cells for link, cells in gpu.links.items() if cells.has(metric, label)}
    if not supported:
        return None
    missing = [link for link, cells in supported.items() if cells.get(metric, label) is None]
    unread = [link for link in missing if supported[link].get("nvlink_up") != 0]
    if unread:
        return unknown(metric, name_links(unread))
    if len(missing) == len(supported):
        return Finding(Status.UNKNOWN, reason="no NVLink is up", metric=metric)
    return PASSED


LINK_JUDGES: Mapping[str, GpuJudge] = {
    "gpu_nvlinks_missing": _links_missing,
    "gpu_nvlinks_all_down": _all_links_down,
    "nvlink_recovery_failed": _recovery_failed,
    "nvlink_errors": _errors,
    "nvlink_symbol_ber": _error_ratio,
    "nvlink_effective_ber": _error_ratio,
}
"""How each check of NVLinks judges."""
