"""`rackwatt check`: every check on facts that are made up, and its exact words."""

from __future__ import annotations

import json

import pytest

from collector.cli.check import render_json, render_text
from collector.cli.checks import CHECKS
from collector.cli.facts import ConfigurationFacts, DriverFacts, Facts, NvmlFacts, PlaceFacts
from collector.cli.findings import Finding, Mark, summarize
from collector.config import AgentConfiguration
from collector.model import Value
from collector.readings import GpuIdentity, Layout, SeriesKey
from collector.sources.host.kmsg import why_not

JUDGES = {check.name: check.judge for check in CHECKS}

NO_GPU = Facts(
    settings=ConfigurationFacts(configuration=AgentConfiguration()),
    driver=DriverFacts(pci_gpus=0),
    nvml=NvmlFacts(reason="library_not_found", message="not found"),
)


def layout(
    present: int = 4, *, lost: int = 0, expected: int | None = 4, platform: str = "gb300-nvl72"
) -> Layout:
    return Layout(
        generation=1,
        blocks=(),
        gpus=tuple(
            GpuIdentity(f"GPU-{index}", index, index < present, {"name": "NVIDIA GB300"})
            for index in range(present + lost)
        ),
        driver_version="580.173.02",
        cuda_version="13.0",
        platform=platform,
        gpus_expected=expected,
    )


def of_gpus(name: str, values: list[Value]) -> dict[SeriesKey, Value]:
    return {(name, (str(index), f"GPU-{index}")): value for index, value in enumerate(values)}


def nvml(
    *values: dict[SeriesKey, Value], gpus: Layout | None = None, errors: dict[str, int] | None = None
) -> Facts:
    together = {key: value for each in values for key, value in each.items()}
    return Facts(nvml=NvmlFacts(layout=gpus or layout(), values=together, errors=errors or {}))


def broken(reason: str, message: str = "", driver: DriverFacts | None = None) -> Facts:
    return Facts(nvml=NvmlFacts(reason=reason, message=message), driver=driver or DriverFacts(pci_gpus=4))


def places(**values: str | bool) -> Facts:
    return Facts(places=PlaceFacts(**values))  # type: ignore[arg-type]  # literals of the cases below


LINKS_UP = of_gpus("gpu_nvlinks_up", [18, 18, 18, 18])
LINKS_EXPECTED = of_gpus("gpu_nvlinks_expected", [18, 18, 18, 18])

# Check, facts, mark, finding, and a part of the action (empty: there is none).
CASES: list[tuple[str, Facts, Mark, str, str]] = [
    ("installation", Facts(), Mark.OK, "no other distribution owns rackwatt's packages", ""),
    ("installation", Facts(installation_error="clash"), Mark.FAIL, "clash", ""),
    ("configuration", Facts(), Mark.OK, "no file is given, so defaults apply", ""),
    (
        "configuration",
        Facts(settings=ConfigurationFacts(origin="/etc/rackwatt/agent.yaml")),
        Mark.OK,
        "/etc/rackwatt/agent.yaml is valid",
        "",
    ),
    (
        "configuration",
        Facts(settings=ConfigurationFacts(mistakes=("f.yaml:1:1: a", "f.yaml:2:1: b"))),
        Mark.FAIL,
        "f.yaml:1:1: a\nf.yaml:2:1: b",
        "correct the configuration",
    ),
    (
        "GPUs on the bus",
        NO_GPU,
        Mark.FAIL,
        "no NVIDIA GPU is on the PCI bus of this machine",
        "rackwatt demo",
    ),
    ("GPUs on the bus", Facts(driver=DriverFacts(pci_gpus=1)), Mark.OK, "1 NVIDIA GPU on the PCI bus", ""),
    ("GPUs on the bus", Facts(driver=DriverFacts(pci_gpus=8)), Mark.OK, "8 NVIDIA GPUs on the PCI bus", ""),
    (
        "GPUs on the bus",
        Facts(driver=DriverFacts(pci_gpus=None)),
        Mark.SKIP,
        "not checked, because the PCI bus cannot be read here",
        "",
    ),
    (
        "GPUs on the bus",
        Facts(driver=DriverFacts(pci_gpus=0), nvml=NvmlFacts(layout=layout())),
        Mark.OK,
        "none on the PCI bus, yet NVML shows GPUs, as where they are virtual",
        "",
    ),
    (
        "kernel driver",
        Facts(driver=DriverFacts(kernel_version="580.173.02")),
        Mark.OK,
        "the NVIDIA kernel driver 580.173.02 is loaded",
        "",
    ),
    ("kernel driver", nvml(), Mark.OK, "not visible here, yet NVML answers", ""),
    ("kernel driver", NO_GPU, Mark.SKIP, "not loaded, and not needed without a GPU", ""),
    (
        "kernel driver",
        broken("driver_not_loaded"),
        Mark.FAIL,
        "the NVIDIA kernel driver is not loaded",
        "load it: `modprobe nvidia`",
    ),
    (
        "kernel driver",
        broken("driver_not_loaded", driver=DriverFacts(pci_gpus=4, container=True)),
        Mark.FAIL,
        "the NVIDIA kernel driver is not loaded",
        "load it on the host, not in this container: `modprobe nvidia`",
    ),
    ("NVML library", nvml(), Mark.OK, "the loader finds libnvidia-ml.so.1", ""),
    (
        "NVML library",
        broken("library_not_found"),
        Mark.FAIL,
        "the loader does not find libnvidia-ml.so.1",
        "Debian libnvidia-ml1",
    ),
    (
        "NVML library",
        broken(
            "library_not_found",
            driver=DriverFacts(pci_gpus=4, library_files=("/usr/local/nvidia/lib64/libnvidia-ml.so.1",)),
        ),
        Mark.FAIL,
        "the loader does not find libnvidia-ml.so.1, but /usr/local/nvidia/lib64/libnvidia-ml.so.1 exists",
        "echo /usr/local/nvidia/lib64 > /etc/ld.so.conf.d/nvidia.conf && ldconfig",
    ),
    (
        "NVML library",
        broken("library_not_found", driver=DriverFacts(pci_gpus=4, container=True)),
        Mark.FAIL,
        "the loader does not find libnvidia-ml.so.1",
        "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=utility",
    ),
    (
        "NVML library",
        broken("library_not_found", driver=DriverFacts(container=True, capabilities="compute,video")),
        Mark.FAIL,
        "the loader does not find libnvidia-ml.so.1",
        "NVIDIA_DRIVER_CAPABILITIES is 'compute,video' and lacks utility",
    ),
    (
        "NVML library",
        broken("library_not_found", driver=DriverFacts(container=True, capabilities="all")),
        Mark.FAIL,
        "the loader does not find libnvidia-ml.so.1",
        "docker run --gpus all",
    ),
    (
        "NVML library",
        NO_GPU,
        Mark.SKIP,
        "libnvidia-ml.so.1 is not installed, and not needed without a GPU",
        "",
    ),
    ("NVML", nvml(), Mark.OK, "NVML answers (driver 580.173.02, CUDA 13.0)", ""),
    ("NVML", NO_GPU, Mark.SKIP, "not checked, because its library is not found", ""),
    (
        "NVML",
        broken("driver_not_loaded"),
        Mark.FAIL,
        "NVML finds no loaded kernel driver",
        "modprobe nvidia",
    ),
    (
        "NVML",
        broken("version_mismatch"),
        Mark.FAIL,
        "the NVML library and the running kernel driver have different versions, as after a driver upgrade",
        "or reboot",
    ),
    (
        "NVML",
        broken("library_too_old"),
        Mark.FAIL,
        "libnvidia-ml.so.1 is there but is no usable NVML library",
        "branch 570 or later",
    ),
    (
        "NVML",
        broken("no_permission"),
        Mark.FAIL,
        "this user may not open the NVIDIA device files",
        "mode 0666",
    ),
    (
        "NVML",
        broken("unknown", driver=DriverFacts(closed_devices=("/dev/nvidiactl",))),
        Mark.FAIL,
        "this user may not open /dev/nvidiactl",
        "mode 0666",
    ),
    (
        "NVML",
        broken("no_answer", "NVML did not answer for 20 s: a call hangs"),
        Mark.FAIL,
        "NVML did not answer for 20 s: a call hangs",
        "Xid 119",
    ),
    ("NVML", broken("memory", "nvmlInit: error 20"), Mark.FAIL, "nvmlInit: error 20", "see `dmesg`"),
    ("NVML", Facts(), Mark.FAIL, "NVML answers but says nothing of GPUs", "see `dmesg`"),
    ("GPUs", nvml(), Mark.OK, "4 GPUs (NVIDIA GB300), as a node of gb300-nvl72 has", ""),
    (
        "GPUs",
        nvml(gpus=layout(3, lost=1)),
        Mark.FAIL,
        "3 GPUs (NVIDIA GB300), but a node of gb300-nvl72 has 4",
        "Xid 79",
    ),
    ("GPUs", nvml(gpus=layout(0)), Mark.FAIL, "NVML lists no GPU", "--gpus all"),
    (
        "GPUs",
        nvml(gpus=layout(1, expected=None, platform="")),
        Mark.WARN,
        "1 GPU (NVIDIA GB300); no platform profile has this product,"
        " so how many there should be is not known",
        "`platform:`",
    ),
    ("GPUs", NO_GPU, Mark.SKIP, "not checked, because NVML does not answer", ""),
    ("NVLink", nvml(LINKS_UP, LINKS_EXPECTED), Mark.OK, "all 72 NVLinks of 4 GPUs are up", ""),
    (
        "NVLink",
        nvml(of_gpus("gpu_nvlinks_up", [18, 17, 18, 0]), LINKS_EXPECTED),
        Mark.WARN,
        "NVLinks are down (GPU 1: 17 of 18 up; GPU 3: 0 of 18 up)",
        "nvidia-smi nvlink --status",
    ),
    ("NVLink", nvml(), Mark.OK, "these GPUs have no NVLink, or do not show it", ""),
    (
        "NVLink",
        nvml(of_gpus("gpu_nvlinks_up", [0]), of_gpus("gpu_nvlinks_expected", [0])),
        Mark.OK,
        "these GPUs have no NVLink, or do not show it",
        "",
    ),
    (
        "fabric",
        nvml({("gpu_fabric_state", ("0", "GPU-0", "completed")): 1}),
        Mark.OK,
        "the GPUs are registered with the NVLink fabric",
        "",
    ),
    (
        "fabric",
        nvml(
            {
                ("gpu_fabric_state", ("0", "GPU-0", "completed")): 1,
                ("gpu_fabric_state", ("1", "GPU-1", "in_progress")): 1,
                ("gpu_fabric_state", ("2", "GPU-2", "not_started")): 0,
            }
        ),
        Mark.WARN,
        "the NVLink fabric of a GPU is in the state in_progress",
        "wait five minutes",
    ),
    (
        "fabric",
        nvml({("gpu_fabric_state", ("0", "GPU-0", "not_started")): 1}),
        Mark.WARN,
        "the NVLink fabric of a GPU is in the state not_started",
        "systemctl start nvidia-fabricmanager",
    ),
    (
        "fabric",
        nvml(
            {
                ("gpu_fabric_state", ("0", "GPU-0", "completed")): 1,
                ("gpu_fabric_condition", ("0", "GPU-0", "route_unhealthy")): 1,
                ("gpu_fabric_condition", ("1", "GPU-1", "degraded_bandwidth")): 1,
                ("gpu_fabric_condition", ("1", "GPU-1", "access_timeout")): 0,
            }
        ),
        Mark.FAIL,
        "the NVLink fabric reports degraded_bandwidth, route_unhealthy",
        "nvidia-smi -q",
    ),
    (
        "fabric",
        nvml({("gpu_fabric_state", ("0", "GPU-0", "not_supported")): 1}),
        Mark.OK,
        "no NVLink fabric is supported here",
        "",
    ),
    (
        "activity",
        nvml(of_gpus("gpu_sm_active_ratio", [0.0])),
        Mark.OK,
        "activity of SMs, tensor cores and memory can be read",
        "",
    ),
    (
        "activity",
        nvml(),
        Mark.WARN,
        "activity of SMs, tensor cores and memory cannot be read; these values will be absent",
        "NVreg_RestrictProfilingToAdminUsers=0",
    ),
    (
        "activity",
        Facts(nvml=NvmlFacts(layout=layout()), is_root=True),
        Mark.OK,
        "these GPUs do not tell their activity, as before Hopper or under MIG",
        "",
    ),
    ("permissions", nvml(), Mark.OK, "nothing that is read asks for more rights", ""),
    (
        "permissions",
        nvml(errors={"no_permission": 8, "timeout": 1}),
        Mark.WARN,
        "NVML refused 8 values to this user; they will be absent",
        "as root",
    ),
    ("kernel log", Facts(), Mark.OK, "Xids are read from the kernel log, too", ""),
    (
        "kernel log",
        Facts(driver=DriverFacts(kernel_log_error=why_not(PermissionError()))),
        Mark.WARN,
        "/dev/kmsg may not be read: "
        "Xids come from NVML alone, without sub-code, link, or those before the agent",
        "grant CAP_SYSLOG",
    ),
    (
        "state",
        places(state_dir="/var/lib/rackwatt", state_reason="the default", state_writable=True),
        Mark.OK,
        "state is kept in /var/lib/rackwatt (the default)",
        "",
    ),
    (
        "state",
        places(state_dir="/srv/x", state_reason="as configured"),
        Mark.FAIL,
        "/srv/x cannot be written by this user",
        "install -d -o USER /srv/x",
    ),
    ("state", places(state_reason="HOME is not set"), Mark.FAIL, "HOME is not set", "state_dir"),
    ("state", Facts(), Mark.SKIP, "not checked, because the configuration is wrong", ""),
    ("address", places(listen="0.0.0.0:10072"), Mark.OK, "0.0.0.0:10072 is free", ""),
    (
        "address",
        places(listen="[::]:10072", listen_error="Address already in use"),
        Mark.FAIL,
        "[::]:10072 cannot be listened on: Address already in use",
        "ss -ltnp",
    ),
    (
        "address",
        places(listen="0.0.0.0:10072", listen_error="Address already in use", agent_listens=True),
        Mark.OK,
        "a rackwatt agent already answers on 0.0.0.0:10072",
        "",
    ),
    ("address", Facts(), Mark.SKIP, "not checked, because the configuration is wrong", ""),
]


@pytest.mark.parametrize(("name", "facts", "mark", "text", "action"), CASES)
def test_a_check_finds(name: str, facts: Facts, mark: Mark, text: str, action: str) -> None:
    finding = JUDGES[name](facts)
    assert (finding.mark, finding.text) == (mark, text)
    assert action in finding.action
    assert bool(action) == bool(finding.action)


def test_every_check_is_tested() -> None:
    assert {name for name, *_ in CASES} == set(JUDGES)


@pytest.mark.parametrize("name", ["GPUs", "NVLink", "fabric", "activity", "permissions"])
def test_what_needs_nvml_is_skipped_without_it(name: str) -> None:
    assert JUDGES[name](NO_GPU) == Finding(Mark.SKIP, "not checked, because NVML does not answer")


def test_no_bad_finding_is_without_a_way_out() -> None:
    for name, facts, *_ in CASES:
        finding = JUDGES[name](facts)
        # The message on a broken installation names its way out itself.
        if finding.mark in {Mark.WARN, Mark.FAIL} and name != "installation":
            assert finding.action, (name, finding)


OK, WARN, FAIL, SKIP = (Finding(mark, "x") for mark in (Mark.OK, Mark.WARN, Mark.FAIL, Mark.SKIP))


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        ([OK, SKIP], "All is well: `rackwatt agent` starts the agent."),
        ([OK, WARN], "The agent can run, with 1 warning: `rackwatt agent` starts it."),
        ([WARN, WARN], "The agent can run, with 2 warnings: `rackwatt agent` starts it."),
        ([FAIL, OK], "1 problem."),
        (
            [FAIL, FAIL, WARN],
            "2 problems and 1 warning: begin with the topmost, for those below may follow from it.",
        ),
    ],
)
def test_one_sentence_sums_up(findings: list[Finding], sentence: str) -> None:
    assert summarize(findings) == sentence


FINDINGS = [
    ("NVML", Finding(Mark.OK, "NVML answers")),
    ("NVLink", Finding(Mark.WARN, "links are down", "look at them")),
    ("configuration", Finding(Mark.FAIL, "f:1:1: a\nf:2:1: b", "correct it")),
    ("fabric", Finding(Mark.SKIP, "not checked")),
]


def test_the_text_has_shape_and_word_for_each_mark() -> None:
    assert render_text(FINDINGS, unicode=True) == (
        "✓ ok    NVML           NVML answers\n"
        "! warn  NVLink         links are down\n"
        "                       → look at them\n"
        "✗ FAIL  configuration  f:1:1: a\n"
        "                       f:2:1: b\n"
        "                       → correct it\n"
        "· skip  fabric         not checked\n"
        "\n"
        "1 problem and 1 warning."
    )


def test_the_text_needs_no_more_than_ascii() -> None:
    text = render_text(FINDINGS, unicode=False)
    assert text.isascii()
    assert [line[:6] for line in text.splitlines() if line[:1].strip()] == [
        "+ ok  ",
        "! warn",
        "x FAIL",
        "- skip",
        "1 prob",
    ]


def test_the_json_holds_the_same() -> None:
    document = json.loads(render_json(FINDINGS))
    assert document["good"] is False
    assert document["summary"] == "1 problem and 1 warning."
    assert document["findings"][1] == {
        "check": "NVLink",
        "mark": "warn",
        "finding": "links are down",
        "action": "look at them",
    }
    assert json.loads(render_json(FINDINGS[:2]))["good"] is True
