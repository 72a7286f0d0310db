"""The use cases, by noun."""

from pegas_memory.service.rooms import OpenRooms

__all__ = ["OpenRooms"]
