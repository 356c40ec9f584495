"""What a body of figures must hold: a figure that is null has its reason beside it."""

from __future__ import annotations

NULL_WITHOUT_A_REASON = {
    *("role", "gpus_expected", "baseline", "model", "published_model", "precision"),
    *("prompt_tokens", "generation_tokens"),
    *("published_tokens_per_second_per_user", "published_usd_per_million_tokens"),
}
"""What is null because it is not there, rather than because it cannot be said."""


def nulls(part: object, at: str = "") -> list[str]:
    """Name what is null and has no reason beside it, or has a reason and is not null."""
    if isinstance(part, list):
        return [found for index, own in enumerate(part) for found in nulls(own, f"{at}[{index}]")]
    if not isinstance(part, dict):
        return []
    wrong = [found for name, own in part.items() for found in nulls(own, f"{at}.{name}")]
    reasons = part.get("blank")
    if isinstance(reasons, dict):
        wrong += [f"{at}.{name}" for name in reasons if part[name] is not None]
        wrong += [
            f"{at}.{name}"
            for name, own in part.items()
            if own is None and name not in reasons and name not in NULL_WITHOUT_A_REASON
        ]
    return wrong
