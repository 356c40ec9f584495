"""Body of Prometheus' HTTP service discovery."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, RootModel

from exporters.rest.models.common import Part, Text


class TargetGroup(Part):
    """Targets of the same labels."""

    targets: Annotated[list[Text], Field(description="Addresses to scrape.")]
    labels: Annotated[dict[str, Text], Field(description="`rack` and `node` as expected.")]


class TargetGroups(RootModel[list[TargetGroup]]):
    """What Prometheus expects of `http_sd_configs`: a list of groups."""
