"""The Xid catalogue, lines of the kernel log, and the join with NVML's events."""

from __future__ import annotations

import pytest

from collector.accounts import Accounts
from collector.event_log import EventLog
from collector.health.evaluate import Checker
from collector.health.kernel_log import XidLine, parse_xid, pci_address
from collector.health.xid_memory import SeenXid
from collector.health.xids import Severity, XidOverride, load_catalogue
from collector.model import Event
from collector.readings import GpuIdentity, Incident, KernelRecord

CATALOGUE = load_catalogue()

CLASSES: dict[str, set[int]] = {
    # facts/rack.md §2
    "app": {13, 31, 43, 45, 137},
    "fatal": {48, 64, 74, 79, 95, 109, 119, 120, 136, 140, 143, 150, 151, 155, 156, 158},
    "warn": {63, 92, 94, 121, 122, 123, 124, 125, 157, 159, 160, 161, 163, 164, 165},
    "info": {138, 139, 147, 148, 152, 153, 154, 162, *range(166, 173)},
    "by_subcode": {144, 145, 146, 149},
}


@pytest.mark.parametrize(
    ("severity", "number"),
    [(severity, number) for severity, numbers in CLASSES.items() for number in numbers],
)
def test_class_of_an_xid(severity: str, number: int) -> None:
    assert CATALOGUE.find(number).severity == severity


@pytest.mark.parametrize(
    ("number", "immediate", "investigate"),
    [
        (13, "RESTART_APP", "WORKFLOW_XID_13"),
        (31, "RESTART_APP", "WORKFLOW_XID_31"),
        (43, "IGNORE", "CONTACT_SUPPORT"),
        (79, "RESTART_BM", "CONTACT_SUPPORT"),
        (109, "RESET_GPU", "CONTACT_SUPPORT"),
        (119, "RESET_GPU", "INVESTIGATE_SW"),
        (136, "RESET_GPU", "INVESTIGATE_LINK_SI"),
        (151, "RESTART_VM", "CONTACT_SUPPORT"),
        (160, "IGNORE", "INVESTIGATE_SW"),
    ],
)
def test_actions_of_an_xid(number: int, immediate: str, investigate: str) -> None:
    row = CATALOGUE.find(number)
    assert (row.immediate, row.investigate) == (immediate, investigate)


def test_every_row_has_words_for_what_to_do() -> None:
    assert all(row.action and row.name for row in CATALOGUE.rows.values())
    assert CATALOGUE.find(95).action == "reset the GPU"
    assert CATALOGUE.find(154).action == "nothing; watch whether it repeats"


@pytest.mark.parametrize(
    ("number", "subcode", "word", "severity"),
    [
        (149, "NETIR_LINK_EVT", "Fatal", "fatal"),
        (149, "NETIR_LINK_EVT", "Nonfatal", "info"),
        (149, "NETIR_BER_EVENT", "Fatal", "info"),  # non-fatal in every row of the catalogue
        (149, "", "", "fatal"),  # NVML gives the number alone
        (145, "RLW_SRC_TRACK", "Fatal", "fatal"),
        (145, "RLW_SRC_TRACK", "Nonfatal", "info"),
        (145, "RLW_RXPIPE", "Fatal", "info"),
        (145, "", "", "warn"),
        (146, "A_NEW_ONE", "Fatal", "fatal"),
        (150, "MSE_WATCHDOG", "Nonfatal", "fatal"),
        (79, "", "", "fatal"),
    ],
)
def test_class_of_one_event(number: int, subcode: str, word: str, severity: Severity) -> None:
    assert CATALOGUE.find(number).severity_of(subcode, word) == severity


def test_an_xid_that_the_catalogue_lacks_is_of_the_hardware() -> None:
    assert CATALOGUE.find(999).severity_of("", "") == "warn"
    assert CATALOGUE.find(999).action == "ask NVIDIA's support"


def test_overrides_change_what_they_name_and_nothing_else() -> None:
    changed = CATALOGUE.overridden(
        {94: XidOverride(severity="fatal"), 149: XidOverride(severity="warn", repeat=3)}
    )
    assert changed.find(94).severity == "fatal"
    assert changed.find(94).repeat == CATALOGUE.find(94).repeat
    assert changed.find(149).severity_of("NETIR_LINK_EVT", "Fatal") == "warn"
    assert changed.find(149).repeat == 3
    assert changed.find(79) == CATALOGUE.find(79)
    assert CATALOGUE.find(94).severity == "warn"
    assert CATALOGUE.overridden({900: XidOverride(severity="info")}).find(900).severity == "info"


# Lines of the kernel log.

NETIR = "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            XidLine((0, 0x3B, 0), 79, detail="pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        ),
        (
            f"NVRM: Xid (PCI:0009:01:00): {NETIR}",
            XidLine((9, 1, 0), 149, "NETIR_LINK_EVT", "Fatal", 1, NETIR.removeprefix("149, ")),
        ),
        (
            "NVRM: Xid (PCI:0000:00:1e): 149, NETIR_LINK_EVT Nonfatal XC 1 i 2 Link 17 [0x0000000a]",
            XidLine(
                (0, 0, 0x1E),
                149,
                "NETIR_LINK_EVT",
                "Nonfatal",
                17,
                "NETIR_LINK_EVT Nonfatal XC 1 i 2 Link 17 [0x0000000a]",
            ),
        ),
        (
            "NVRM: Xid (PCI:0000:04:00): 145, pid=4, name=?, RLW_SRC_TRACK Fatal XC0 i1 Link 00 (0x1)",
            XidLine(
                (0, 4, 0),
                145,
                "RLW_SRC_TRACK",
                "Fatal",
                0,
                "pid=4, name=?, RLW_SRC_TRACK Fatal XC0 i1 Link 00 (0x1)",
            ),
        ),
        (
            "NVRM: Xid (PCI:0000:3f:00): 150, MSE_WATCHDOG Fatal XC0 i0",
            XidLine((0, 0x3F, 0), 150, "MSE_WATCHDOG", "Fatal", None, "MSE_WATCHDOG Fatal XC0 i0"),
        ),
        ("NVRM: Xid (PCI:0000:3f:00): 46", XidLine((0, 0x3F, 0), 46)),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", XidLine((0, 3, 0), 14, detail="Channel 00000001")),
        (
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 31, pid=1, name=a",
            XidLine((0, 0x3B, 0), 31, detail="pid=1, name=a"),
        ),
        # A process may call itself what it likes: only an NVLink Xid has a sub-code.
        (
            "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=NETIR Fatal XC0 i0 Link 3, MMU",
            XidLine((0, 0x3B, 0), 31, detail="pid=1, name=NETIR Fatal XC0 i0 Link 3, MMU"),
        ),
        ("NVRM: GPU at PCI:0000:66:00: GPU-12345678-1234-5678-9abc-def012345678", None),
        ("NVRM: Xid : 32, pid=2280636", None),
        ("NVRM: Xid (PCI:0000:66:00): abc, pid=2280636", None),
        ("NVRM: Xid (PCI:0000:66:00): 123456, too long", None),
        ("app[1]: NVRM: Xid (PCI:0000:66:00): 79, not of the driver", None),
        ("", None),
    ],
)
def test_lines_of_the_kernel_log(text: str, line: XidLine | None) -> None:
    assert parse_xid(text) == line


def test_the_detail_of_a_line_is_bounded_and_printable() -> None:
    line = parse_xid("NVRM: Xid (PCI:0000:3b:00): 31, name=\x1b[31m\n" + "x" * 5000)
    assert line is not None
    assert line.detail.startswith("name=\ufffd[31m\ufffdxxx")
    assert len(line.detail) == 200


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:3B:00.0", (0, 0x3B, 0)),
        ("00000018:06:00.0", (0x18, 6, 0)),
        ("0008:06:00", (8, 6, 0)),
        ("", None),
        ("nonsense", None),
    ],
)
def test_bus_ids(bus_id: str, address: tuple[int, int, int] | None) -> None:
    assert pci_address(bus_id) == address


# One event of what two sides tell.

SECOND_NS = 1_000_000_000
NOON_NS = 1_764_504_000_000_000_000
GPUS = (
    GpuIdentity("GPU-a", 0, True, {"pci_bus_id": "00000009:01:00.0"}),
    GpuIdentity("GPU-b", 1, False, {"pci_bus_id": "00000000:3B:00.0"}),
)


class Told:
    """An event log that is told of Xids, each at a second after noon."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.log = EventLog(self.accounts, Checker())
        self.log.know(GPUS)

    def nvml(self, second: float, code: int = 149, uuid: str = "GPU-a") -> None:
        self.log.note(Incident(NOON_NS + int(second * SECOND_NS), "xid", uuid, code))

    def kernel(
        self, second: float, text: str = f"NVRM: Xid (PCI:0009:01:00): {NETIR}", *, counted: bool = False
    ) -> None:
        line = parse_xid(text)
        assert line is not None
        self.log.note_line(line, KernelRecord(1, NOON_NS + int(second * SECOND_NS), text), counted=counted)

    def fatal(self) -> SeenXid | None:
        return self.log._checker._memories["GPU-a"].xids.fatal

    def counts(self) -> dict[tuple[str, ...], object]:
        rows = self.accounts.rows({})
        return {series.labels: value for series, value in rows if series.metric.name == "gpu_xid_total"}


def full(cursor: int, second: float) -> Event:
    return Event(
        cursor=cursor,
        time_ns=NOON_NS + int(second * SECOND_NS),
        kind="xid",
        gpu_uuid="GPU-a",
        gpu="0",
        code=149,
        severity="fatal",
        subcode="NETIR_LINK_EVT",
        link=1,
        detail=NETIR.removeprefix("149, "),
    )


def test_the_kernel_log_tells_first() -> None:
    told = Told()
    told.kernel(0)
    told.nvml(0.8)
    assert told.log.events == (full(1, 0),)
    assert told.counts() == {("0", "GPU-a", "149"): 1}


def test_nvml_tells_first() -> None:
    told = Told()
    told.nvml(0.8)
    assert [(event.code, event.link, event.severity) for event in told.log.events] == [(149, None, "fatal")]
    told.kernel(0)
    assert told.log.events == (full(1, 0),)  # with the time of the record
    assert told.counts() == {("0", "GPU-a", "149"): 1}


def at(second: float) -> int:
    return NOON_NS + int(second * SECOND_NS)


def test_an_event_is_shown_once_it_is_whole() -> None:
    told = Told()
    told.kernel(0, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, GPU has fallen off the bus.")
    told.nvml(1)
    told.kernel(1.2, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=a, a fault")
    # 149 waits for its line, and 31 behind it, as a cursor that has passed an event does not come back.
    assert [event.code for event in told.log.settled(at(1.3))] == [79]
    told.kernel(1.3)
    assert told.log.settled(at(1.4))[1] == full(2, 1.3)
    assert [event.code for event in told.log.settled(at(1.4))] == [79, 149, 31]


def test_an_event_without_a_line_is_shown_all_the_same() -> None:
    told = Told()
    told.nvml(0)
    assert told.log.settled(at(1.4)) == ()
    assert [event.code for event in told.log.settled(at(1.5))] == [149]


def test_nvml_alone_tells() -> None:
    told = Told()
    told.nvml(0)
    assert told.log.events == (Event(1, NOON_NS, "xid", "GPU-a", "0", 149, "fatal"),)
    assert told.counts() == {("0", "GPU-a", "149"): 1}


def test_the_kernel_log_alone_tells() -> None:
    told = Told()
    told.kernel(0)
    assert told.log.events == (full(1, 0),)
    assert told.counts() == {("0", "GPU-a", "149"): 1}


def test_a_late_event_of_nvml_is_the_line_of_before() -> None:
    told = Told()
    told.kernel(0)
    told.nvml(59)  # a call of the driver had hung meanwhile
    assert len(told.log.events) == 1
    told.kernel(100)
    told.nvml(161)
    assert len(told.log.events) == 3


def test_a_line_that_is_far_from_nvml_s_event_is_another_xid() -> None:
    told = Told()
    told.nvml(0)
    told.kernel(6)
    assert len(told.log.events) == 2
    assert told.counts() == {("0", "GPU-a", "149"): 2}


def test_each_line_takes_one_event_of_nvml() -> None:
    told = Told()
    for link in (0, 1, 2):
        told.kernel(link / 10)
    for _ in range(4):
        told.nvml(0.5)
    told.kernel(0.6)
    assert len(told.log.events) == 4
    assert told.counts() == {("0", "GPU-a", "149"): 4}


def test_gpus_and_numbers_do_not_mix() -> None:
    told = Told()
    told.kernel(0)
    told.nvml(0, code=79)
    told.nvml(0, uuid="GPU-b")
    assert len(told.log.events) == 3


def test_a_gpu_that_is_missing_is_still_known_by_its_address() -> None:
    told = Told()
    told.kernel(0, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, GPU has fallen off the bus.")
    assert [(event.gpu, event.gpu_uuid, event.severity) for event in told.log.events] == [
        ("1", "GPU-b", "fatal")
    ]


def test_a_gpu_that_nobody_knows_gets_an_event_and_no_count() -> None:
    told = Told()
    told.kernel(0, "NVRM: Xid (PCI:0000:ff:00): 79, gone")
    assert told.log.events == (Event(1, NOON_NS, "xid", "", "", 79, "fatal", detail="PCI 0000:ff:00: gone"),)
    assert told.counts() == {}


def test_what_an_agent_before_has_counted_is_known_to_the_checks_alone() -> None:
    told = Told()
    told.kernel(0, counted=True)
    assert told.log.events == ()
    assert told.counts() == {}
    assert told.fatal() is not None


def test_a_line_withdraws_what_the_number_alone_made_fatal() -> None:
    told = Told()
    told.nvml(0)
    assert told.fatal() is not None
    told.kernel(0, "NVRM: Xid (PCI:0009:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 02 (0x1)")
    assert told.fatal() is None
    assert [(event.severity, event.subcode, event.link) for event in told.log.events] == [
        ("info", "NETIR_BER_EVENT", 2)
    ]


def test_a_gpu_that_returns_is_an_event_and_cures() -> None:
    told = Told()
    told.kernel(0)
    told.log.note(Incident(NOON_NS, "gpu_returned", "GPU-a"))
    assert [event.kind for event in told.log.events] == ["xid", "gpu_returned"]
    assert told.fatal() is None


def test_events_are_bounded_and_cursors_go_on() -> None:
    told = Told()
    for second in range(1100):
        told.nvml(second)
    assert (len(told.log.events), told.log.events[-1].cursor) == (1000, 1100)
