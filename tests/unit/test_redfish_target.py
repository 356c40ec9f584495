"""Which Redfish services may be asked, and as whom."""

from __future__ import annotations

import pytest

from collector.errors import ConfigurationError
from collector.sources.bounded_http import tls_context
from collector.sources.redfish import RedfishTarget, default_name
from collector.sources.redfish.client import check_path
from collector.sources.redfish.documents import Sensor, decode, watts
from collector.sources.redfish.target import RedfishError


def secret() -> str:
    return "open-sesame"


def test_a_target_never_shows_its_password() -> None:
    target = RedfishTarget(name="shelf-1", url="https://shelf-1", user="monitor", password=secret)
    assert "open-sesame" not in repr(target)
    assert "secret" not in repr(target)
    assert str(target.origin) == "https://shelf-1"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://shelf-1", "shelf-1"),
        ("https://shelf-1/", "shelf-1"),
        ("https://[fd00::1]:8443", "[fd00::1]:8443"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
    ],
)
def test_a_shelf_is_called_by_its_host_as_configured(url: str, name: str) -> None:
    assert default_name(url) == name
    RedfishTarget(name=name, url=url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("shelf-1", "'shelf-1' is no address; write one such as https://shelf-1"),
        ("ftp://shelf-1", "'ftp://shelf-1' is no address"),
        ("https://", "'https://' is no address"),
        ("https://shelf-1:99999", "'https://shelf-1:99999' is no address"),
        ("https://shelf-1/redfish/v1", "begins at /redfish/v1/ of its host (DSP0266); write https://shelf-1"),
        ("https://shelf-1/?a=b", "begins at /redfish/v1/"),
        ("https://shelf-1/#a", "begins at /redfish/v1/"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RedfishTarget(name="s", url=url)
    assert said in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="the address holds a user or password") as caught:
        RedfishTarget(name="s", url="https://monitor:open-sesame@shelf-1")
    assert "open-sesame" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_a_password_may_go_to_this_machine_in_the_open(host: str) -> None:
    RedfishTarget(name="s", url=f"http://{host}:8000", user="monitor", password=secret)


def test_a_password_may_go_nowhere_else_in_the_open() -> None:
    with pytest.raises(ConfigurationError, match="a password would travel in the open; write https://"):
        RedfishTarget(name="s", url="http://shelf-1", user="monitor", password=secret)
    RedfishTarget(name="s", url="http://shelf-1")


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="go together"):
        RedfishTarget(name="s", url="https://shelf-1", user="monitor")
    with pytest.raises(ConfigurationError, match="go together"):
        RedfishTarget(name="s", url="https://shelf-1", password=secret)
    with pytest.raises(ConfigurationError, match="has no colon or control"):
        RedfishTarget(name="s", url="https://shelf-1", user="a:b", password=secret)
    with pytest.raises(ConfigurationError, match="`ca_file` is for https only"):
        RedfishTarget(name="s", url="http://shelf-1", ca_file="/etc/ca.pem")


def test_certificates_that_cannot_be_read_are_told() -> None:
    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem: holds no certificates that can be used"):
        tls_context("/nowhere/ca.pem")


@pytest.mark.parametrize(
    "path",
    [
        "/redfish/v1/Chassis/1U",
        "/redfish/v1/Chassis/a@b:c/Sensors/p%20q",
        "/redfish/v1/Chassis?$skip=50",
        "/redfish/v1/Chassis/..x",
    ],
)
def test_paths_of_redfish_are_followed(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "https://elsewhere/redfish/v1/Chassis",
        "//elsewhere/redfish/v1/Chassis",
        "redfish/v1/Chassis",
        "/admin",
        "/redfish/../admin",
        "/redfish/v1/%2e%2E/admin",
        "/redfish/v1/..",
        "/redfish/v1/Chassis#fragment",
        "/redfish/v1/Chassis\r\nHost: elsewhere",
        "/redfish/v1/Chassis\\..\\admin",
        "/redfish/v1/Chässis",
    ],
)
def test_paths_that_lead_elsewhere_are_not_followed(path: str) -> None:
    with pytest.raises(RedfishError, match="only paths below /redfish/ of the same service are followed"):
        check_path(path)


@pytest.mark.parametrize("number", [b"-1", b"1e7", b"18446744073709551616", b"1" + b"0" * 400])
def test_a_power_that_cannot_be_is_refused_however_many_digits_it_has(number: bytes) -> None:
    sensor = decode(b'{"Reading": ' + number + b"}", Sensor)
    with pytest.raises(RedfishError, match=r"^/redfish/v1/x: a power of \S{1,40} W cannot be"):
        watts(sensor.reading, "/redfish/v1/x")
