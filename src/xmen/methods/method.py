"""A method as a value: how the gradient of a fit is found, with the settings that are its own."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from xmen.engines.settings import EngineSettings
from xmen.errors import EngineError
from xmen.methods.neural import NeuralRun, Training
from xmen.methods.runs import FitSettings, Run, Task
from xmen.options import Options
from xmen.rewards.neural import NeuralReward
from xmen.worlds.network import Network


class Method(Options, ABC):
    """A frozen record that makes the run of a fit; one subclass per method, beside its run.

    `name` is what `method="..."` calls it with all its defaults; `default_max_iter` holds where the learner's max_iter
    is None.
    """

    name: ClassVar[str]
    default_max_iter: ClassVar[int]
    takes_every_step: ClassVar[bool] = False  # does all of max_iter iterations, and does not stop before
    plans_with_max_iter: ClassVar[bool] = False  # steps depend on how many there will be: none can be added later
    keeps_fixed: ClassVar[bool] = False  # learns some weights while others are fixed

    @abstractmethod
    def run(self, task: Task, settings: FitSettings) -> Run[Any]:
        """The run that learns the weights of a linear reward."""

    @abstractmethod
    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        """The run that trains a copy of a neural reward."""

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> Run[Any]:
        """The run that learns from trips through a network."""
        raise EngineError(
            f"method={self.name!r} hashes the trajectories of one world, and every trip through a network has its own: "
            "use method='exact' or 'auto'."
        )

    def check(self, engine: EngineSettings, given: str | None, neural: bool) -> None:
        """Refuse what makes no sense with this method (an engine, given="start", a neural reward) before any work."""
