"""The loaded library: calls by name, what is missing, and what each failure of NVML as a whole means."""

from __future__ import annotations

import ctypes
import threading

import pytest

from collector.errors import NvmlUnavailableError
from collector.sources.nvml.library import initialize, open_library, raise_if_gone
from tests.scripted_nvml import answer, scripted


def test_calls_are_counted_and_a_missing_symbol_answers_as_nvml_does() -> None:
    nvml = scripted(nvmlShutdown=answer(0))
    assert nvml.call("nvmlShutdown") == 0
    assert nvml.call("nvmlDeviceGetMarginTemperature", None, None) == 13  # NVML_ERROR_FUNCTION_NOT_FOUND
    assert nvml.calls == 2


def test_only_functions_of_the_table_can_be_called() -> None:
    with pytest.raises(KeyError):
        scripted(nvmlDeviceReset=answer(0)).call("nvmlDeviceReset")


def test_calls_never_overlap() -> None:
    # Concurrent calls have crashed the driver, even for different GPUs (facts, trap T7).
    inside, overlaps = [0], []
    entered = threading.Barrier(4)

    def slow(*_arguments: object) -> int:
        inside[0] += 1
        overlaps.append(inside[0])
        threading.Event().wait(0.002)
        inside[0] -= 1
        return 0

    nvml = scripted(nvmlShutdown=slow)

    def work() -> None:
        entered.wait()
        for _ in range(5):
            nvml.call("nvmlShutdown")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [1] * 20


def test_a_missing_library_is_named_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> object:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(NvmlUnavailableError) as caught:
        open_library()
    assert caught.value.reason == "library_not_found"
    assert caught.value.needs_new_process is False
    assert "libnvidia-ml.so.1" in str(caught.value)
    assert "install the NVIDIA driver" in str(caught.value)


@pytest.mark.parametrize(
    ("code", "reason", "anew", "help_text"),
    [
        (9, "driver_not_loaded", False, "modprobe nvidia"),
        (4, "no_permission", False, "/dev/nvidiactl"),
        (18, "version_mismatch", True, "reload the driver or reboot"),
        (999, "unknown", False, "error 999 (unknown)"),
        (20, "memory", False, "error 20 (memory)"),
    ],
)
def test_why_nvml_cannot_be_initialized(code: int, reason: str, anew: bool, help_text: str) -> None:
    with pytest.raises(NvmlUnavailableError) as caught:
        initialize(scripted(nvmlInitWithFlags=answer(code)))
    assert (caught.value.reason, caught.value.needs_new_process) == (reason, anew)
    assert help_text in str(caught.value)
    assert str(caught.value).startswith("nvmlInit: ")


def test_older_drivers_are_initialized_by_their_own_function() -> None:
    initialize(scripted(nvmlInit_v2=answer(0)))
    with pytest.raises(NvmlUnavailableError) as caught:
        initialize(scripted())
    assert (caught.value.reason, caught.value.needs_new_process) == ("library_too_old", True)


def test_a_failure_of_one_value_is_no_failure_of_the_gpu() -> None:
    for code in (0, 2, 3, 4, 7, 10, 13, 16, 17, 20, 21, 25, 26, 999):
        raise_if_gone(code, "somewhere")
