"""`rackwatt check`: the facts are those of the machine, here of folders and sockets made for it."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.cli import probes
from collector.cli.checks import CHECKS
from collector.cli.facts import Facts, NvmlFacts
from collector.cli.simulation import begin, open_simulated
from collector.config import AgentConfiguration, Listen, can_create_directory
from collector.errors import NvmlUnavailableError
from collector.readings import Batch, Block, Layout, Reading
from collector.sources.nvml.library import NvmlLibrary


def plant(root: Path, path: str, text: str = "") -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def plant_pci(root: Path, address: str, vendor: str, kind: str) -> None:
    plant(root, f"sys/bus/pci/devices/{address}/vendor", f"{vendor}\n")
    plant(root, f"sys/bus/pci/devices/{address}/class", f"{kind}\n")


def test_gpus_are_counted_on_the_pci_bus(tmp_path: Path) -> None:
    # Vendor 0x10de is NVIDIA; class 0x0302 a 3D controller, 0x0300 VGA, 0x0680 an NVSwitch's bridge,
    # 0x0403 a graphics card's sound (pci.ids).
    plant_pci(tmp_path, "0008:06:00.0", "0x10de", "0x030200")
    plant_pci(tmp_path, "0009:06:00.0", "0x10de", "0x030200")
    plant_pci(tmp_path, "0000:01:00.0", "0x10de", "0x030000")
    plant_pci(tmp_path, "0000:01:00.1", "0x10de", "0x040300")
    plant_pci(tmp_path, "0000:02:00.0", "0x10de", "0x068000")
    plant_pci(tmp_path, "0000:03:00.0", "0x1002", "0x030000")
    assert probes.driver_facts({}, tmp_path).pci_gpus == 3


def test_a_bus_that_is_not_there_is_unknown_and_not_empty(tmp_path: Path) -> None:
    assert probes.driver_facts({}, tmp_path).pci_gpus is None
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    assert probes.driver_facts({}, tmp_path).pci_gpus == 0


def test_driver_and_library_are_found(tmp_path: Path) -> None:
    plant(tmp_path, "sys/module/nvidia/version", "580.173.02\n")
    plant(tmp_path, "usr/local/nvidia/lib64/libnvidia-ml.so.1")
    facts = probes.driver_facts({"NVIDIA_DRIVER_CAPABILITIES": "compute"}, tmp_path)
    assert facts.kernel_version == "580.173.02"
    assert facts.library_files == (f"{tmp_path}/usr/local/nvidia/lib64/libnvidia-ml.so.1",)
    assert facts.capabilities == "compute"


def test_a_machine_without_a_driver_has_none(tmp_path: Path) -> None:
    facts = probes.driver_facts({}, tmp_path)
    assert (facts.kernel_version, facts.library_files, facts.closed_devices) == ("", (), ())


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_containers_are_recognized_by_their_files(tmp_path: Path, mark: str) -> None:
    assert not probes.driver_facts({}, tmp_path).container
    plant(tmp_path, mark)
    assert probes.driver_facts({}, tmp_path).container


@pytest.mark.parametrize("variable", ["KUBERNETES_SERVICE_HOST", "container"])
def test_containers_are_recognized_by_their_environment(tmp_path: Path, variable: str) -> None:
    assert probes.driver_facts({variable: "x"}, tmp_path).container


def test_nvml_that_does_not_answer_is_given_up() -> None:
    never = threading.Event()

    def hang() -> NvmlFacts:
        never.wait()
        return NvmlFacts()

    facts = probes.within(0.05, hang)
    never.set()
    assert facts.reason == "no_answer"
    assert facts.message == "NVML did not answer for 0.05 s: a call hangs"


def test_nvml_that_answers_is_waited_for() -> None:
    expected = NvmlFacts(reason="x")
    assert probes.within(60.0, lambda: expected) is expected


def test_readings_become_the_newest_value_of_each_series() -> None:
    up, power = ("gpu_up", ("0", "GPU-0")), ("gpu_power_watts", ("0", "GPU-0"))
    layout = Layout(1, (Block("fast", (up, power)),), (), "580", "13.0", "", None)
    first = Reading(
        taken_at=1.0,
        generation=1,
        up=True,
        batches=(Batch(0, [1, None]),),
        errors={"no_permission": 2, "timeout": 1},
    )
    second = Reading(
        taken_at=2.0, generation=1, up=True, batches=(Batch(0, [1, 412.3]),), errors={"no_permission": 1}
    )
    facts = probes.facts_of([(layout, first), (None, second)])
    assert facts.layout is layout
    assert facts.values == {up: 1, power: 412.3}
    # Errors count once a reading; more readings are not more values that cannot be read.
    assert facts.errors == {"no_permission": 2, "timeout": 1}


def test_a_free_address_can_be_listened_on_and_a_taken_one_cannot() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Listen("127.0.0.1", taken.getsockname()[1])
        assert probes.why_not_listen(address) == "Address already in use"
    assert probes.why_not_listen(address) == ""
    assert probes.why_not_listen(Listen("127.0.0.1", 0)) == ""


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    # 192.0.2.0/24 is for documentation: RFC 5737.
    assert probes.why_not_listen(Listen("192.0.2.1", 0)) == "Cannot assign requested address"


class Page(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b'rackwatt_agent_nvml_up{rack="r01"} 1\n', True), (b"node_cpu_seconds_total 1\n", False), (b"", False)],
)
def test_an_agent_is_told_from_another_program(body: bytes, expected: bool) -> None:
    handler = type("Handler", (Page,), {"body": body})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert probes.agent_answers(Listen("127.0.0.1", server.server_port)) is expected
        thread.join()


def test_nobody_is_no_agent() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert not probes.agent_answers(Listen("127.0.0.1", closed.getsockname()[1]))


def test_state_can_be_kept_where_the_first_folder_that_exists_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert can_create_directory(str(tmp_path / "a/b/c"))
    assert not can_create_directory(str(file / "a"))


def test_places_are_those_of_the_configuration(tmp_path: Path) -> None:
    configuration = AgentConfiguration(listen=Listen("127.0.0.1", 0), state_dir=str(tmp_path))
    facts = probes.place_facts(configuration, {})
    assert (facts.listen, facts.listen_error, facts.agent_listens) == ("127.0.0.1:0", "", False)
    assert (facts.state_dir, facts.state_reason, facts.state_writable) == (
        str(tmp_path),
        "as configured",
        True,
    )


def test_a_configuration_that_is_wrong_is_told_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("rak: r01\nlevel: max\n")
    facts = probes.configuration_facts(str(file), {})
    assert facts.configuration is None
    assert [line.removeprefix(str(file)) for line in facts.mistakes] == [
        ":1:1: rak: unknown key; did you mean 'rack'?",
        ":2:8: level: 'max' is unknown; valid are core, standard, full",
    ]


def test_device_files_that_this_user_may_not_open_are_named(tmp_path: Path) -> None:
    # /dev/null stands for the device files, which only root can make.
    plant(tmp_path, "dev/nvidia1", "no device")
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).symlink_to("/dev/null")
    assert probes.driver_facts({}, tmp_path, lambda _: True).closed_devices == ()
    assert probes.driver_facts({}, tmp_path, lambda _: False).closed_devices == (
        f"{tmp_path}/dev/nvidia0",
        f"{tmp_path}/dev/nvidiactl",
    )


def simulated(platform: str, *faults: str) -> Callable[[], NvmlLibrary]:
    simulation = begin(platform, rack="r01", tray=0, workload="decode", faults=faults)
    return lambda: open_simulated(simulation)


GPU_CHECKS = ("NVML", "GPUs", "NVLink", "fabric", "activity", "permissions")


def judged(facts: NvmlFacts) -> dict[str, tuple[str, str]]:
    findings = {check.name: check.judge(Facts(nvml=facts)) for check in CHECKS if check.name in GPU_CHECKS}
    return {name: (finding.mark.value, finding.text) for name, finding in findings.items()}


def test_a_healthy_simulated_tray_is_found_healthy() -> None:
    # GB300 NVL72: 4 GPUs a tray, 18 links a GPU; driver of the capture 580.173.02, whose CUDA is 13.0.
    assert judged(probes.nvml_facts(AgentConfiguration(), simulated("gb300-nvl72"))) == {
        "NVML": ("ok", "NVML answers (driver 580.173.02, CUDA 13.0)"),
        "GPUs": ("ok", "4 GPUs (NVIDIA GB300), as a node of gb300-nvl72 has"),
        "NVLink": ("ok", "all 72 NVLinks of 4 GPUs are up"),
        "fabric": ("ok", "the GPUs are registered with the NVLink fabric"),
        "activity": ("ok", "activity of SMs, tensor cores and memory can be read"),
        "permissions": ("ok", "nothing that is read asks for more rights"),
    }


def test_faults_of_a_simulated_node_are_found() -> None:
    opener = simulated("hgx-h100", "gpu_lost:gpu=2", "link_down:gpu=0,link=4")
    found = judged(probes.nvml_facts(AgentConfiguration(), opener))
    assert found["GPUs"] == ("FAIL", "7 GPUs (NVIDIA H100 80GB HBM3), but a node of hgx-h100 has 8")
    assert found["NVLink"] == ("warn", "NVLinks are down (GPU 0: 17 of 18 up)")


def test_a_driver_that_is_not_there_is_found() -> None:
    facts = probes.nvml_facts(AgentConfiguration(), simulated("gb300-nvl72", "driver_unloaded"))
    assert (facts.reason, facts.layout) == ("driver_not_loaded", None)


def test_a_library_that_is_not_there_is_found() -> None:
    def missing() -> NvmlLibrary:
        raise NvmlUnavailableError("library_not_found", "not found")

    facts = probes.nvml_facts(AgentConfiguration(), missing)
    assert facts == NvmlFacts(reason="library_not_found", message="not found")
