"""The state of a node over time: CONTRACTS §3, facts/rack.md §6."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collector.errors import ConfigurationError
from collector.health.maintenance import MaintenanceWindow, maintenance_reason
from collector.health.node_tracker import NodeTracker
from collector.health.rack_types import NodeStatus, NodeView, Poll, Reason
from collector.health.states import GpuState, Impact, NodeState
from collector.health.tracker_rules import TrackerRules
from collector.model import CheckResult
from tests.rack_builders import HOUR, SECOND, T0, failed_check, make_gpu, make_view

FABRIC = TrackerRules(fabric_required=True, gpus_expected=4)
WINDOW = MaintenanceWindow("m1", "r01", ("n01",), T0, T0 + HOUR, T0, "swap a fan", "ops")
MAINTENANCE = maintenance_reason(WINDOW, "n01")


class Story:
    """One node, told what happens."""

    def __init__(self, tracker: NodeTracker | None = None) -> None:
        self.tracker = tracker or NodeTracker("n01", FABRIC)
        self.now_ns = T0
        self.sequence = 0

    def good(self, view: NodeView | None = None, seconds: float = 5, **changes: object) -> NodeStatus:
        """Tell of a good poll."""
        self.sequence += 1
        said = replace(view or make_view(), sequence=self.sequence, **changes)  # type: ignore[arg-type]
        self.now_ns += int(seconds * SECOND)
        self.poll = Poll("n01", "n01:10072", view=said, last_good_ns=self.now_ns)
        return self.tracker.update(self.poll, self.now_ns)

    def silent(
        self, seconds: float = 5, *, witness: bool | None = None, error: str = "refused"
    ) -> NodeStatus:
        """Tell of a poll that is not good."""
        self.now_ns += int(seconds * SECOND)
        poll = replace(self.poll, error=error, witness=witness)
        return self.tracker.update(poll, self.now_ns)

    def clean(self, minutes: float) -> NodeStatus:
        """Tell of good polls for a while, the first of which begins it."""
        status = self.good()
        for _ in range(round(minutes * 12)):
            status = self.good()
        return status


def with_checks(*checks: CheckResult) -> NodeView:
    gpus = (make_gpu("n01", 0, checks), *(make_gpu("n01", index) for index in (1, 2, 3)))
    return replace(make_view(), gpus=gpus)


FATAL = with_checks(failed_check("gpu_xid_fatal", "fail"))
LOST = replace(
    make_view(),
    gpus=(*(make_gpu("n01", index) for index in (0, 1, 2)), make_gpu("n01", 3, up=False)),
)


def checks_of(status: NodeStatus) -> list[str]:
    return [reason.check for reason in status.reasons]


def test_a_node_that_answers_and_has_nothing_is_ready() -> None:
    status = Story().good()
    assert (status.state, status.schedulable, status.reasons) == (NodeState.READY, True, ())
    assert status.since_ns == T0 + 5 * SECOND


def test_a_node_that_was_never_polled_is_unknown() -> None:
    status = NodeTracker("n01", FABRIC).update(Poll("n01", "n01:10072"), T0)
    assert (status.state, status.schedulable) == (NodeState.UNKNOWN, False)
    assert status.reasons[0].text == "no good poll for 3 poll intervals: it was not polled yet"


# CONTRACTS §3: impact to state, and only `avoid` and `fail` take a node out.
@pytest.mark.parametrize(
    ("impact", "state", "schedulable"),
    [
        ("info", "READY", True),
        ("warn", "DEGRADED", True),
        ("avoid", "DEGRADED", False),
        ("fail", "FAILED", False),
    ],
)
def test_a_failed_check_by_its_impact(impact: str, state: str, schedulable: bool) -> None:
    status = Story().good(with_checks(failed_check("some_check", impact)))
    assert (status.state, status.schedulable) == (NodeState(state), schedulable)


# CONTRACTS §3: version skew, clock events, thermal margin and PCIe width are `warn`.
@pytest.mark.parametrize(
    "check", ["gpu_clock_events", "gpu_temperature_margin", "gpu_pcie_link", "version_skew"]
)
def test_what_is_warn_leaves_a_node_schedulable(check: str) -> None:
    for failed in (True, False):
        status = Story().good(with_checks(failed_check(check, "warn", failed=failed)))
        assert (status.state, status.schedulable) == (NodeState.DEGRADED, True)


@pytest.mark.parametrize("impact", ["avoid", "fail", "an impact of a newer agent"])
def test_a_check_without_an_answer_is_unknown_not_passed(impact: str) -> None:
    status = Story().good(with_checks(failed_check("some_check", impact, failed=False)))
    assert (status.state, status.schedulable) == (NodeState.UNKNOWN, False)


def test_an_impact_of_a_newer_agent_is_not_harmless() -> None:
    status = Story().good(with_checks(failed_check("some_check", "explode")))
    assert (status.state, status.schedulable) == (NodeState.DEGRADED, False)


def test_a_proven_failure_goes_before_a_check_without_an_answer() -> None:
    checks = (failed_check("gpu_xid_fatal", "fail"), failed_check("other", "fail", failed=False))
    assert Story().good(with_checks(*checks)).state is NodeState.FAILED


def test_reasons_stand_worst_first() -> None:
    checks = (failed_check("a", "warn"), failed_check("b", "fail"), failed_check("c", "avoid"))
    assert checks_of(Story().good(with_checks(*checks))) == ["b", "c", "a"]


def test_a_gpu_state_without_a_check_is_believed() -> None:
    gpus = tuple(replace(gpu, state=GpuState.UNKNOWN) for gpu in make_view().gpus)
    assert Story().good(gpus=gpus).state is NodeState.UNKNOWN
    gpus = tuple(replace(gpu, state=GpuState.DEGRADED) for gpu in make_view().gpus)
    assert Story().good(gpus=gpus).state is NodeState.DEGRADED
    gpus = tuple(replace(gpu, state=GpuState.FAILED) for gpu in make_view().gpus)
    story = Story()
    assert [story.good(gpus=gpus).state for _ in range(2)] == [NodeState.READY, NodeState.FAILED]


def test_a_missing_gpu_fails_the_node_with_the_second_good_poll() -> None:
    story = Story()
    assert story.good(LOST).state is NodeState.READY
    status = story.good(LOST)
    assert (status.state, status.reasons[0].check) == (NodeState.FAILED, "missing_gpu")
    assert status.reasons[0].text == "3 of 4 GPUs answer; lost: GPU 3"


def test_a_gpu_that_one_sweep_missed_fails_nothing() -> None:
    story = Story()
    assert [story.good(view).state for view in (LOST, make_view(), LOST, make_view())] == [
        NodeState.READY
    ] * 4


def test_one_snapshot_judged_twice_is_one_sample() -> None:
    story = Story()
    story.good(LOST)
    assert story.tracker.update(story.poll, story.now_ns + SECOND).state is NodeState.READY


@pytest.mark.parametrize("check", ["gpu_lost", "node_gpus_missing"])
def test_a_check_of_the_gpu_count_needs_two_good_polls_too(check: str) -> None:
    story = Story()
    view = with_checks(failed_check(check, "fail"))
    assert [story.good(view).state for _ in range(2)] == [NodeState.READY, NodeState.FAILED]


def test_fewer_gpus_than_the_platform_has_are_missing() -> None:
    story = Story()
    view = replace(make_view(gpus=3), gpus_expected=None)
    assert [story.good(view).state for _ in range(2)] == [NodeState.READY, NodeState.FAILED]


def test_a_replaced_gpu_is_not_missed() -> None:
    old = make_gpu("n01", 9, up=False)
    story = Story()
    assert [story.good(gpus=(*make_view().gpus, old)).state for _ in range(3)] == [NodeState.READY] * 3


# CONTRACTS §3: no good poll for three poll intervals, 15 s, makes the node UNKNOWN at once.
def test_silence_is_unknown_after_three_poll_intervals() -> None:
    story = Story()
    story.good()
    assert [story.silent().state.value for _ in range(4)] == ["READY", "READY", "READY", "UNKNOWN"]
    assert story.silent().reasons[0].text == "no good poll for 3 poll intervals: refused"


@pytest.mark.parametrize("reason", ["NVML is absent", "driver unloaded", "version mismatch", "released"])
def test_without_nvml_a_node_is_unknown_with_that_reason_not_short_of_gpus(reason: str) -> None:
    story = Story()
    story.good()
    lost = tuple(replace(gpu, up=False, state=GpuState.FAILED) for gpu in make_view().gpus)
    story.poll = replace(story.poll, view=replace(make_view(nvml_up=False, reason=reason), gpus=lost))
    status = story.silent(20, error="")
    assert (status.state, status.schedulable) == (NodeState.UNKNOWN, False)
    assert reason in status.reasons[0].text


def test_a_bad_snapshot_within_three_intervals_changes_nothing() -> None:
    story = Story()
    story.good(FATAL)
    story.poll = replace(story.poll, view=make_view(nvml_up=False, reason="reader restarts", sequence=9))
    assert story.silent(5).state is NodeState.FAILED


def test_old_fast_data_are_no_sample() -> None:
    story = Story()
    story.good()
    story.poll = replace(story.poll, view=replace(FATAL, sequence=99, fast_age_seconds=5.1))
    assert story.silent().state is NodeState.READY
    story.poll = replace(story.poll, view=replace(FATAL, sequence=99, fast_age_seconds=5.0))
    assert story.silent().state is NodeState.FAILED


@pytest.mark.parametrize(
    ("witness", "state"), [(True, NodeState.FAILED), (False, NodeState.UNKNOWN), (None, NodeState.UNKNOWN)]
)
def test_a_second_witness_alone_makes_a_silent_node_failed(witness: bool | None, state: NodeState) -> None:
    story = Story()
    story.good()
    assert story.silent(5, witness=witness).state is NodeState.READY
    status = story.silent(20, witness=witness)
    assert status.state is state
    assert ("witness" in checks_of(status)) is (witness is True)


def test_a_witness_that_answers_means_an_agent_problem() -> None:
    story = Story()
    story.good()
    assert "the agent is at fault" in story.silent(20, witness=False).reasons[0].text


def test_a_node_that_answers_needs_no_witness() -> None:
    story = Story()
    status = story.tracker.update(
        replace(Poll("n01", ""), view=make_view(), last_good_ns=T0, witness=True), T0
    )
    assert status.state is NodeState.READY


# Each state that applies gives way to those before it (CONTRACTS §3).
def test_the_first_state_that_applies() -> None:
    story = Story()
    story.good(FATAL)
    assert story.good(FATAL).state is NodeState.FAILED
    assert story.silent(20).state is NodeState.UNKNOWN
    assert story.silent(5, witness=True).state is NodeState.FAILED
    status = story.tracker.judge(story.now_ns, maintenance=MAINTENANCE)
    assert (status.state, status.schedulable) == (NodeState.MAINTENANCE, False)
    assert status.reasons[0].text == "declared maintenance m1: swap a fan (declared by ops)"


def test_leaving_failed_takes_ten_clean_minutes() -> None:
    story = Story()
    story.good(FATAL)
    status = story.clean(9.9)
    assert (status.state, checks_of(status)) == (NodeState.FAILED, ["recovering"])
    assert "gpu_xid_fatal" in status.reasons[0].text
    status = story.clean(0.2)
    assert (status.state, status.schedulable, status.reasons) == (NodeState.READY, True, ())


def test_a_relapse_begins_the_clean_minutes_anew() -> None:
    story = Story()
    story.good(FATAL)
    story.clean(9)
    story.good(FATAL)
    assert story.clean(9).state is NodeState.FAILED
    assert story.clean(1.1).state is NodeState.READY


def test_silence_is_not_clean() -> None:
    story = Story()
    story.good(FATAL)
    story.clean(9)
    story.silent(20)
    assert story.clean(9).state is NodeState.FAILED
    assert story.clean(1.1).state is NodeState.READY


def test_a_reboot_cures_what_a_reboot_cures() -> None:
    story = Story()
    story.good(FATAL)
    story.silent(60)
    assert story.good(boot_id="another boot").state is NodeState.READY


def test_a_reboot_does_not_cure_a_board() -> None:
    story = Story()
    story.good(with_checks(failed_check("gpu_row_remap_failure", "fail")))
    assert story.good(boot_id="another boot").state is NodeState.FAILED


def test_a_host_that_came_back_with_a_new_boot_is_ready() -> None:
    story = Story()
    story.good()
    assert story.silent(60, witness=True).state is NodeState.FAILED
    assert story.good(boot_id="another boot").state is NodeState.READY


def test_a_host_that_came_back_without_a_reboot_is_held() -> None:
    story = Story()
    story.good()
    story.silent(60, witness=True)
    assert story.good().state is NodeState.FAILED
    assert story.clean(10).state is NodeState.READY


def test_an_agent_that_restarts_within_a_boot_is_no_incident() -> None:
    story = Story()
    story.good()
    story.sequence = 0
    states = [story.silent().state, story.silent().state, story.good(agent_id="new").state]
    assert states == [NodeState.READY] * 3


def fail_and_recover(story: Story, times: int) -> NodeStatus:
    for _ in range(times):
        story.good(FATAL)
        status = story.clean(10)
    return status


# facts/rack.md §6: at least 3 entries into FAILED in 12 hours latch.
def test_three_failures_within_twelve_hours_latch() -> None:
    story = Story()
    status = fail_and_recover(story, 2)
    assert (status.state, status.latched) == (NodeState.READY, False)
    status = fail_and_recover(story, 1)
    assert (status.state, status.schedulable, status.latched) == (NodeState.DEGRADED, False, True)
    assert "end a declared maintenance" in status.reasons[0].action


def test_failures_further_apart_do_not_latch() -> None:
    story = Story()
    fail_and_recover(story, 2)
    story.now_ns += 12 * HOUR
    assert fail_and_recover(story, 1).latched is False


def test_reboots_that_cure_nothing_latch() -> None:
    story = Story()
    for boot in ("a", "b", "c"):
        status = story.good(FATAL, boot_id=boot)
    assert status.latched is True


def test_a_reboot_does_not_release_a_latch() -> None:
    story = Story()
    fail_and_recover(story, 3)
    assert story.good(boot_id="another boot").latched is True


def test_a_latch_is_released_by_hand() -> None:
    story = Story()
    fail_and_recover(story, 3)
    assert (story.tracker.release_latch(), story.tracker.release_latch()) == (True, False)
    assert story.good().schedulable is True
    assert fail_and_recover(story, 2).latched is False


def test_the_end_of_a_maintenance_releases_a_latch() -> None:
    story = Story()
    fail_and_recover(story, 3)
    story.tracker.judge(story.now_ns, maintenance=MAINTENANCE)
    assert story.good().schedulable is True


def test_what_fails_in_maintenance_is_no_entry() -> None:
    story = Story()
    for _ in range(5):
        story.good(FATAL)
        story.tracker.judge(story.now_ns, maintenance=MAINTENANCE)
    story = Story()
    story.tracker.judge(T0, maintenance=MAINTENANCE)
    for view in (FATAL, make_view()) * 3:
        story.sequence += 1
        poll = Poll("n01", "", view=replace(view, sequence=story.sequence), last_good_ns=T0)
        status = story.tracker.update(poll, T0, maintenance=MAINTENANCE)
    assert status.latched is False
    assert story.good(seconds=0).state is NodeState.READY


# CONTRACTS §3: a fabric in progress for less than 5 minutes is UNKNOWN.
def test_a_fabric_in_progress_is_unknown_for_five_minutes_then_failed() -> None:
    story = Story()
    for _ in range(59):
        status = story.good(fabric_complete=False)
    assert (status.state, status.schedulable, checks_of(status)) == (NodeState.UNKNOWN, False, ["fabric"])
    assert story.good(fabric_complete=False).state is NodeState.UNKNOWN
    status = story.good(fabric_complete=False)
    assert (status.state, status.reasons[0].impact) == (NodeState.FAILED, Impact.FAIL)


def test_links_that_are_down_while_the_fabric_is_in_progress_are_no_failure() -> None:
    story = Story()
    view = with_checks(
        failed_check("gpu_nvlinks_all_down", "fail"), failed_check("gpu_fabric_state", "fail", failed=False)
    )
    assert story.good(view, fabric_complete=False).state is NodeState.UNKNOWN
    assert story.good().state is NodeState.READY


def test_a_fabric_that_its_agent_saw_fail_is_failed_at_once() -> None:
    view = with_checks(failed_check("gpu_fabric_state", "fail", metric="gpu_fabric_state"))
    assert Story().good(view, fabric_complete=False).state is NodeState.FAILED


@pytest.mark.parametrize("changes", [{"fabric_complete": None}, {"cluster_uuid": ""}, {"clique": ""}])
def test_a_fabric_of_which_nothing_is_known_is_unknown(changes: dict[str, object]) -> None:
    assert Story().good(**changes).state is NodeState.UNKNOWN  # type: ignore[arg-type]  # fields of NodeView


def test_a_platform_without_a_fabric_needs_none() -> None:
    story = Story(NodeTracker("n01", TrackerRules()))
    status = story.good(fabric_complete=None, cluster_uuid="", clique="")
    assert (status.state, status.schedulable) == (NodeState.READY, True)


def test_a_finding_over_several_nodes_counts_like_a_check() -> None:
    tracker = NodeTracker("n01", FABRIC)
    poll = Poll("n01", "", view=make_view(), last_good_ns=T0)
    for impact, schedulable in ((Impact.WARN, True), (Impact.AVOID, False)):
        status = tracker.update(poll, T0, rack_findings=(Reason("version_skew", impact, "", "", node="n01"),))
        assert (status.state, status.schedulable) == (NodeState.DEGRADED, schedulable)


def restarted(story: Story) -> Story:
    """Return the story as a service that was restarted goes on with it."""
    memory = {"last_good_ns": story.now_ns, **story.tracker.export()}
    again = Story(NodeTracker("n01", FABRIC, memory))
    again.now_ns, again.sequence = story.now_ns, story.sequence
    return again


def test_a_restart_of_the_service_keeps_what_time_has_told() -> None:
    story = Story()
    fail_and_recover(story, 2)
    story.good(FATAL)
    since = story.good(FATAL).since_ns
    again = restarted(story)
    status = again.good()
    assert (status.state, status.since_ns, status.latched) == (NodeState.FAILED, since, True)
    assert again.clean(10).state is NodeState.DEGRADED


def test_a_restart_of_the_service_goes_on_with_the_clean_minutes() -> None:
    story = Story()
    story.good(FATAL)
    story.clean(9)
    assert restarted(story).clean(1.1).state is NodeState.READY


def test_a_long_absence_of_the_service_is_not_clean() -> None:
    story = Story()
    story.good(FATAL)
    story.clean(9)
    again = restarted(story)
    again.now_ns += HOUR
    assert again.clean(9).state is NodeState.FAILED


def test_a_reboot_while_the_service_was_away_is_noticed() -> None:
    story = Story()
    story.good(FATAL)
    assert restarted(story).good(boot_id="another boot").state is NodeState.READY


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"state": "HAPPY", "since_ns": "x", "entries_ns": [None, "1", -5, 2.5], "boot_id": 7},
        {"failed_checks": "no list", "latched_since_ns": True, "in_maintenance": 1, "clique": None},
    ],
)
def test_a_memory_that_is_none_is_forgotten(memory: dict[str, object]) -> None:
    status = Story(NodeTracker("n01", FABRIC, memory)).good()
    assert (status.state, status.latched) == (NodeState.READY, False)


def test_a_clock_that_steps_back_prolongs_nothing() -> None:
    story = Story()
    story.good(FATAL)
    story.clean(5)
    story.now_ns -= 2 * HOUR
    assert story.clean(10).state is NodeState.READY
    story.good(FATAL)
    assert story.tracker.export()["since_ns"] == story.now_ns


def test_a_poll_from_the_future_is_not_believed() -> None:
    story = Story()
    story.good()
    assert story.silent(-HOUR / SECOND).state is NodeState.UNKNOWN


@pytest.mark.parametrize("rule", ["poll_interval_seconds", "missed_polls", "clean_seconds", "flap_entries"])
def test_rules_that_cannot_be_followed_are_refused(rule: str) -> None:
    with pytest.raises(ConfigurationError, match=rule):
        replace(FABRIC, **{rule: 0})  # type: ignore[arg-type]  # a field of TrackerRules
