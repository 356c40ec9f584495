"""How rows of tables say what is meant: texts for labels, runbooks, and links to the place at fault.

What to do stands in the table itself: a label is copied to a column of its own, whose values are shown as
texts of the catalogues.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashboards import links
from dashboards.panels import ByName, DataLink, Override, ValueText
from dashboards.queries import CLUSTER
from dashboards.rules.parameters import DEFAULTS

PLACE = (("rack", "Rack"), ("node", "Node"), ("gpu", "GPU"))
"""Labels that say where something is, with their headings."""

NONE_KNOWN = "none known"
"""What an empty list says: without any data it would be empty, too."""


def copied(expression: str, to: str, source: str) -> str:
    """Copy a label to one of another name, so that a column shows it otherwise."""
    return f'label_replace({expression}, "{to}", "$1", "{source}", "(.*)")'


def by(*labels: str) -> str:
    """Begin an aggregation of what several scrapes say of the same thing."""
    return f"max by ({', '.join((CLUSTER, *labels))})"


def place_links() -> tuple[Override, ...]:
    """Lead from racks and nodes of a row to their boards."""
    rack, node, gpu = (links.cell(name) for name, _ in PLACE)
    return (
        Override(fields=ByName("Rack"), links=(links.to_rack(source=rack),)),
        Override(fields=ByName("Node"), links=(links.to_node(rack=rack, node=node),)),
        Override(fields=ByName("GPU"), links=(links.to_gpu(rack=rack, node=node, gpu=gpu),), column_width=70),
    )


def texts(column: str, words: Mapping[str, str]) -> Override:
    """Show the values of a column as texts."""
    return Override(
        fields=ByName(column),
        mappings=tuple(ValueText(value, text) for value, text in sorted(words.items())),
    )


def runbook_links(served_at: str) -> tuple[DataLink, ...]:
    """Lead to the section of the runbooks that a row names, where they are served for browsers."""
    if not served_at.startswith(("https://", "http://", "/")):
        return ()
    return (DataLink("runbook", f"{served_at}#{links.cell('runbook')}", new_tab=True),)


def runbooks(anchors: Mapping[str, str]) -> Override:
    """Show the values of the column `Runbook` as the sections that they name."""
    return Override(
        fields=ByName("Runbook"),
        mappings=tuple(ValueText(value, anchor) for value, anchor in sorted(anchors.items())),
        links=runbook_links(DEFAULTS.runbook_url) or None,
    )
