"""The guard's configuration file, in front of tools or of a chat, and the guard it describes."""

import shutil
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import Field, ValidationError, model_validator

from envace.engines.openai import ChatClient
from envace.errors import EnvaceError
from envace.guard.guard import Guard
from envace.guard.judge import QUESTION, GuardJudge
from envace.guard.rehearsers import ChatRehearser, Rehearser, load_policy_rehearser
from envace.guard.rules import RuleSettings
from envace.guard.verdict import Decision
from envace.guard.which import Lists
from envace.trajectory.jsonl import describe
from envace.trajectory.records import Record


class Upstream(Record):
    """The MCP server behind the guard: a command that talks on stdio, or a URL."""

    command: tuple[str, ...] = ()
    """Program and arguments of a server on stdio; every client gets a process of its own."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables for the command. No secrets: they go by `pass_env`."""
    pass_env: tuple[str, ...] = ()
    """Names of the guard's own variables that the command gets, beside PATH, HOME and the like."""
    url: str = ""
    """Endpoint of a server on streamable HTTP."""
    key_env: str = ""
    """Environment variable with a bearer key for the URL; empty for none."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "Upstream":
        if bool(self.command) == bool(self.url):
            raise ValueError("give either a command or a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url!r} is no HTTP URL")
        return self

    @property
    def name(self) -> str:
        """How messages name the server."""
        return self.url or " ".join(self.command)


class Endpoint(Record):
    """A model behind OpenAI-compatible servers."""

    endpoints: Annotated[tuple[str, ...], Field(min_length=1)]
    """Base URLs of equal servers, ending in `/v1` as a rule."""
    model: str
    """Name of the model there."""
    key_env: str = ""
    """Environment variable with the bearer key; empty for none."""
    timeout: float = Field(default=60.0, gt=0)
    """Seconds one request may take."""
    attempts: int = Field(default=2, ge=1)
    """Requests at most for one prediction or judgment."""


class RehearseSettings(Record):
    """Who rehearses, and how."""

    policy: Path | None = None
    """Folder of a policy, whose environment role then predicts in process."""
    endpoint: Endpoint | None = None
    """A model that predicts instead, prompted to stand in for the tools; without either, whoever is guarded
    rehearses itself."""
    times: int = Field(default=4, ge=1, le=64)
    """Predictions of a call."""
    temperature: float = Field(default=1.0, ge=0)
    """Of the sampling; at 0 rehearsals cannot disagree."""
    max_tokens: int = Field(default=256, ge=1)
    """Tokens of a predicted response at most; a longer one is illegible."""

    @model_validator(mode="after")
    def _not_both(self) -> "RehearseSettings":
        if self.policy is not None and self.endpoint is not None:
            raise ValueError("give either a policy or an endpoint")
        return self


class SessionRehearseSettings(RehearseSettings):
    """Who rehearses in front of a server, which has no model of its own and shows no conversation."""

    history: int = Field(default=20, ge=0)
    """Earlier calls with their results that are shown."""
    context: str = ""
    """What else to say about the server, its state above all; its own instructions unless given."""

    @model_validator(mode="after")
    def _either(self) -> "SessionRehearseSettings":
        if self.policy is None and self.endpoint is None:
            raise ValueError("give either a policy or an endpoint")
        return self


class JudgeSettings(Endpoint):
    """A model that is asked about calls no rule objects to."""

    question: str = QUESTION
    """The condition a call must meet."""
    decision: Decision = "ask"
    """What follows from its objection."""


class GuardSettings(Record):
    """How calls are decided about: the configuration file of `envace serve --guard`."""

    tools: Lists = Lists()
    """Which tools are guarded whatever their annotations say, and which are not."""
    rehearse: RehearseSettings = RehearseSettings()
    """Who rehearses, and how."""
    rules: RuleSettings = RuleSettings()
    """What the rules go by."""
    judge: JudgeSettings | None = None
    """A second opinion; none unless given."""
    log: Path = Path("guard.jsonl")
    """JSON-lines file that gets a line for every verdict."""


class GuardConfig(GuardSettings):
    """The configuration file of `envace guard`."""

    upstream: Upstream
    """The server that is guarded."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """Port on 127.0.0.1 to serve streamable HTTP on, 0 for any free one; absent: serve stdio."""
    rehearse: SessionRehearseSettings
    """Who rehearses, and how."""


Settings = TypeVar("Settings", bound=GuardSettings)


def load_config(path: Path) -> GuardConfig:
    """Read and check the configuration of `envace guard`; see `load_settings`.

    Raises:
        EnvaceError: The file is absent or invalid, or the command is not installed.
    """
    config = load_settings(path, GuardConfig, "--config")
    command = config.upstream.command
    if command and shutil.which(command[0]) is None:
        raise EnvaceError(
            f"{path}: upstream.command: no program {command[0]!r}", "install it, or give its path"
        )
    return config


def load_settings(path: Path, kind: type[Settings], option: str) -> Settings:
    """Read and check a configuration; paths in it count from the folder it stands in.

    Args:
        path: The file.
        kind: What it has to hold.
        option: Option of the command line that names it.

    Raises:
        EnvaceError: The file is absent or invalid.
    """
    try:
        values: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EnvaceError(f"{path}: {error.strerror}", f"name the file with {option}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EnvaceError(
            f"{path}: not readable as YAML: {' '.join(str(error).split())}", "mend it"
        ) from error
    try:
        config = kind.model_validate(values)
    except ValidationError as error:
        raise EnvaceError(f"{path}: {describe(error)}", "docs/guard.md lists every field") from error
    rehearse = config.rehearse
    if rehearse.policy is not None:
        folder = path.parent / rehearse.policy
        if not folder.is_dir():
            raise EnvaceError(
                f"{path}: rehearse.policy: no folder {folder}", "train one, or give an endpoint"
            )
        rehearse = rehearse.model_copy(update={"policy": folder})
    return config.model_copy(update={"rehearse": rehearse, "log": path.parent / config.log})


def make_guard(config: GuardSettings, own: Rehearser | None = None) -> Guard:
    """The guard of a configuration; loads the policy where one is named.

    Args:
        config: The configuration.
        own: Rehearses where it names neither a policy nor an endpoint.

    Raises:
        EnvaceError: A model cannot be loaded or named, a key is not set, or the log cannot be written.
    """
    rehearse = config.rehearse
    rehearser: Rehearser
    if rehearse.policy is not None:
        rehearser = load_policy_rehearser(rehearse.policy, rehearse.temperature, rehearse.max_tokens)
    elif rehearse.endpoint is not None:
        client = _client(rehearse.endpoint)
        rehearser = ChatRehearser(client, None, rehearse.temperature, rehearse.max_tokens)
    else:
        assert own is not None
        rehearser = own
    judge = config.judge
    return Guard(
        rehearser,
        config.rules,
        rehearse.times,
        GuardJudge(_client(judge), judge.question) if judge else None,
        judge.decision if judge else "ask",
        config.log,
    )


def _client(endpoint: Endpoint) -> ChatClient:
    return ChatClient(
        endpoint.endpoints,
        endpoint.model,
        endpoint.key_env,
        timeout=endpoint.timeout,
        attempts=endpoint.attempts,
    )
