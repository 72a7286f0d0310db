"""What fades and how fast (Ebbinghaus). Pure: time is an argument."""

from __future__ import annotations

import math
from datetime import datetime


def strength(now: datetime, last_access: datetime, stability_days: float | None) -> float:
    """e^(-t/S) in [0, 1]; ``stability_days`` None never fades."""
    if stability_days is None:
        return 1.0
    days = max(0.0, (now - last_access).total_seconds() / 86_400)
    return math.exp(-days / max(stability_days, 1e-6))
