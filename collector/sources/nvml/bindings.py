"""What catalogue bindings mean in calls: field requests, functions, keys of answers, and support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pynvml

from collector.catalog.spec import (
    Binding,
    FieldBinding,
    GetterBinding,
    GpmBinding,
    LinkSum,
    Metric,
    Scope,
)
from collector.sources.nvml.answers import Answers, Key
from collector.sources.nvml.fields import Request
from collector.sources.nvml.gpm import GPM


def field_id(binding: FieldBinding) -> int:
    """Resolve a field's name to its number in the installed pynvml."""
    return binding.field if isinstance(binding.field, int) else int(getattr(pynvml, binding.field))


def requests_of(binding: Binding, links: int) -> Iterator[Request]:
    """Yield the field requests that a binding needs on a GPU with so many links."""
    if isinstance(binding, LinkSum):
        for part in binding.fields:
            yield from requests_of(part, links)
    elif isinstance(binding, FieldBinding):
        scopes = range(links) if binding.scope is Scope.EACH_LINK else (int(binding.scope),)
        for scope in scopes:
            yield (field_id(binding), scope, binding.decode)


def keys_of(binding: Binding, links: int) -> tuple[Key, ...]:
    """List the keys under which a binding's answers stand."""
    if isinstance(binding, GetterBinding):
        return ((binding.function, binding.attribute),)
    if isinstance(binding, GpmBinding):
        return ((GPM, int(getattr(pynvml, binding.metric))),)
    return tuple((number, scope) for number, scope, _ in requests_of(binding, links))


def holds_for(binding: Binding, driver: tuple[int, ...]) -> bool:
    """Tell whether a binding means what it says under a driver version."""
    return (
        not isinstance(binding, FieldBinding) or binding.drivers is None or binding.drivers.contains(driver)
    )


def bindings_of(metric: Metric, driver: tuple[int, ...]) -> tuple[tuple[str, tuple[Binding, ...]], ...]:
    """List a row's alternatives, by label value, that hold under a driver version.

    A row of codes has one entry, under the empty label value: its series share one number.
    """
    if metric.codes is not None:
        alternatives: Iterable[tuple[str, tuple[Binding, ...]]] = (("", metric.codes.bindings),)
    else:
        alternatives = ((part.value, part.bindings) for part in metric.parts if part.bindings)
    return tuple(
        (value, tuple(binding for binding in bindings if holds_for(binding, driver)))
        for value, bindings in alternatives
    )


def supported(binding: Binding, probe: Answers, links: int) -> Binding | None:
    """Reduce a binding to what answered in a probe.

    Returns:
        The binding; for a sum of links, with the fields that answered on at least one link; None if
        nothing answered, nor failed in a way that says nothing of support.
    """
    if isinstance(binding, LinkSum):
        fields = tuple(part for part in binding.fields if supported(part, probe, links) is not None)
        return LinkSum(fields=fields) if fields else None
    keys = keys_of(binding, links)
    answered = any(key in probe.numbers or key in probe.failed for key in keys)
    # The first GPM sample answers nothing; whether a GPU has GPM at all is asked elsewhere.
    return binding if answered or isinstance(binding, GpmBinding) else None


@dataclass(slots=True)
class Needs:
    """What a set of series needs to be read.

    Attributes:
        device_fields: Field requests about the GPU as a whole.
        link_fields: Field requests about links, one or all; kept apart, since a batch that mixes both has
            failed as a whole on GB200 (facts, trap T3).
        getters: Attributes wanted of each function.
        gpm: Metric ids wanted of performance monitoring.
    """

    device_fields: dict[Key, Request] = field(default_factory=dict)
    link_fields: dict[Key, Request] = field(default_factory=dict)
    getters: dict[str, dict[str, None]] = field(default_factory=dict)
    gpm: dict[int, None] = field(default_factory=dict)

    def add(self, binding: Binding, links: int) -> None:
        """Add what a binding needs; what is needed already is not asked twice."""
        if isinstance(binding, GetterBinding):
            self.getters.setdefault(binding.function, {})[binding.attribute] = None
        elif isinstance(binding, GpmBinding):
            self.gpm[int(getattr(pynvml, binding.metric))] = None
        else:
            of_links = isinstance(binding, LinkSum) or binding.scope in (Scope.EACH_LINK, Scope.ALL_LINKS)
            target = self.link_fields if of_links else self.device_fields
            for request in requests_of(binding, links):
                target[request[0], request[1]] = request
