"""Clients of the engine process: find it, start it when needed, call it."""

from pegas_memory.engine_client.client import EngineClient, EngineInfo, profile
from pegas_memory.engine_client.remote import RemoteEmbedder, RemoteIndex

__all__ = ["EngineClient", "EngineInfo", "RemoteEmbedder", "RemoteIndex", "profile"]
