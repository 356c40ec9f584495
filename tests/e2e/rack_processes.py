"""A rack of real processes: agents of simulated trays, each on a host of its own, and a rack service."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.programs import MODULE, PATIENCE_SECONDS, REPOSITORY, environment

PLATFORM = "gb300-nvl72"
TRAYS = 18
TOKEN = "token-of-the-end-to-end-test"  # noqa: S105 # guards a server on the loopback for one test

_STOP_SECONDS = 15.0
_ANSWER_SECONDS = 10.0
_STEP_SECONDS = 0.1

Body = dict[str, Any]  # a JSON document


def until(what: str, condition: Callable[[], object], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for a condition; fail with what it was last if it does not come true."""
    deadline = time.monotonic() + seconds
    while not (last := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}; last: {last!r}"
        time.sleep(_STEP_SECONDS)


class Loopback:
    """A network of 254 hosts in 127.0.0.0/8 that no other run uses at the same time."""

    def __init__(self) -> None:
        """Choose it by this process's number."""
        high, low = divmod(os.getpid() % 65_000, 256)
        self._prefix = f"127.{high + 1}.{low}"

    def host(self, number: int) -> str:
        """Address of a host, 1 to 254."""
        return f"{self._prefix}.{number}"

    def free_port(self) -> int:
        """A port on which nothing listens, on none of the hosts."""
        with socket.socket() as listener:
            listener.bind((self.host(254), 0))
            port: int = listener.getsockname()[1]
            return port


class Process:
    """One process of this project, ended by its pid."""

    def __init__(self, arguments: Sequence[str], folder: Path, name: str) -> None:
        """Start it; its log goes to `NAME.log`, its temporary files stay in the folder."""
        self.log_file = folder / f"{name}.log"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*MODULE, *arguments],
                cwd=REPOSITORY,
                env=environment(TMPDIR=str(folder)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C reaches the test alone, which ends them
            )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.runs, f"it has ended by itself:\n{self.log}"
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it on the spot, as a power cut would."""
        if self.runs:
            self._process.kill()
        self._process.wait(_STOP_SECONDS)

    def terminate(self) -> int:
        """End it by SIGTERM; return its exit status."""
        self.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until it has ended; return its exit status."""
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it has not ended within {_STOP_SECONDS:g} s:\n{self.log}") from None


class Tray:
    """A compute tray: its agent, and what was done to it."""

    def __init__(self, number: int, host: str, port: int, folder: Path, settings: str = "") -> None:
        """Begin without an agent; `heal` starts one.

        Args:
            number: Index from 0; the node is called n01 and so on.
            host: Address of its host.
            port: Port of its agent.
            folder: Where logs go.
            settings: Lines of its configuration besides the rack's name.
        """
        self.node = f"n{number + 1:02d}"
        self.host = host
        self.port = port
        self._number = number
        self._folder = folder
        self._settings = settings
        self._agent: Process | None = None
        self._stopped = False
        self._faults: tuple[str, ...] = ()

    @property
    def agent(self) -> Process:
        """The agent's process."""
        assert self._agent is not None
        return self._agent

    @property
    def runs(self) -> bool:
        """Whether the agent runs."""
        return self._agent is not None and self._agent.runs

    def start(self, *faults: str) -> None:
        """Start the agent, with faults as on the command line."""
        settings = self._folder / "agent.yaml"
        settings.write_text(f"rack: r01\n{self._settings}", encoding="utf-8")
        self._faults = faults
        self._agent = Process(
            [
                *("agent", "--config", str(settings), "--listen", f"{self.host}:{self.port}", "--inline"),
                *("--simulate", PLATFORM, "--tray", str(self._number)),
                *(part for fault in faults for part in ("--fault", fault)),
            ],
            self._folder,
            self.node,
        )

    def restart(self, *faults: str) -> None:
        """Kill the agent and start it anew."""
        self.kill()
        self.start(*faults)

    def kill(self) -> None:
        """Kill the agent."""
        if self._agent is not None:
            self._agent.kill()
        self._stopped = False

    def stop(self) -> None:
        """Let the agent hang: it neither answers nor refuses."""
        self.agent.send(signal.SIGSTOP)
        self._stopped = True

    def go_on(self) -> None:
        """Let a stopped agent go on."""
        self.agent.send(signal.SIGCONT)
        self._stopped = False

    def heal(self) -> None:
        """Make it run without faults."""
        if self._stopped:
            self.go_on()
        if not self.runs or self._faults:
            self.restart()

    @property
    def ready(self) -> bool:
        """Whether the agent serves fresh data."""
        assert self.agent.runs, f"the agent of {self.node} has ended:\n{self.agent.log}"
        return get(self.host, self.port, "/-/ready")[0] == http.client.OK


class Trays:
    """All trays of the rack."""

    def __init__(self, network: Loopback, folder: Path, *, count: int = TRAYS, settings: str = "") -> None:
        """Begin without agents; `heal` starts them."""
        port = network.free_port()
        self.network = network
        self.all = tuple(
            Tray(number, network.host(number + 1), port, folder, settings) for number in range(count)
        )
        self._by_node = {tray.node: tray for tray in self.all}

    def __getitem__(self, node: str) -> Tray:
        """The tray of a node."""
        return self._by_node[node]

    def heal(self) -> None:
        """Make all agents run without faults, and wait until they do."""
        for tray in self.all:
            tray.heal()
        for tray in self.all:
            until(f"{tray.node} is ready", lambda tray=tray: tray.ready, seconds=60)  # type: ignore[misc] # bound

    def end(self) -> list[int]:
        """End all that run by SIGTERM; return their exit statuses."""
        running = [tray.agent for tray in self.all if tray.runs]
        for agent in running:
            agent.send(signal.SIGCONT)
            agent.send(signal.SIGTERM)
        return [agent.wait() for agent in running]

    def kill(self) -> None:
        """Kill all that run."""
        for tray in self.all:
            tray.kill()


class RackService:
    """A `rackwatt rack` over the trays, polling each second; its state outlives its process."""

    def __init__(
        self,
        trays: Trays,
        folder: Path,
        *,
        agents: Sequence[str] = (),
        rack: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Write its configuration; nothing runs before `start`.

        Args:
            trays: The trays of its rack.
            folder: Where configuration, ledger and log go.
            agents: Where it is to find their agents, if something stands between: `n01=127.0.0.1:4000`.
            rack: Further settings of the rack.
            settings: Further settings of the service.
        """
        self.host = trays.network.host(100)
        self.port = trays.network.free_port()
        self.witness_port = trays.network.free_port()
        self._folder = folder
        self._process: Process | None = None
        self.token_file = folder / "api.token"
        self.token_file.write_text(TOKEN, encoding="utf-8")
        self.token_file.chmod(0o600)
        document = {
            "listen": f"{self.host}:{self.port}",
            "state_dir": str(folder / "state"),
            "poll": "1s",
            "witness": f"tcp:{self.witness_port}",
            "api_token_file": str(self.token_file),
            "racks": {
                "r01": {
                    "platform": PLATFORM,
                    "agents": list(agents) or [f"{tray.node}={tray.host}:{tray.port}" for tray in trays.all],
                    **(rack or {}),
                }
            },
            **(settings or {}),
        }
        # JSON is YAML.
        (folder / "rack.yaml").write_text(json.dumps(document), encoding="utf-8")

    @property
    def process(self) -> Process:
        """The process that runs, or ran last."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start it, and wait until it has heard all agents."""
        (self._folder / "state").mkdir(exist_ok=True)
        self._process = Process(["rack", "--config", str(self._folder / "rack.yaml")], self._folder, "rack")
        until("the rack service is ready", self._ready)

    def _ready(self) -> bool:
        assert self.process.runs, f"the rack service has ended:\n{self.process.log}"
        return get(self.host, self.port, "/-/ready")[0] == http.client.OK

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self._process is not None:
            self._process.kill()

    def get(self, path: str) -> Body:
        """Read a body; it must be there."""
        status, body = get(self.host, self.port, path)
        assert status == http.client.OK, f"{path}: {status} {body!r}"
        document: Body = json.loads(body)
        return document

    def status(self, path: str) -> int:
        """Read a path's status only."""
        return get(self.host, self.port, path)[0]

    def write(self, method: str, path: str, body: object = None, *, token: str = TOKEN) -> tuple[int, Body]:
        """Write something; return the status and what was answered."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status, answer = get(self.host, self.port, path, method=method, headers=headers, body=body)
        document: Body = json.loads(answer)
        return status, document

    def health(self, query: str = "") -> Body:
        """Health of the rack."""
        return self.get(f"/v1/racks/r01/health{query}")

    def node(self, node: str) -> Body:
        """All of a node."""
        return self.get(f"/v1/nodes/{node}")

    def states(self) -> dict[str, str]:
        """State of each node."""
        return {node["node"]: node["state"] for node in self.get("/v1/racks/r01")["nodes"]}

    def events(self, query: str = "") -> list[Body]:
        """Newest events first."""
        events: list[Body] = self.get(f"/v1/events?limit=1000{query}")["events"]
        return events

    def availability(self) -> Body:
        """Availability of the last ten minutes; no test takes as long."""
        return self.get("/v1/racks/r01/availability?window=10m")

    def efficiency(self, window: str) -> Body:
        """Efficiency of the rack."""
        return self.get(f"/v1/racks/r01/efficiency?window={window}")

    def metric(self, name: str, **labels: str) -> float:
        """Read one series of /metrics; it must be there once."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        found = [value for own, value in self.series(name).items() if wanted <= set(own)]
        assert len(found) == 1, f"{name} {labels} stands {len(found)} times in /metrics"
        return found[0]

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """Read the series of /metrics with a name: labels as they are written, and value."""
        found = {}
        for line in get(self.host, self.port, "/metrics")[1].decode().splitlines():
            series, _, value = line.rpartition(" ")
            own, _, rest = series.partition("{")
            if own == f"rackwatt_{name}":
                found[tuple(rest.removesuffix("}").split(","))] = float(value)
        return found


def get(
    host: str,
    port: int,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: object = None,
) -> tuple[int, bytes]:
    """Send a request; the status is 0 where nobody listens."""
    connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
    content = None if body is None else json.dumps(body)
    own = dict(headers or {}) | ({} if content is None else {"Content-Type": "application/json"})
    try:
        connection.request(method, path, body=content, headers=own)
        response = connection.getresponse()
        return response.status, response.read()
    except ConnectionError:
        return 0, b""
    finally:
        connection.close()


@contextmanager
def silent_port(host: str, port: int) -> Iterator[None]:
    """Let connections to a port time out, as those to a host without power do.

    Linux drops a SYN where a listener's accept queue is full (listen(2), tcp(7)); here nobody accepts.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield
