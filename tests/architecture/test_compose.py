"""docker-compose.yml: loopback only, healthy by its own checks, bounded, and nothing secret in it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.architecture.repository import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PORTS = {"postgres": "5434:5432", "qdrant": "6333:6333", "memgraph": "7687:7687", "ollama": "11434:11434"}
LOCAL_DEFAULTS = {"", "pegas", "local-only", "default", "bundled"}


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_on_loopback(name: str) -> None:
    expected = [f"127.0.0.1:{PORTS[name]}"] if name in PORTS else []
    assert SERVICES[name].get("ports", []) == expected


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_checked_and_bounded(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    assert service.get("network_mode") != "host"


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned(name: str) -> None:
    assert re.fullmatch(r"[\w./-]+:v?\d+(\.\d+)+", SERVICES[name]["image"])


@pytest.mark.parametrize("name", SERVICES)
def test_data_lies_in_named_volumes(name: str) -> None:
    sources = [mount.split(":")[0] for mount in SERVICES[name]["volumes"]]
    assert sources
    assert set(sources) <= set(COMPOSE["volumes"])


def test_secrets_come_from_the_environment() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
        assert default in LOCAL_DEFAULTS, name
    assert not re.search(r"(PASSWORD|KEY|TOKEN): [^$\s\"]", text)


def test_only_the_products_own_image_is_optional() -> None:
    assert {name for name, service in SERVICES.items() if service.get("profiles")} == {"worker"}
    assert SERVICES["postgres"]["image"].startswith("postgres:16.")


def test_image_runs_as_a_plain_user() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    final = dockerfile[dockerfile.rindex("\nFROM ") :]
    user = re.findall(r"^USER (\w+)$", final, re.MULTILINE)
    assert user == ["pegas"]
    assert final.index("USER pegas") < final.index("ENTRYPOINT")
    assert "HEALTHCHECK" in final
