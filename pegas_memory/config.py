"""Settings, read once: environment, then ``.env`` of the working directory, then
``$PEGAS_HOME/config.toml``. The only place that looks at the environment."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from typing_extensions import Annotated

from pegas_memory.errors import BadSettings, HomeNotWritable

DEFAULT_HOME = "~/.local/share/pegas-memory"


_FORMS = {
    "llm": (r"(ollama|openai|gguf):.+", "ollama:MODEL, openai:MODEL@URL or gguf:PATH"),
    "search": (r"searxng:.+|ddgs|brave:.+", "searxng:URL, ddgs or brave:KEY"),
    "consolidate_every": (r"\d+[smhd]", "a number with s, m, h or d, such as 4h"),
}


class Settings(BaseSettings):
    """Field ``database_url`` is the setting ``PEGAS_DATABASE_URL``, and so on for each.

    Raises ``BadSettings`` through :func:`load_settings`, never pydantic's own error.
    """

    model_config = SettingsConfigDict(
        env_prefix="PEGAS_", env_file=".env", env_file_encoding="utf-8", extra="ignore", frozen=True
    )

    home: Path = Field(default_factory=lambda: Path(DEFAULT_HOME).expanduser())
    database_url: SecretStr = SecretStr("")
    qdrant_url: str = ""
    qdrant_api_key: SecretStr = SecretStr("")
    qdrant_collection: str = "alicorn_atoms"
    memgraph_url: str = ""
    memgraph_user: str = ""
    memgraph_password: SecretStr = SecretStr("")
    embedder: str = "bundled"
    llm: str = ""
    ollama_url: str = "http://127.0.0.1:11434"
    ollama_keep_alive: str = "5m"
    openai_api_key: SecretStr = SecretStr("")
    tenant: str = "default"
    ingest_roots: Annotated[tuple[Path, ...], NoDecode] = Field(default_factory=lambda: (Path.cwd(),))
    allow_private_urls: bool = False
    proxy_url: str = Field(default="", validation_alias=AliasChoices("PEGAS_PROXY_URL", "PROXY_URL", "proxy_url"))
    search: str = ""
    host: str = "127.0.0.1"
    port: int = Field(default=2085, ge=1, le=65535)
    api_token: SecretStr = SecretStr("")
    auto_infer: bool = False
    consolidate_every: str = "4h"
    engine_idle_seconds: float = Field(default=600.0, ge=1.0)

    @field_validator("home", mode="before")
    @classmethod
    def _empty_home_is_none(cls, value: Any) -> Any:
        return value if str(value).strip() else DEFAULT_HOME

    @field_validator("llm", "search", "consolidate_every", mode="after")
    @classmethod
    def _of_known_form(cls, value: str, info: ValidationInfo) -> str:
        form, said = _FORMS[str(info.field_name)]
        if value and not re.fullmatch(form, value):
            raise ValueError(f"give {said}")
        return value

    @field_validator("home", mode="after")
    @classmethod
    def _absolute_home(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("database_url", mode="after")
    @classmethod
    def _only_postgresql(cls, value: SecretStr) -> SecretStr:
        scheme, found, rest = value.get_secret_value().partition("://")
        if not scheme:
            return value
        if not found or scheme not in {"postgresql", "postgres", "postgresql+psycopg"}:
            raise ValueError("give an address such as postgresql://user:password@127.0.0.1:5434/pegas")
        return SecretStr(f"postgresql+psycopg://{rest}")

    @field_validator("tenant", mode="after")
    @classmethod
    def _tenant_name(cls, value: str) -> str:
        if not 1 <= len(value) <= 64 or any(c < " " or c == "\x7f" for c in value):
            raise ValueError("a tenant's name has 1 to 64 characters, none of them a control character")
        return value

    @field_validator("ingest_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [part for part in value.split(os.pathsep) if part.strip()]
        return tuple(Path(part).expanduser().resolve() for part in value)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        named = os.environ.get("PEGAS_HOME") or dotenv_settings().get("home") or DEFAULT_HOME
        home = Path(str(named)).expanduser()
        toml = TomlConfigSettingsSource(settings_cls, toml_file=home / "config.toml")
        return init_settings, env_settings, dotenv_settings, toml

    @property
    def embedded_postgres(self) -> bool:
        return not self.database_url.get_secret_value()

    @property
    def embedded_vectors(self) -> bool:
        return not self.qdrant_url

    @property
    def needs_engine(self) -> bool:
        """True when some part lives in the engine process of this PEGAS_HOME."""
        return self.embedded_postgres or self.embedded_vectors or self.embedder == "bundled"


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; ``overrides`` win over every file and variable.

    Raises:
        BadSettings: naming each setting that does not fit and what it takes.
    """
    try:
        return Settings(**overrides)
    except (ValidationError, ValueError, OSError) as error:
        if isinstance(error, ValidationError):
            said = "; ".join(f"PEGAS_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        else:
            said = str(error)
        raise BadSettings(f"The settings cannot be used: {said}.", "Correct them and start again.") from error


def child_environment(settings: Settings) -> dict[str, str]:
    """The environment for a process that this one starts: ours, with PEGAS_HOME made absolute."""
    return {**os.environ, "PEGAS_HOME": str(settings.home)}


def bare_environment(**variables: str) -> dict[str, str]:
    """The environment for a process that gets none of ours, no setting and no key: ``variables``, and what a
    Python may need to start at all."""
    return {**{name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TZ") if name in os.environ}, **variables}


def prepare_native_library(**variables: str) -> None:
    """Set variables that a C library reads once, when it is loaded; what the user set stays."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def chosen_outside(name: str) -> str:
    """What sets this setting and wins over config.toml: "the environment", ".env", or ''."""
    variable = f"PEGAS_{name.upper()}"
    if any(key.upper() == variable for key in os.environ):
        return "the environment"
    dotenv = DotEnvSettingsSource(Settings)()
    return ".env" if name in dotenv else ""


def write_setting(home: Path, name: str, value: str) -> None:
    """Set one setting in ``home``'s config.toml (mode 0600), whole or not at all; what else stands in it stays.

    Raises:
        BadSettings: the file cannot be read as TOML, or the line of this setting cannot be told.
        HomeNotWritable: it cannot be written.
    """
    file = home / "config.toml"
    line = f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        wanted = {**tomllib.loads(before), name: value}
        top, rest = _split_tables(before)
        found = re.compile(rf"^[ \t]*{name}[ \t]*=.*\n?", re.MULTILINE)
        after = (found.sub(lambda _: line, top, count=1) if found.search(top) else line + top) + rest
        if tomllib.loads(after) != wanted:
            raise ValueError("the line of this setting spans several")
    except (OSError, ValueError) as error:
        raise BadSettings(
            "config.toml of PEGAS_HOME cannot be changed.", f"Write {line.strip()} into it yourself."
        ) from error
    draft = file.with_name(f"config.toml.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            out.write(after)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except OSError as error:
        raise HomeNotWritable("config.toml of PEGAS_HOME cannot be written.") from error


def _split_tables(text: str) -> tuple[str, str]:
    """What stands before the first table, and the rest."""
    header = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    return (text, "") if header is None else (text[: header.start()], text[header.start() :])
