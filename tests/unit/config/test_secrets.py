from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from windrow.config import Dsn, Secret

PASSWORDS = st.text(min_size=6).map(lambda text: f"q7{text}z9")


class Holder(BaseModel):
    secret: Secret
    dsn: Dsn | None = None


@given(PASSWORDS)
def test_secret_shows_itself_only_when_asked(password: str) -> None:
    holder = Holder(secret=Secret(password))
    forms = [
        str(holder.secret),
        repr(holder.secret),
        f"{holder.secret:>20}",
        str(holder),
        repr(holder),
        repr(holder.model_dump()),
        holder.model_dump_json(),
        repr([holder.secret]),
    ]
    assert not any(password in form for form in forms)
    assert holder.secret.reveal() == password


@given(PASSWORDS)
def test_secret_survives_pickling(password: str) -> None:
    assert pickle.loads(pickle.dumps(Secret(password))).reveal() == password


def test_secrets_are_equal_by_what_they_hide_and_by_kind() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("postgresql://h/d") != Dsn("postgresql://h/d")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


@given(PASSWORDS, st.text(), st.text())
def test_secret_is_taken_out_of_foreign_text(password: str, before: str, after: str) -> None:
    assert password not in Secret(password).hide_in(f"{before}{password}{after}")


def test_empty_secret_leaves_foreign_text_alone() -> None:
    assert Secret("").hide_in("as it was") == "as it was"


@given(PASSWORDS)
def test_validation_error_of_a_misplaced_secret_does_not_name_it(password: str) -> None:
    class Closed(BaseModel, hide_input_in_errors=True):
        secret: Secret

    with pytest.raises(ValidationError) as caught:
        Closed.model_validate({"secret": [password]})
    assert password not in str(caught.value)
