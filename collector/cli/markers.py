"""Generated text in a file that people write: it stands between two markers, and only it is replaced.

```
<!-- metrics:begin -->
…
<!-- metrics:end -->
```
"""

from __future__ import annotations

from collector.errors import ConfigurationError


def replace_between_markers(text: str, name: str, body: str) -> str:
    """Put a body between a file's markers.

    Args:
        text: Content of the file.
        name: Name of the markers, such as `metrics`.
        body: What is to stand between them.

    Returns:
        The content with the body on lines of its own; all else is as it was.

    Raises:
        ConfigurationError: The file does not have each marker once, the first before the second.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ConfigurationError(f"expected {begin} once, and {end} once below it")
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{body.strip()}\n{end}{tail}"
