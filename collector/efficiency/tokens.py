"""What the serving endpoints of a node did between two Snapshots, and whether they rested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from collector.catalog.engines import UNKNOWN_ENGINE
from collector.efficiency.counting import Increase, increase
from collector.efficiency.rollup import HistogramSum, ModelSum, add_model
from collector.health.samples import Samples
from collector.model import HistogramSample, Sample, Value

MAXIMUM_TOKENS_PER_SECOND = 1e7
"""No endpoint has more (chosen): seven times what 72 GPUs make by the fastest published row (facts on tokens,
§2: 18,131.6 tokens/s each)."""
_MAXIMUM_SUM_SECONDS = float(2**63)
"""Most that observations add up to in the time between two Snapshots: what a series of the catalogue may have
at most (`collector.catalog.llm`). Larger ones would add up to what no number can hold."""
_SLACK_SECONDS = 10
"""How much older than its Snapshot a value may be (chosen): two scrapes."""
MAXIMUM_ENDPOINTS = 1000
"""Most endpoints of a node (chosen)."""
MAXIMUM_SERIES = 4096
"""Counters of a node that are remembered while they are absent (chosen): 100 models on ten endpoints."""
_SECOND_NS = 1_000_000_000

_TOKENS = "llm_tokens_total"
_PHASES = {"prompt": "prompt_tokens", "generation": "generation_tokens"}
_COUNTERS = (
    (_TOKENS, _PHASES),
    ("llm_prefix_cache_query_tokens_total", {"": "prefix_query_tokens"}),
    ("llm_prefix_cache_hit_tokens_total", {"": "prefix_hit_tokens"}),
)
"""Counters, and in which field of a roll-up the values of their own label are summed."""
_HISTOGRAMS = {
    "llm_time_to_first_token_seconds": "time_to_first_token",
    "llm_inter_token_latency_seconds": "inter_token_latency",
    "llm_request_duration_seconds": "request_duration",
}
_FINISHED = "llm_request_duration_seconds"
"""Its observations are the requests that ended."""
_METRICS = (
    "llm_up",
    "llm_gpu_info",
    "llm_tokens_at_finish",
    "llm_requests_running",
    "llm_requests_waiting",
    "llm_kv_cache_usage_ratio",
    *(name for name, _ in _COUNTERS),
)
_OF_MODELS = (_TOKENS, "llm_requests_running", "llm_requests_waiting", "llm_kv_cache_usage_ratio")
"""Series by which an endpoint tells which models it has, beside its histograms."""
_LABELS = 4
"""Labels of a series of an endpoint and model: endpoint, engine, model, role (CONTRACTS §1)."""


@dataclass(slots=True)
class Load:
    """What a model of an endpoint has to do; None where it is not said.

    Attributes:
        running: Requests that are being computed.
        waiting: Requests that wait.
        phases: Phases of which tokens are counted.
    """

    running: Value | None = None
    waiting: Value | None = None
    phases: set[str] = field(default_factory=set)

    @property
    def resting(self) -> bool:
        """Whether there is no request at all."""
        return self.running == 0 and self.waiting == 0

    @property
    def counted(self) -> bool:
        """Whether its tokens are counted; an engine may begin to with its first request."""
        return self.resting or self.phases >= _PHASES.keys()


@dataclass(slots=True)
class Endpoint:
    """An endpoint as the newest Snapshot of its node has it.

    Attributes:
        engine: Its engine.
        role: Whether it is an engine or a router.
        up: Whether its metrics are read, its tokens counted, and its counters to be believed.
        gpus: Indices of the GPUs that it says it computes on.
        at_finish: Whether it counts tokens, and does not say that they count before their request ends.
        models: Its models; while it is down, those that it had.
    """

    engine: str
    role: str
    up: bool = False
    gpus: tuple[str, ...] = ()
    at_finish: bool = False
    models: Mapping[str, Load] = field(default_factory=dict)

    @property
    def resting(self) -> bool:
        """Whether it is known that it has no request."""
        return self.up and bool(self.models) and all(load.resting for load in self.models.values())


class Done(NamedTuple):
    """What was done for a model by endpoints of a role, from a time until the Snapshot.

    Attributes:
        starts_ns: Since when.
        role: By whom.
        model: For which model.
        sums: What.
    """

    starts_ns: int
    role: str
    model: str
    sums: ModelSum


@dataclass(slots=True)
class _Counted:
    value: float
    placed_ns: int
    agent_id: str


@dataclass(slots=True)
class _Observed:
    sums: HistogramSum
    placed_ns: int
    agent_id: str


class NodeServing:
    """The endpoints of one node, and the counters that they had.

    Attributes:
        endpoints: The endpoints by name.
        placed: Those that name their GPUs, and whose GPUs work for one model of theirs alone.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint] | None = None) -> None:
        """Begin without a counter.

        Args:
            endpoints: Those that are remembered; they hold until the first Snapshot.
        """
        self.endpoints: dict[str, Endpoint] = dict(endpoints or {})
        self.placed: frozenset[str] = frozenset()
        self._bases: dict[tuple[str, tuple[str, ...]], _Counted] = {}
        self._histograms: dict[tuple[str, tuple[str, ...]], _Observed] = {}
        self._rested: frozenset[str] = frozenset()
        self._busy: set[str] = set()
        self._agent_id = ""

    def take(
        self, samples: Samples, histograms: Sequence[HistogramSample], now_ns: int, *, agent_id: str = ""
    ) -> list[Done]:
        """Take in a Snapshot.

        Args:
            samples: Its values.
            histograms: Its histograms.
            now_ns: The present.
            agent_id: The agent process that took it.

        Returns:
            What was done since the Snapshot before.
        """
        rested = self._resting_roles()
        rows = {name: tuple(samples.of_metric(name)) for name in _METRICS}
        self.endpoints = self._read_endpoints(rows, histograms)
        self._agent_id = agent_id
        self.placed = self._find_placed()
        self._busy = set()
        sums: dict[tuple[int, str, str], ModelSum] = {}
        for name, fields in _COUNTERS:
            for sample in rows[name]:
                self._count(sample, fields, sums, now_ns)
        for histogram in histograms:
            if histogram.metric.name in _HISTOGRAMS:
                self._observe(histogram, sums, now_ns)
        self._forget(now_ns)
        self._rested = (rested & self._resting_roles()) - self._busy
        return [Done(*key, own) for key, own in sums.items()]

    def has(self, role: str) -> bool:
        """Tell whether there is an endpoint of a role."""
        return any(own.role == role for own in self.endpoints.values())

    def rested(self, role: str) -> bool:
        """Tell whether the endpoints of a role had no request between the two newest Snapshots."""
        return role in self._rested

    def placements(self, role: str) -> dict[str, str]:
        """Return which model each GPU, by index, works for, as far as it works for one alone.

        Args:
            role: Whose GPUs: those of its endpoints.
        """
        return {
            gpu: next(iter(own.models))
            for name, own in self.endpoints.items()
            if own.role == role and name in self.placed
            for gpu in own.gpus
        }

    def _find_placed(self) -> frozenset[str]:
        claims = Counter(gpu for own in self.endpoints.values() for gpu in own.gpus)
        return frozenset(
            name
            for name, own in self.endpoints.items()
            if own.gpus and len(own.models) == 1 and all(claims[gpu] == 1 for gpu in own.gpus)
        )

    def _resting_roles(self) -> frozenset[str]:
        """Return the roles of which there are endpoints, and all of them rest."""
        roles = {own.role for own in self.endpoints.values()}
        return frozenset(roles - {own.role for own in self.endpoints.values() if not own.resting})

    def _read_endpoints(
        self, rows: Mapping[str, Sequence[Sample]], histograms: Iterable[HistogramSample]
    ) -> dict[str, Endpoint]:
        endpoints = {}
        for sample in rows["llm_up"][:MAXIMUM_ENDPOINTS]:
            name, engine, role = sample.labels
            known = self.endpoints.get(name)
            if engine == UNKNOWN_ENGINE and known is not None:
                # An agent that was restarted has yet to recognize it; until then it says what is usual.
                engine, role = known.engine, known.role
            endpoints[name] = Endpoint(engine, role, up=sample.value == 1)
        gpus: dict[str, list[str]] = {}
        for sample in rows["llm_gpu_info"]:
            gpus.setdefault(sample.labels[0], []).append(sample.labels[-1])
        live = {sample.labels[0] for sample in rows["llm_tokens_at_finish"] if sample.value == 0}
        models = _models(rows, histograms)
        for name, own in endpoints.items():
            known = self.endpoints.get(name)
            own.gpus = tuple(gpus.get(name, ()))
            own.models = models.get(name) or ({} if own.up or known is None else known.models)
            own.up = own.up and all(load.counted for load in own.models.values())
            own.at_finish = name not in live and any(load.phases for load in own.models.values())
        return endpoints

    def _count(
        self,
        sample: Sample,
        fields: Mapping[str, str],
        sums: dict[tuple[int, str, str], ModelSum],
        now_ns: int,
    ) -> None:
        name, labels, value = sample.metric.name, sample.labels, sample.value
        target = fields.get(labels[_LABELS] if len(labels) > _LABELS else "")
        base = self._bases.get((name, labels))
        if base is None:
            self._bases[name, labels] = _Counted(value, now_ns, self._agent_id)
            if value and name == _TOKENS:
                self._busy.add(labels[3])
            return
        starts = base.placed_ns
        risen = self._increase(base, value, now_ns)
        base.value, base.placed_ns, base.agent_id = value, now_ns, self._agent_id
        if name == _TOKENS and (risen is None or risen.amount):
            self._busy.add(labels[3])
        if risen is None:
            self._doubt(name, labels[0])
        elif risen.amount and target is not None:
            own = _sums_of(sums, starts, labels)
            setattr(own, target, getattr(own, target) + risen.amount)

    def _increase(self, base: _Counted, value: float, now_ns: int) -> Increase | None:
        """Tell by how much a counter rose; None if nothing is known of the time between.

        One that fell with its agent's restart may have lost what the agent carried for ranks that began anew
        (docs/decisions/0022): then its new value was counted before.
        """
        risen = increase(base.value, value, _most(base.placed_ns, now_ns))
        return None if risen and not risen.whole and base.agent_id != self._agent_id else risen

    def _doubt(self, metric: str, endpoint: str) -> None:
        """Count an endpoint whose tokens made an impossible step as down until its next Snapshot."""
        if metric == _TOKENS and endpoint in self.endpoints:
            self.endpoints[endpoint].up = False

    def _observe(
        self, histogram: HistogramSample, sums: dict[tuple[int, str, str], ModelSum], now_ns: int
    ) -> None:
        name, labels = histogram.metric.name, histogram.labels
        newest = HistogramSum(bounds=histogram.bounds, counts=histogram.counts, sum=histogram.sum)
        base = self._histograms.get((name, labels))
        self._histograms[name, labels] = _Observed(newest, now_ns, self._agent_id)
        # A histogram with other bounds begins anew.
        if base is None or base.sums.bounds != newest.bounds:
            return
        # As for counters: what was observed before its agent was restarted is not observed again.
        if base.agent_id != self._agent_id and _fell(base.sums, newest):
            return
        risen = _rise(base.sums, newest, _most(base.placed_ns, now_ns))
        if risen is not None and (risen.counts[-1] or risen.sum):
            own = ModelSum(finished_requests=risen.counts[-1] if name == _FINISHED else 0.0)
            setattr(own, _HISTOGRAMS[name], risen)
            add_model(_sums_of(sums, base.placed_ns, labels), own)

    def _forget(self, now_ns: int) -> None:
        """Forget counters that are not there any more where there are too many."""
        if len(self._bases) > MAXIMUM_SERIES:
            self._bases = {key: own for key, own in self._bases.items() if own.placed_ns == now_ns}
        if len(self._histograms) > MAXIMUM_SERIES:
            self._histograms = {key: own for key, own in self._histograms.items() if own.placed_ns == now_ns}


def _most(starts_ns: int, now_ns: int) -> float:
    return MAXIMUM_TOKENS_PER_SECOND * ((now_ns - starts_ns) / _SECOND_NS + _SLACK_SECONDS)


def _sums_of(sums: dict[tuple[int, str, str], ModelSum], starts_ns: int, labels: tuple[str, ...]) -> ModelSum:
    _, _, model, role = labels[:_LABELS]
    return sums.setdefault((starts_ns, role, model), ModelSum())


def _models(
    rows: Mapping[str, Sequence[Sample]], histograms: Iterable[HistogramSample]
) -> dict[str, dict[str, Load]]:
    """Return what is said of each model, by endpoint."""
    found: dict[str, dict[str, Load]] = {}
    for labels in _labels_of_models(rows, histograms):
        load = found.setdefault(labels[0], {}).setdefault(labels[2], Load())
        if len(labels) > _LABELS:
            load.phases.add(labels[_LABELS])
    for sample in rows["llm_requests_running"]:
        found[sample.labels[0]][sample.labels[2]].running = sample.value
    for sample in rows["llm_requests_waiting"]:
        found[sample.labels[0]][sample.labels[2]].waiting = sample.value
    return found


def _labels_of_models(
    rows: Mapping[str, Sequence[Sample]], histograms: Iterable[HistogramSample]
) -> Iterator[tuple[str, ...]]:
    for name in _OF_MODELS:
        yield from (sample.labels for sample in rows[name])
    yield from (each.labels for each in histograms if each.metric.name in _HISTOGRAMS)


def _fell(before: HistogramSum, after: HistogramSum) -> bool:
    """Tell whether a histogram with the same bounds began anew."""
    return any(one < other for one, other in zip(after.counts, before.counts, strict=True))


def _rise(before: HistogramSum, after: HistogramSum, maximum: float) -> HistogramSum | None:
    """Return what was observed between two readings; None if it is impossible.

    A histogram of which any count fell began anew.
    """
    steps = [one - other for one, other in zip(after.counts, before.counts, strict=True)]
    if _fell(before, after):
        steps, total = list(after.counts), after.sum
    else:
        total = after.sum - before.sum
    if any(low > high for low, high in pairwise(steps)):
        return None
    if not 0 <= total <= _MAXIMUM_SUM_SECONDS or steps[-1] > maximum:
        return None
    return HistogramSum(bounds=after.bounds, counts=tuple(steps), sum=total)
