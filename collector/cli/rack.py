"""`rackwatt rack`: watches whole racks through their agents."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from collector.cli.arguments import checked, listen_argument

if TYPE_CHECKING:
    from collector.config import Listen

SUMMARY = "watch whole racks through their agents: states, verdicts and availability over REST"
EXAMPLES = """\
  rackwatt rack --config rack.yaml                    # http://HOST:10073/v1/racks
  rackwatt rack --config rack.yaml --listen 127.0.0.1:9101 --log-format json

  # rack.yaml
  racks:
    r01:
      platform: gb300-nvl72
      agents: ["n01:10072", "n02:10072", "n03=10.0.0.3:10072"]

SIGTERM or Ctrl-C ends the rack service; a second one ends it at once.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="configuration file (YAML) that declares the racks (default: /etc/rackwatt/rack.yaml)",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=checked(listen_argument),
        help="where to serve; goes before the configuration (default: 0.0.0.0:10073)",
    )
    parser.add_argument("--log-format", choices=("human", "json"), help="default: human")


def run(arguments: argparse.Namespace) -> int:
    """Run the rack service until a signal ends it."""
    from collector.startup import check_package_ownership

    check_package_ownership()

    import logging

    import msgspec

    from collector import logs
    from collector.cli.rack_compose import run as run_service
    from collector.config import load_rack_service
    from collector.config.rack_load import DEFAULT_FILE

    path = arguments.config or DEFAULT_FILE
    configuration = load_rack_service(path)
    listen: Listen | None = arguments.listen
    if listen is not None:
        configuration = msgspec.structs.replace(configuration, listen=listen)
    logs.setup(arguments.log_format or configuration.log.format, configuration.log.level)
    logger = logging.getLogger("rackwatt.rack")
    logger.info("starting", extra={"configuration": path, "racks": len(configuration.racks)})

    def announce(address: Listen) -> None:
        logger.info("serving", extra={"url": f"http://{address}/v1/racks"})

    return run_service(configuration, announce)
