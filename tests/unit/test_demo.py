"""`rackwatt demo`: its story can happen, its words say what they should, and its agents find their ports."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import shlex
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from collector import profiles
from collector.cli import demo
from collector.cli.demonstration.agents import DemoAgent, open_agents
from collector.cli.demonstration.nodes import Beginning, DemoNode, cast, open_surroundings
from collector.cli.demonstration.play import Tempo, play
from collector.cli.demonstration.story import (
    STAGES,
    STORY,
    Scene,
    ScriptedFault,
    Silence,
    Stage,
    fault_texts,
)
from collector.cli.demonstration.welcome import Places, commands, welcome
from collector.config import Listen
from collector.errors import ConfigurationError
from collector.health.states import Verdict
from collector.health.verdict import CliqueCount, default_min_block, judge_rack
from collector.simulator import FaultKind, parse_fault

LOOPBACK = "127.0.0.1"
PLACES = Places(rack_service="127.0.0.1:10073", first_agent="127.0.0.1:10074", token_file="/tmp/x/api.token")  # noqa: S106, S108 -- a name, not a secret; nothing is written there


# The story.


def test_the_racks_are_a_whole_nvl72_and_four_hgx_nodes() -> None:
    r01, r02 = STAGES
    profile = profiles.load(r01.platform)
    # 18 compute trays of 4 GPUs with 18 links: 72 GPUs and 1,296 links.
    assert (len(r01.nodes), profile.gpus_per_node, profile.nvlink.links_per_gpu) == (18, 4, 18)
    assert (r01.nodes[0], r01.nodes[-1]) == ("n01", "n18")
    assert (r02.nodes, profiles.load(r02.platform).gpus_per_node) == (("h01", "h02", "h03", "h04"), 8)


def test_no_two_nodes_have_one_name() -> None:
    names = [node for stage in STAGES for node in stage.nodes]
    assert len(set(names)) == len(names) == 22


def test_every_scene_is_about_a_node_that_exists_and_in_order() -> None:
    nodes = {(stage.rack, node) for stage in STAGES for node in stage.nodes}
    assert {(scene.rack, scene.node) for scene in STORY} <= nodes
    times = [scene.at_seconds for scene in STORY]
    assert times == sorted(times)
    # Whoever watches has seen everything begin within three minutes.
    assert times[-1] < 180
    assert all(scene.faults or scene.silence or scene.maintenance_seconds for scene in STORY)


def test_what_was_promised_happens() -> None:
    kinds = {fault.kind for scene in STORY for fault in scene.faults}
    assert {FaultKind.GPU_LOST, FaultKind.LINK_DOWN, FaultKind.ENGINE_RESTART} <= kinds
    assert any(scene.silence for scene in STORY)
    assert any(scene.maintenance_seconds for scene in STORY)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.rack)
@pytest.mark.parametrize("speed", [0.1, 1.0, 8.0])
def test_every_fault_can_happen_on_its_platform(stage: Stage, speed: float) -> None:
    profile = profiles.load(stage.platform)
    for node in stage.nodes:
        for text in fault_texts(STORY, stage.rack, node, speed):
            parse_fault(text).check(profile)


def test_faults_of_a_node_come_at_the_speed_of_the_story() -> None:
    scene = Scene(
        at_seconds=30,
        rack="r01",
        node="n03",
        what="",
        shows="",
        faults=(
            ScriptedFault(FaultKind.LINK_DOWN, "gpu=1,link=9", 10.0, 12.0),
            ScriptedFault(FaultKind.GPU_LOST, "gpu=2"),
        ),
    )
    # (30 + 10) / 4 = 10, 12 / 4 = 3; 30 / 4 = 7.5 and for ever.
    expected = ("link_down:gpu=1,link=9,start=10.000,duration=3.000", "gpu_lost:gpu=2,start=7.500")
    assert fault_texts((scene,), "r01", "n03", 4.0) == expected
    assert fault_texts((scene,), "r01", "n04", 4.0) == ()
    assert fault_texts((scene,), "r02", "n03", 4.0) == ()


def test_a_fault_of_a_whole_node_names_no_place() -> None:
    fault = ScriptedFault(FaultKind.ENGINE_RESTART, "", lasts_seconds=20.0)
    scene = Scene(at_seconds=60, rack="r01", node="n10", what="", shows="", faults=(fault,))
    assert fault_texts((scene,), "r01", "n10", 4.0) == ("engine_restart:start=15.000,duration=5.000",)


def test_the_flapping_link_comes_up_between_its_failures_and_stays_down_at_last() -> None:
    flaps = [
        parse_fault(text)
        for text in fault_texts(STORY, "r01", "n03", 1.0)
        if text.startswith(FaultKind.LINK_DOWN)
    ]
    for flap, after in itertools.pairwise(flaps):
        assert flap.duration_seconds is not None
        # Down and up for longer than a sweep of the links takes to come round (`sampling.links`: 10 s).
        assert flap.duration_seconds > 10
        assert after.start_seconds - flap.start_seconds - flap.duration_seconds > 10
    assert flaps[-1].duration_seconds is None


def test_a_silence_is_long_enough_to_be_noticed_and_to_be_missed() -> None:
    (silence,) = [scene.silence for scene in STORY if scene.silence is not None]
    # UNKNOWN after three polls of 5 s (CONTRACTS §3), seen again within one more; at the highest speed, too.
    assert silence.lasts_seconds / 8 == 15
    assert silence.period_seconds - silence.lasts_seconds >= 120


@pytest.mark.parametrize(
    ("count", "verdict"),
    [
        # What the scenes say they show, by the table of CONTRACTS §3 for 18 trays.
        (CliqueCount(17), Verdict.AVAILABLE),
        (CliqueCount(16, maintenance=1), Verdict.AVAILABLE),
        (CliqueCount(15, unknown=1, maintenance=1), Verdict.MAINTENANCE),
    ],
)
def test_the_verdicts_that_the_story_names_are_those_of_the_rules(
    count: CliqueCount, verdict: Verdict
) -> None:
    block = default_min_block(nodes=18, largest_clique=18, rack_wide_fabric=True)
    assert judge_rack({"q": count}, block) is verdict


# Its words.


def printed(speed: float = 1.0, places: Places = PLACES) -> str:
    return welcome(STAGES, STORY, statuses=(), places=places, speed=speed)


def test_it_says_what_is_simulated_and_how_to_end_it() -> None:
    lines = printed().splitlines()
    assert lines[:2] == [
        "r01: a simulated NVIDIA GB300 NVL72, 18 compute trays, 72 GPUs, 1,296 NVLinks",
        "r02: a simulated NVIDIA HGX H200, 4 nodes, 32 GPUs, 576 NVLinks",
    ]
    assert lines[-1] == "Ctrl-C ends it."


def test_every_address_is_a_real_one() -> None:
    places = Places(rack_service="[::1]:80", first_agent="[::1]:81", token_file="/x")  # noqa: S106 -- a name
    assert set(re.findall(r"http://[^/\s]+", printed(places=places))) == {
        "http://[::1]:80",
        "http://[::1]:81",
    }


def test_every_scene_is_told_with_its_time() -> None:
    text = printed(speed=5.0)
    assert "What happens, in seconds after the start (its minutes have 12 s each):" in text
    for scene in STORY:
        # At five times the speed 105 s are 21 s.
        assert f"{scene.at_seconds / 5:5.0f}  {scene.rack} {scene.node}: {scene.what}." in text
        assert f"         {scene.shows}." in text
    assert "What happens, in seconds after the start:" in printed()


def test_command_lines_are_words_for_a_shell_and_stand_in_the_text() -> None:
    lines = commands(PLACES)
    assert 6 <= len(lines) <= 12
    text = printed()
    for line in lines:
        assert shlex.split(line)[0] == "curl"
        assert f"  {line}\n" in text


# Its arguments.


def test_by_default_it_serves_on_loopback_and_in_real_time() -> None:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    arguments = parser.parse_args([])
    assert (arguments.listen, arguments.speed) == (Listen(LOOPBACK, 10073), 1.0)


@pytest.mark.parametrize("text", ["fast", "0", "-1", "9", "nan", "inf", ""])
def test_a_speed_that_cannot_be_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([f"--speed={text}"])
    assert f"{text!r} is not a number from 0.1 to 8, such as 2" in capsys.readouterr().err


# Its agents.


SMALL = (Stage("r01", "gb300-nvl72", "idle", ("n01", "n02")),)


def beginning() -> Beginning:
    return Beginning(time.monotonic(), time.time_ns())


def nodes() -> tuple[DemoNode, ...]:
    return cast(SMALL, STORY, speed=1.0, beginning=beginning())


@asynccontextmanager
async def opened(listen: Listen, folder: Path) -> AsyncIterator[tuple[DemoAgent, ...]]:
    async with open_agents(nodes(), listen=listen, directory=folder, engines={}) as agents:
        yield agents


def test_nodes_come_in_order_and_with_their_faults() -> None:
    everyone = cast(STAGES, STORY, speed=4.0, beginning=beginning())
    assert len(everyone) == 22
    n10 = everyone[9]
    assert (n10.rack, n10.node, n10.simulation.tray, n10.simulation.workload) == ("r01", "n10", 9, "decode")
    # 60 s and 20 s at four times the speed.
    assert n10.simulation.faults == ("engine_restart:start=15.000,duration=5.000",)
    h01 = everyone[18]
    assert (h01.rack, h01.node, h01.simulation.tray, h01.simulation.platform) == ("r02", "h01", 0, "hgx-h200")


def test_agents_take_the_next_free_ports(tmp_path: Path) -> None:
    async def check() -> None:
        with socket.socket() as taken:
            taken.bind((LOOPBACK, 0))
            taken.listen()
            port = taken.getsockname()[1]
            async with opened(Listen(LOOPBACK, port - 1), tmp_path) as agents:
                ports = [each.http.port for each in agents]
                assert port < ports[0] < ports[1]
                assert [(each.rack, each.node) for each in agents] == [("r01", "n01"), ("r01", "n02")]

    asyncio.run(check())


def test_an_agent_that_falls_silent_comes_back_where_it_was(tmp_path: Path) -> None:
    async def check() -> None:
        async with opened(Listen(LOOPBACK, 0), tmp_path) as agents:
            http = agents[0].http
            port = http.port
            await http.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(LOOPBACK, port)
            await http.start()
            assert http.port == port
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("listen", "words"),
    [
        # 192.0.2.0/24 is for documentation and nobody's (RFC 5737).
        (Listen("192.0.2.1", 10073), r"cannot listen on 192\.0\.2\.1:10074"),
        (Listen(LOOPBACK, 65535), r"no free port for an agent above 127\.0\.0\.1:65535"),
    ],
)
def test_an_address_that_cannot_be_is_refused_at_once(listen: Listen, words: str, tmp_path: Path) -> None:
    async def check() -> None:
        async with opened(listen, tmp_path):
            raise AssertionError("it was opened")

    with pytest.raises(ConfigurationError, match=words):
        asyncio.run(check())


# What stands beside its nodes.


async def ask(url: str) -> str:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.get(url) as response,
    ):
        assert response.status == 200
        return await response.text()


def test_every_tray_that_serves_has_an_engine_and_every_nvl72_its_shelves() -> None:
    async def check() -> None:
        everyone = cast(STAGES, STORY, speed=1.0, beginning=beginning())
        async with open_surroundings(everyone) as beside:
            assert list(beside.engines) == [("r01", node) for node in STAGES[0].nodes]
            assert {setting.gpus for setting in beside.engines.values()} == {(0, 1, 2, 3)}
            # vLLM new and old, SGLang: as trays take turns.
            texts = [await ask(beside.engines["r01", node].url) for node in ("n01", "n02", "n03")]
            for text, name in zip(
                texts,
                ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
                strict=True,
            ):
                assert f"\n{name}{{" in f"\n{text}"
            # 8 shelves of an NVL72 (its profile), each a Redfish service of its own; none of HGX nodes.
            assert len(set(beside.shelves["r01"])) == 8
            assert not beside.shelves.get("r02")
            for url in beside.shelves["r01"]:
                assert "/redfish/v1/Chassis" in await ask(f"{url}/redfish/v1/")
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(beside.engines["r01", "n01"].url)

    asyncio.run(check())


# What is played.


class Recorder:
    """A server and a rack service that write down what is asked of them."""

    def __init__(self, *, refusals: int = 0) -> None:
        self.said: list[str] = []
        self.enough = asyncio.Event()
        self._refusals = refusals

    async def start(self) -> None:
        if self._refusals:
            self._refusals -= 1
            self.said.append("refused")
            raise ConfigurationError("the port is taken")
        self.said.append("start")
        if self.said.count("start") == 2:
            self.enough.set()

    async def close(self) -> None:
        self.said.append("close")

    async def create_maintenance(
        self,
        rack: str,
        *,
        ends_ns: int,
        starts_ns: int | None = None,
        nodes: Iterable[str] = (),
        reason: str = "",
        created_by: str = "",
    ) -> object:
        begins = "now" if starts_ns is None else "later"
        hours = round((ends_ns - time.time_ns()) / 3.6e12)
        self.said.append(f"{rack} {','.join(nodes)} {begins} for {hours} h: {reason} ({created_by})")
        self.enough.set()
        return None


def played(scene: Scene, recorder: Recorder) -> list[str]:
    """Play one scene a thousand times as fast, until the recorder has enough."""

    async def run() -> None:
        stop = asyncio.Event()
        tempo = Tempo(time.monotonic(), 1000.0)
        servers = {(scene.rack, scene.node): recorder}
        playing = asyncio.create_task(play((scene,), tempo, recorder, servers, stop))
        async with asyncio.timeout(30):
            await recorder.enough.wait()
            stop.set()
            await playing

    asyncio.run(run())
    return recorder.said


def test_a_maintenance_is_declared_from_now_on_and_in_real_hours() -> None:
    scene = Scene(
        at_seconds=1,
        rack="r01",
        node="n03",
        what="",
        shows="",
        maintenance_seconds=8 * 3600.0,
        maintenance_reason="cable",
    )
    assert played(scene, Recorder()) == ["r01 n03 now for 8 h: cable (the demo)"]


def silent_scene() -> Scene:
    return Scene(at_seconds=1, rack="r01", node="n12", what="", shows="", silence=Silence(20.0, 50.0))


def test_an_agent_falls_silent_again_and_again() -> None:
    assert played(silent_scene(), Recorder())[:4] == ["close", "start", "close", "start"]


def test_an_agent_whose_port_is_taken_meanwhile_comes_back_later() -> None:
    assert played(silent_scene(), Recorder(refusals=1))[:3] == ["close", "refused", "start"]
