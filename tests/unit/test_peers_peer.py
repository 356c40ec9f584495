"""What a rack service believes of an agent, and what it asks it next."""

from __future__ import annotations

from typing import Any

import pytest

from collector.catalog import BY_NAME
from collector.model import HistogramSample
from collector.sources.peers.document import PeerError, decode
from collector.sources.peers.peer import Answered, Peer
from tests.peer_agents import DIGEST, NOW_NS, address, decoded, event, fields, histogram, packed, without

SECOND_NS = 1_000_000_000


def take(peer: Peer, *, at: float = 0.0, **changes: Any) -> Answered:
    """Let a peer take an answer so many seconds after the beginning."""
    document = decoded(**changes)
    return peer.take(document, monotonic=100.0 + at, wall_ns=NOW_NS + int(at * SECOND_NS))


def refusal(peer: Peer, **changes: Any) -> str:
    with pytest.raises(PeerError) as caught:
        take(peer, **changes)
    return str(caught.value)


def test_an_agent_that_was_never_polled_is_known_as_that() -> None:
    poll = Peer(address()).poll(None)
    assert (poll.view, poll.last_good_ns, poll.error) == (None, None, "not polled yet")
    assert (poll.node, poll.address) == ("n01", "127.0.0.1:10072")


def test_a_good_answer_is_a_good_poll() -> None:
    peer = Peer(address())
    assert take(peer) is Answered.TAKEN
    poll = peer.poll(None)
    assert (poll.error, poll.last_good_ns) == ("", NOW_NS)
    assert poll.view is not None
    assert poll.samples.value("gpu_power_watts", "0", "GPU-0") == 412.3


def test_the_table_is_asked_for_once() -> None:
    peer = Peer(address())
    assert peer.query() == "after=0"
    take(peer)
    assert peer.query() == f"after=0&slots={DIGEST}"
    assert take(peer, slots=[["gpu_up", "0", "GPU-0"]], values=[1], slots_hash="ff") is Answered.TAKEN
    assert peer.query() == "after=0&slots=ff"


def test_an_answer_without_a_table_that_is_not_held_is_asked_for_again() -> None:
    peer = Peer(address())
    take(peer)
    bare = decode(packed(without(fields(slots_hash="ff"), "slots")))
    assert peer.take(bare, monotonic=101.0, wall_ns=NOW_NS) is Answered.ASK_AGAIN
    assert peer.query() == "after=0"
    assert peer.poll(None).error == ""


def test_values_that_do_not_fit_the_table_are_refused_and_the_table_asked_for_anew() -> None:
    peer = Peer(address())
    take(peer)
    assert refusal(peer, values=[1, 2]) == "the Snapshot has 2 values for 15 series"
    assert peer.query() == "after=0"
    assert peer.view is not None
    assert peer.last_good_ns == NOW_NS


@pytest.mark.parametrize(("name", "wrong"), [("rack", "r02"), ("node", "n02")])
def test_an_agent_of_another_rack_or_node_is_refused(name: str, wrong: str) -> None:
    reason = refusal(Peer(address()), **{name: wrong})
    assert reason.startswith(f"the agent says that its {name} is {wrong!r}, but ")
    assert "is expected at 127.0.0.1:10072; correct the agent's configuration" in reason


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (-86_401, "the agent's clock says 2025-11-29, 1.0 days behind ours"),
        (86_401, "the agent's clock says 2025-12-01, 1.0 days ahead of ours"),
        (-NOW_NS // SECOND_NS, "the agent's clock says 1970-01-01, 20422.5 days behind ours"),
    ],
)
def test_an_absurd_clock_is_refused(seconds: int, says: str) -> None:
    assert refusal(Peer(address()), time_ns=NOW_NS + seconds * SECOND_NS) == (
        f"{says}; set the clock of its host"
    )


def test_the_latest_time_that_can_be_written_is_refused() -> None:
    assert "clock says" in refusal(Peer(address()), time_ns=2**63 - 1)


def test_a_clock_that_is_off_by_hours_is_accepted() -> None:
    assert take(Peer(address()), time_ns=NOW_NS - 14 * 3600 * SECOND_NS) is Answered.TAKEN


def test_an_agent_that_answers_at_two_addresses_is_refused_at_the_second() -> None:
    peer = Peer(address())
    with pytest.raises(PeerError, match=r"the same agent answers at 10\.0\.0\.9:1, too"):
        peer.take(decoded(), monotonic=0.0, wall_ns=NOW_NS, claim=lambda _: "10.0.0.9:1")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nvml_up": False, "reason": "the driver is not loaded"}, "the driver is not loaded"),
        ({"nvml_up": False}, "the agent cannot read the GPUs through NVML"),
        ({"age_seconds": {}}, "the agent has not read the GPUs yet"),
        ({"age_seconds": {"fast": None}}, "the agent has not read the GPUs yet"),
        ({"age_seconds": {"fast": 7.25}}, "the fast data are 7.2 s old; 5 s at most are good"),
    ],
)
def test_a_poll_that_is_not_good_says_why_and_keeps_what_it_brought(
    changes: dict[str, Any], says: str
) -> None:
    peer = Peer(address())
    assert take(peer, **changes) is Answered.TAKEN
    poll = peer.poll(None)
    assert (poll.error, poll.last_good_ns) == (says, None)
    assert poll.view is not None


def test_fast_data_of_5_s_are_good() -> None:
    peer = Peer(address())
    take(peer, age_seconds={"fast": 5.0})
    assert peer.error == ""


def test_one_snapshot_that_is_answered_again_and_again_grows_old() -> None:
    peer = Peer(address())
    take(peer, seq=9)
    take(peer, at=4.0, seq=9)
    assert peer.error == ""
    take(peer, at=8.0, seq=9)
    assert peer.error == "the fast data are 8.0 s old; 5 s at most are good"
    take(peer, at=9.0, seq=10)
    assert peer.error == ""


def test_failing_keeps_the_view_and_drops_the_samples() -> None:
    peer = Peer(address())
    take(peer)
    peer.fail("no answer")
    poll = peer.poll(None)
    assert (poll.error, poll.last_good_ns, list(poll.samples)) == ("no answer", NOW_NS, [])
    assert poll.view is not None


def test_histograms_are_known_while_the_agent_answers() -> None:
    peer = Peer(address())
    assert peer.poll(None).histograms == ()
    take(peer, histograms=[histogram()])
    expected = HistogramSample(
        BY_NAME["llm_time_to_first_token_seconds"],
        ("decode-0", "vllm", "a/model", "engine"),
        (0.5, 1.0),
        (3, 4, 6.0),
        4.75,
    )
    assert peer.poll(None).histograms == (expected,)
    assert peer.poll(None, with_events=False).histograms == (expected,)
    peer.fail("no answer")
    assert peer.poll(None).histograms == ()
    take(peer, at=1.0, seq=2, histograms=[histogram()])
    assert peer.poll(None).histograms == (expected,)
    take(peer, at=2.0, seq=3)
    assert peer.poll(None).histograms == ()


@pytest.mark.parametrize(
    "newer",
    [
        histogram(metric="llm_queue_seconds"),
        histogram(metric="gpu_power_watts"),
        histogram(metric="llm_tokens_total", labels=["a", "b", "c", "d", "e"]),
        histogram(labels=["decode-0", "vllm", "a/model"]),
        histogram(labels=["decode-0", "vllm", "a/model", "engine", "lora"]),
    ],
)
def test_histograms_of_a_newer_agent_are_skipped(newer: list[object]) -> None:
    peer = Peer(address())
    assert take(peer, histograms=[newer, histogram()]) is Answered.TAKEN
    assert [each.sum for each in peer.poll(None).histograms] == [4.75]


def test_a_series_under_the_name_of_a_histogram_is_skipped() -> None:
    peer = Peer(address())
    slots = [["llm_time_to_first_token_seconds", "a", "b", "c", "d"], ["node_gpus_expected"]]
    take(peer, slots=slots, values=[1, 2])
    assert [sample.metric.name for sample in peer.poll(None).samples] == ["node_gpus_expected"]


def test_a_histogram_that_stands_twice_is_refused_and_nothing_of_it_taken() -> None:
    peer = Peer(address())
    take(peer)
    reason = refusal(peer, at=1.0, seq=2, histograms=[histogram(), histogram(sum=5)])
    assert reason == (
        "the histogram 'llm_time_to_first_token_seconds decode-0 vllm a/model engine' stands twice"
    )
    assert peer.view is not None
    assert peer.view.sequence == 1


def test_each_event_is_handed_over_once() -> None:
    peer = Peer(address())
    take(peer, events={"next": 2, "items": [event(1), event(2, code=94)]})
    assert peer.query().startswith("after=2")
    take(peer, at=1.0, seq=2, events={"next": 3, "items": [event(2, code=94), event(3, code=13)]})
    assert [each.code for each in peer.poll(None).events] == [79, 94, 13]
    assert peer.poll(None).events == ()


def test_events_wait_until_they_are_asked_for() -> None:
    peer = Peer(address())
    take(peer, events={"next": 1, "items": [event(1)]})
    assert peer.poll(None, with_events=False).events == ()
    assert [each.cursor for each in peer.poll(None).events] == [1]


def test_events_that_cannot_have_happened_are_left_out() -> None:
    peer = Peer(address())
    impossible = [
        event(1, time_ns=NOW_NS + 2 * 86_400 * SECOND_NS),
        event(2, time_ns=0),
        event(3, time_ns=-5),
        event(4),
    ]
    take(peer, events={"next": 4, "items": impossible})
    assert [each.cursor for each in peer.poll(None).events] == [4]
    assert peer.query().startswith("after=4")


def test_more_events_than_fit_are_asked_for_later() -> None:
    peer = Peer(address())
    flood = [event(cursor) for cursor in range(1, 6001)]
    take(peer, events={"next": 6000, "items": flood})
    more = [event(cursor) for cursor in range(6001, 12_001)]
    take(peer, at=1.0, seq=2, events={"next": 12_000, "items": more})
    assert peer.query().startswith("after=10000&")
    assert len(peer.poll(None).events) == 10_000


def test_a_restarted_agent_begins_its_events_anew() -> None:
    peer = Peer(address())
    take(peer, events={"next": 7, "items": [event(7)]})
    peer.poll(None)
    # Its answer to `after=7` may leave out what happened since: nothing is concluded from it.
    assert take(peer, agent_id="agent-2", seq=1) is Answered.ASK_AGAIN
    assert peer.query().startswith("after=0&")
    again = {"next": 1, "items": [event(1, code=62)]}
    assert take(peer, agent_id="agent-2", seq=2, events=again) is Answered.TAKEN
    assert [each.code for each in peer.poll(None).events] == [62]


def test_a_restarted_agent_without_earlier_events_is_taken_at_once() -> None:
    peer = Peer(address())
    take(peer)
    assert take(peer, agent_id="agent-2", boot_id="boot-2", seq=1) is Answered.TAKEN
    assert peer.view is not None
    assert (peer.view.agent_id, peer.view.boot_id) == ("agent-2", "boot-2")


def test_ipv6_hosts_stand_in_brackets() -> None:
    assert address(host="fd00::1").authority == "[fd00::1]:10072"
