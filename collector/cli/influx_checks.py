"""Checks of what is written to InfluxDB: the settings, one write of a real point, the place of the spool."""

from __future__ import annotations

from collector.cli.facts import Facts, InfluxdbFacts
from collector.cli.findings import Finding, Mark
from exporters.influxdb.failures import ADVICE, Failure
from exporters.influxdb.target import Outcome

_NAME = "InfluxDB"

_REFUSED = "it is reached and takes the token, yet refuses the point of this check"

_ACTIONS = {
    Failure.UNREACHABLE: "see to `url`, and that the server runs and no packet filter stands between",
    Failure.TIMEOUT: "see to the server, or to what stands between",
    Failure.OVERLOADED: "check again later; meanwhile points wait on disk",
    Failure.SERVER_ERROR: "look into the server's own log; meanwhile points wait on disk",
    Failure.REFUSED_LINES: "see to `bucket` and `org`, and to the server's own log",
    Failure.TOO_LARGE: "let the server, or the proxy before it, take requests of 1 MB",
    Failure.OTHER: "see to `url`: an InfluxDB answers otherwise",
}
"""What to do where waiting is all that the agent itself does."""

_PASSING = frozenset({Failure.OVERLOADED, Failure.SERVER_ERROR})
"""What says nothing of the settings: the agent waits and tries again."""


def influxdb(facts: Facts) -> list[tuple[str, Finding]]:
    """Judge the way to InfluxDB.

    Args:
        facts: What is known of the machine.

    Returns:
        Findings, each with the name of what was looked at; at least one.
    """
    if facts.settings.configuration is None:
        return [(_NAME, Finding(Mark.SKIP, "not checked, because the configuration is wrong"))]
    written = facts.influxdb
    if written is None:
        return [(_NAME, Finding(Mark.SKIP, "none is configured, so no point is written"))]
    return [(_NAME, _server(written)), ("spool", _spool(written))]


def _server(written: InfluxdbFacts) -> Finding:
    where = f"{written.setting.url} (bucket {written.setting.bucket})"
    if written.mistake:
        return Finding(Mark.FAIL, written.mistake, "correct the configuration and check again")
    answer = written.answer
    if answer is None or answer.outcome is Outcome.WRITTEN:
        return Finding(Mark.OK, f"{where} took a point of the measurement rackwatt-check")
    failure = answer.failure or Failure.OTHER
    mark = Mark.WARN if failure in _PASSING else Mark.FAIL
    words = f"{_REFUSED}: {answer.words}" if failure is Failure.REFUSED_LINES else answer.words
    return Finding(mark, f"{where}: {words}", _ACTIONS.get(failure) or ADVICE[failure])


def _spool(written: InfluxdbFacts) -> Finding:
    if written.spool_mistake:
        return Finding(Mark.FAIL, written.spool_mistake, "mend it, or the agent does not start")
    if written.spool_writable:
        return Finding(Mark.OK, f"points wait in {written.spool_path} until the server has them")
    return Finding(
        Mark.FAIL,
        f"{written.spool_path} cannot be written by this user",
        f"create it for the agent's user, `install -d -m 0700 -o USER {written.spool_path}`, or give another"
        " `influxdb.spool.path`",
    )
