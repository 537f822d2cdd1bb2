"""The real services as child processes, for the demo, benchmarks, chaos and tests.

``windrow.embedded.kafka`` is imported by its own name: loaded here, it would get in the way of
``python -m windrow.embedded.jars``.
"""

from windrow.embedded.broker import Broker
from windrow.embedded.errors import NotRunning
from windrow.embedded.etcd import Etcd
from windrow.embedded.link import Link
from windrow.embedded.mariadb import MariaDB
from windrow.embedded.postgres import PostgresServer
from windrow.embedded.postgres_binaries import debian_binaries, embedded_binaries
from windrow.embedded.process import Child, kill_process, pause_process, resume_process
from windrow.embedded.service import Service

__all__ = [
    "Broker",
    "Child",
    "Etcd",
    "Link",
    "MariaDB",
    "NotRunning",
    "PostgresServer",
    "Service",
    "debian_binaries",
    "embedded_binaries",
    "kill_process",
    "pause_process",
    "resume_process",
]
