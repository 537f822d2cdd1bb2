"""What tests of Windrow, and of programs that use it, count and prove with."""

from windrow.relay.targets.memory import MemoryTarget
from windrow.testing.errors import FaultNotCounted, NotDelivered
from windrow.testing.fault_log import FaultLog, FaultPart
from windrow.testing.moments import Moment

__all__ = ["FaultLog", "FaultNotCounted", "FaultPart", "MemoryTarget", "Moment", "NotDelivered"]
