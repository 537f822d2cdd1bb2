"""Where does a JVM find Spark? In one place for all environments of a user, once that was made.

An archive of classes fits one class path. Every environment has a PySpark of its own, so each would
want an archive of its own, and making one takes longer than all the rest of its set-up. So the
parts that a JVM needs are linked into the user's cache, and the archive is made for those. The
place is named after the jars: whoever adds one to his environment has another Spark, and gets it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from windrow.embedded.jars import cache_directory
from windrow.extras import require

_PARTS: Final = ("bin", "jars", "python")


def home_in_use() -> Path:
    """The Spark whose JVMs a session starts: a given one, the shared one, or PySpark's own."""
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    shared = place_of_shared_home()
    return shared if shared.is_dir() else own_home()


def own_home() -> Path:
    """What was installed with PySpark."""
    return Path(str(require("pyspark").__file__)).parent


def place_of_shared_home() -> Path:
    """Where the parts of this PySpark belong, linked or not."""
    with os.scandir(own_home() / "jars") as jars:
        found = sorted((jar.name, jar.stat().st_size) for jar in jars)
    version = require("pyspark").__version__
    digest = hashlib.sha256(repr(found).encode()).hexdigest()[:12]
    return cache_directory(os.environ) / f"spark-{version}-{digest}"


def make_shared_home() -> Path:
    """Link this PySpark's parts there, unless they are."""
    place = place_of_shared_home()
    if not place.is_dir():
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        try:
            for part in _PARTS:
                shutil.copytree(own_home() / part, draft / part, copy_function=_link)
            draft.rename(place)
        except OSError:
            if not place.is_dir():  # else somebody else was quicker
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def _link(source: str, destination: str) -> str:
    try:
        os.link(source, destination)
    except OSError:  # on another disk
        shutil.copy2(source, destination)
    return destination
