from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import windrow.graph
from windrow.errors import UsageError
from windrow.graph import errors

EXAMPLES = [
    errors.InvalidGraph("shop", ("it has no processors",)),
    errors.InvalidBindings("price", "reads", "5"),
    errors.InvalidReturn("price", "a int", "return a Message"),
    errors.InvalidMessage("json", "it is of type set"),
    errors.UnknownFunction("shop:f", "there is no module 'shop'"),
    errors.UnnamedFunction("shop:<lambda>"),
    errors.UnknownInCatalog("queue", "order", "orders"),
    errors.TopologyChanged("shop", ('queue "a" is new',)),
    errors.NotPlainData("system.db", "Connection"),
]


def test_every_error_of_the_package_has_an_example() -> None:
    declared = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and kind is not UsageError
    }
    assert {type(example) for example in EXAMPLES} == declared


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_a_sentence_and_survives_the_way_out_of_a_worker(error: UsageError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert " " in str(error)


def test_the_example_of_the_readme_runs_and_draws_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    readme = Path(windrow.graph.__file__).parent / "README.md"
    block = re.search(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    exec(compile(block[1], str(readme), "exec"), {"__name__": "readme"})
    assert "orders ────▶ [ price · pipe ]" in capsys.readouterr().out
