"""Making projections anew from PostgreSQL, and finding where they differ from it, while the service goes on."""

from __future__ import annotations
