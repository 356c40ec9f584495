"""What all tests share: Hypothesis settings and programs that may be missing."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import settings

# No test asserts speed, so none has a deadline. CI repeats the same examples; elsewhere they vary.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Where a test finds its program, for the line that says why it was skipped.
DEBIAN_PACKAGE_OF = {
    "docker-compose": "docker-compose",
    "gcc": "gcc",
    "influxd": "influxdb",
    "node": "nodejs",
    "npm": "npm",
    "openssl": "openssl",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "systemd-analyze": "systemd",
    "victoria-metrics": "victoria-metrics",
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose `needs_program` is missing; fail it where `.ci/run` says all must be there."""
    for marker in item.iter_markers("needs_program"):
        for program in marker.args:
            if shutil.which(program) is None:
                reason = f"needs {program} (Debian package {DEBIAN_PACKAGE_OF[program]})"
                if os.environ.get("RACKWATT_TEST_NEEDS_ALL"):
                    pytest.fail(reason, pytrace=False)
                pytest.skip(reason)
