"""One running Studio: the desk, the worker processes, and who listens."""

from __future__ import annotations

from xmen.errors import FileFormatError
from xmen.studio.bodies import Acting, AnyJob
from xmen.studio.desk import Desk
from xmen.studio.hub import Hub
from xmen.studio.jobs import Jobs
from xmen.studio.worker import Question
from xmen.studio.workers import LiveStatus, Worker


class Session:
    """Everything behind the page."""

    def __init__(self, desk: Desk, live_worker: Worker | None = None, jobs_worker: Worker | None = None) -> None:
        self.desk, self.hub = desk, Hub()
        self.live_worker, self.jobs_worker = live_worker or Worker(), jobs_worker or Worker()
        self.live = LiveStatus(self.live_worker)
        self.jobs = Jobs(self.jobs_worker, self.hub.tell)

    def warm(self) -> None:
        """Start the processes before anybody waits for them."""
        self.live_worker.warm()
        self.jobs_worker.warm()

    def close(self) -> None:
        """End the processes, and let windows know."""
        self.hub.close()
        self.jobs_worker.stop()
        self.live_worker.stop()

    def question(self, asked: AnyJob) -> tuple[int, Question]:
        """A job as the worker takes it, about the document as it is now."""
        version, document = self.desk.look()
        arguments = asked.model_dump(exclude={"wait", "kind", "source"})
        model = None
        if isinstance(asked, Acting) and asked.source != "uniform":
            if asked.source not in self.jobs.models:
                raise FileFormatError("nothing has been learned yet: learn first")
            learned_for, model = self.jobs.models[asked.source]
            if document.problem["world"] != learned_for.problem["world"]:
                document = learned_for  # the model knows that world, and no other
        return version, Question(asked.kind, document, self.desk.path, arguments, model)

    def check(self) -> dict[str, object]:
        """The live status of the document."""

        def look() -> tuple[int, Question]:
            version, document = self.desk.look()
            return version, Question("check", document, self.desk.path)

        return self.live.check(look)
