"""What can be projected, and the table in which each kind of it stands."""

from __future__ import annotations

FILLABLE = {
    "atom": "pm_atom",
    "episode": "pm_episodic_trace",
    "procedure": "pm_procedure",
    "entity": "pm_entity",
    "symbol": "pm_code_symbol",
    "link": "pm_atom_link",
    "dependency": "pm_code_dependency",
}
"""Nodes before the edges between them."""
