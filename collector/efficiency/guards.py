"""When a figure is blank: each guard says in words what is wrong, which value, and what would be right.

Empty words mean that nothing speaks against the figure (facts on tokens, §4 and §6: guards).
"""

from __future__ import annotations

from collector.efficiency.figure import Figure, blank, figure, percent
from collector.efficiency.interactivity import quantile
from collector.efficiency.rollup import ModelSum, Rollup

SUFFICIENT_RATIO = 0.95
"""Share of the window for which energy and endpoints must be known (facts on tokens, §6: `>= 0.95` tolerates
a failed scrape)."""

SHORTEST_WINDOW_SECONDS = 60.0
"""Four times the slowest scrape of 15 s (facts on tokens, §4)."""

SLOW_REQUEST_QUANTILE = 0.95
"""A window must be as long as most requests last (facts on tokens, §1, trap 3: p95)."""

NO_TOKENS = "no tokens were counted in the window: nothing can be divided by them"

_NOTHING_MEASURED = {
    "gpu": "the energy of no GPU is known in the window",
    "module": "no module's power is known in the window: only superchips such as GB300 report it",
    "rack_input": "no power shelf was read in the window",
    "cpu": "no CPU's power is known in the window: only Grace CPUs report it",
}
"""Why a domain is blank of which nothing is known."""

NO_ENDPOINTS = "no serving endpoint is known: list them under `serving` in the configuration of the agents"
NO_SHELVES = "no power shelf is configured: list them under `redfish` of the rack"


def watched(rollup: Rollup, window_seconds: float) -> str:
    """Say why too little of the window was watched."""
    if rollup.watched_seconds <= 0:
        return "nothing of the window was watched: the rack service did not run, or no longer knows it"
    if rollup.watched_seconds < SUFFICIENT_RATIO * window_seconds:
        return (
            f"{rollup.watched_seconds:.0f} s of the window's {window_seconds:.0f} s were watched; "
            f"{percent(SUFFICIENT_RATIO)} is enough"
        )
    return ""


def endpoints_up(rollup: Rollup, window_seconds: float) -> Figure:
    """Return the share of the window in which the expected serving endpoints were up."""
    if rollup.watched_seconds <= 0:
        return blank(watched(rollup, window_seconds))
    if not rollup.role or rollup.endpoints_expected_seconds <= 0:
        return blank(NO_ENDPOINTS)
    return _share(rollup.endpoints_up_seconds, rollup.endpoints_expected_seconds, rollup, window_seconds)


def tokens(rollup: Rollup, window_seconds: float) -> str:
    """Say why the tokens of the window are not all counted."""
    short = watched(rollup, window_seconds)
    if short:
        return short
    up = endpoints_up(rollup, window_seconds)
    if up.value is None:
        return up.reason
    if up.value < SUFFICIENT_RATIO:
        return (
            f"the serving endpoints were up and fresh for {percent(up.value)} of the window, with "
            f"tokens counted; {percent(SUFFICIENT_RATIO)} is enough"
        )
    if window_seconds < SHORTEST_WINDOW_SECONDS:
        return f"the window of {window_seconds:g} s is too short; {SHORTEST_WINDOW_SECONDS:g} s is enough"
    return ""


def finished(name: str, model: ModelSum, window_seconds: float, *, idle: bool) -> str:
    """Say why a window is too short for an engine that counts tokens when their request ends.

    Args:
        name: The model.
        model: What its endpoints did.
        window_seconds: Length of the window.
        idle: Whether no endpoint had a request in the whole window.
    """
    engines = sorted(model.at_finish_seconds)
    if not engines or (idle and model.prompt_tokens + model.generation_tokens <= 0):
        return ""
    slow = quantile(model.request_duration, SLOW_REQUEST_QUANTILE, "request duration")
    counts = f"{', '.join(engines)} counts the tokens of {name} when a request ends"
    if slow.value is None:
        return f"{counts}, and {slow.reason}"
    if slow.value > window_seconds:
        return f"{counts}, and one in twenty lasts longer than {slow.value:.0f} s: take a window as long"
    return ""


def all_finished(rollup: Rollup, window_seconds: float) -> str:
    """Say for which model the window is too short; empty if for none."""
    rest = idle(rollup)
    said = (finished(name, own, window_seconds, idle=rest) for name, own in sorted(rollup.models.items()))
    return next(filter(None, said), "")


def idle(rollup: Rollup) -> bool:
    """Tell whether no endpoint had a request in the whole window."""
    # Both are sums of the same parts, in perhaps another order.
    return any(
        own.joules > 0 and own.idle_joules >= own.joules * (1 - 1e-9) for own in rollup.energy.values()
    )


def coverage(rollup: Rollup, domain: str, window_seconds: float, *, shelves_configured: bool) -> Figure:
    """Return the share of the window, over all units, for which a domain's energy is known."""
    if domain == "rack_input" and not shelves_configured:
        return blank(NO_SHELVES)
    if rollup.watched_seconds <= 0:
        return blank(watched(rollup, window_seconds))
    energy = rollup.energy.get(domain)
    if energy is None or energy.expected_seconds <= 0:
        return blank(_NOTHING_MEASURED[domain])
    return _share(energy.covered_seconds, energy.expected_seconds, rollup, window_seconds)


def joules(rollup: Rollup, domain: str, window_seconds: float, *, shelves_configured: bool) -> Figure:
    """Return the energy of a domain; blank where it is not known for enough of the window."""
    covered = coverage(rollup, domain, window_seconds, shelves_configured=shelves_configured)
    if covered.value is None:
        return covered
    if covered.value < SUFFICIENT_RATIO:
        return blank(
            f"the energy of `{domain}` is known for {percent(covered.value)} of the window; "
            f"{percent(SUFFICIENT_RATIO)} is enough"
        )
    found = rollup.energy[domain].joules
    return (
        figure(found)
        if found > 0
        else blank(f"the energy of `{domain}` is {found:g} J, which cannot be right of what is powered")
    )


def _share(seconds: float, expected_seconds: float, rollup: Rollup, window_seconds: float) -> Figure:
    """Return a share of the window; what was expected is known for the time that was watched alone."""
    return figure(seconds / expected_seconds * min(1.0, rollup.watched_seconds / window_seconds))
