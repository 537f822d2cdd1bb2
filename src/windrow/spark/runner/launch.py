"""How is one leg brought up: its places made, recovery performed, its query started?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windrow.config import Config
from windrow.graph.planning import plan
from windrow.spark.query.leg_plan import LegPlan
from windrow.spark.query.opened import Stores
from windrow.spark.query.run import AVAILABLE_NOW, every, start_leg
from windrow.spark.query.start import Accepted, ensure_places, recover_leg
from windrow.spark.runner.checkpoint import checkpoint_path
from windrow.spark.runner.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Launcher:
    """Brings up the legs of one run, as one owner."""

    def __init__(
        self,
        session: SparkSession,
        config: Config,
        files: Files,
        owner: str,
        stores: Stores,
        *,
        is_once: bool = False,
        accept_state_loss: bool = False,
    ) -> None:
        self._session, self._settings = session, config.graph
        self._files, self._owner, self._stores = files, owner, stores
        self._is_once = is_once
        self._accepted = Accepted(
            state_loss=accept_state_loss, when_sink_behind=config.graph.when_sink_behind
        )

    def recover(self, leg: LegPlan) -> LegPlan:
        """Take the leg over, and find out where it goes on.

        Raises:
            Refused: Going on would lose or double something.
            Fenced: A later owner is there.
        """
        ensure_places(leg, self._stores)
        return recover_leg(
            leg,
            self._checkpoint(leg),
            owner=self._owner,
            accepted=self._accepted,
            files=self._files,
            stores=self._stores,
        ).plan

    def has_work(self, begun: LegPlan) -> bool:
        """Whether there is anything for a query to do now.

        One without a checkpoint is not started before: Spark begins every new one with a batch,
        and a batch without messages would be one without a snapshot.
        """
        recovered = begun.recovered
        if recovered is None or recovered.in_doubt is not None:
            return True
        if any(place.backend == "spark" for place in begun.sources.values()):
            return True  # what it holds is known to Spark alone
        available = [
            one
            for place in begun.sources.values()
            for one in self._stores.reader(place).available()
        ]
        return plan(begun.taking, recovered.start, available) is not None

    def start(self, begun: LegPlan) -> StreamingQuery:
        """Start the query of a leg that was recovered."""
        self._make_active()
        trigger = AVAILABLE_NOW if self._is_once else every(self._settings.interval)
        return start_leg(self._session, begun, self._checkpoint(begun), trigger)

    def _make_active(self) -> None:
        """Spark looks up formats in the session of its own thread, which follows the caller's."""
        sessions = self._session._get_j_spark_session_class(self._session._jvm)
        sessions.setActiveSession(self._session._jsparkSession)

    def _checkpoint(self, leg: LegPlan) -> str:
        return checkpoint_path(self._settings.checkpoint, leg.uid)
