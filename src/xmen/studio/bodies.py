"""The bodies of requests, checked by pydantic."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from xmen.studio import document as limits


class Body(BaseModel):
    """What a request may hold, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class PutDocument(Body):
    """A whole document, and the version that it replaces."""

    base: int
    window: str = Field(max_length=100)
    problem: dict[str, Any]
    demonstrations: list[Any]


class Save(Body):
    """Write the files; `force` also over what another program wrote."""

    force: bool = False


class Text(Body):
    """The text of a .csv file."""

    text: str


class Demonstrations(Body):
    """Demonstrations to be written as text."""

    demonstrations: list[Any]


class Ask(Body):
    """A job; `wait` is for how long the request waits for its end."""

    wait: float = Field(0.0, ge=0.0, le=limits.WAIT)


class Learn(Ask):
    """Learn a reward."""

    kind: Literal["learn"]
    compare: bool = False


class Find(Ask):
    """Find rules."""

    kind: Literal["find"]
    max_rules: int = Field(8, ge=0, le=50)
    level: float = Field(0.01, gt=0.0, lt=1.0)


class Acting(Ask):
    """Something that a model, or the problem as it is, does under further rules."""

    source: Literal["model", "compare", "uniform"] = Field("uniform", alias="from")
    also: list[str] = Field(default_factory=list, max_length=limits.RULES)


class Generate(Acting):
    """Samples, or the most likely trajectories."""

    kind: Literal["generate"]
    n: int = Field(20, ge=1, le=limits.SAMPLES)
    best: int = Field(0, ge=0, le=limits.BEST)
    seed: int | None = Field(None, ge=0)


class Promises(Acting):
    """What policies can promise."""

    kind: Literal["policy"]
    p: float | None = Field(None, ge=0.0, le=1.0)


class Step(Acting):
    """What may come next in an episode."""

    kind: Literal["step"]
    promise: Literal["sure", "best"] | float = "best"
    states: list[Any] = Field(max_length=limits.HORIZON)
    actions: list[Any] = Field(max_length=limits.HORIZON)


AnyJob = Annotated[Learn | Find | Generate | Promises | Step, Field(discriminator="kind")]
