from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.config import redact

# Long enough, and odd enough, not to occur in the text around it by chance.
PASSWORDS = st.text(
    st.characters(codec="ascii", categories=["L", "N", "P", "S"], exclude_characters="\"'\\"),
    min_size=6,
).map(lambda text: f"q7{text}z9")


@given(PASSWORDS)
def test_password_of_a_uri_is_hidden_even_when_it_was_not_percent_encoded(password: str) -> None:
    text = redact(f"cannot connect: postgresql://anna:{password}@db.example:5432/shop is down")
    assert password not in text
    assert text.endswith("@db.example:5432/shop is down")


@pytest.mark.parametrize(
    "template",
    [
        "password={}",
        "host=db password='{}' user=anna",
        'password = "{}"',
        '{{"password": "{}", "user": "anna"}}',
        "{{'sasl.password': '{}'}}",
        "sasl.password={} sasl.username=anna",
        "ssl.key.password: {}",
        "PGPASSWORD={} psql",
        "AWS_SECRET_ACCESS_KEY={}",
        "windrow doctor --set database.password={}",
        "tool --password {} --user anna",
        "access_token={}",
        "Authorization: Basic {}",
        "authorization: Digest username=anna, response={}",
        "{{'Authorization': 'Bearer {}'}}",
        "Cookie: session={}",
        "X-Api-Key: {}",
        "api_key={}",
        "passphrase: {}",
        "password='{}",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n{}",
    ],
)
@given(password=PASSWORDS)
def test_named_secret_is_hidden(template: str, password: str) -> None:
    assert password not in redact(template.format(password))


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_bearer_token_is_hidden_without_its_header(separator: str) -> None:
    assert redact(f"sent bearer{separator}eyJhbGciOi.J9.abc") == f"sent bearer{separator}***"


def test_web_token_in_the_place_of_a_user_is_hidden_and_a_database_user_is_not() -> None:
    assert redact("https://ghp_abc123@example.org/x") == "https://***@example.org/x"
    assert redact("postgresql://anna@db/shop") == "postgresql://anna@db/shop"


@pytest.mark.parametrize(
    "harmless",
    [
        "cannot reach PostgreSQL at 127.0.0.1:5432: Connection refused",
        'password authentication failed for user "anna"',
        "https://example.org/@anna/page",
        "http://127.0.0.1:8080/metrics",
        'unknown key "database.pasword" in windrow.toml; did you mean "database.password"?',
        "12 tokens left",
    ],
)
def test_harmless_text_is_left_alone(harmless: str) -> None:
    assert redact(harmless) == harmless


FRAGMENTS = st.sampled_from(
    ["password", "token", "=", ":", " ", "'", '"', "\\", "@", "://", "http", "a", "/", "\n", "***"]
)


@settings(max_examples=500)
@given(st.lists(FRAGMENTS).map("".join) | st.text())
def test_hiding_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "unit", ["a", "password", "://", "a://", "'", "\\", "token ", "a@", "password='", "--", "\n"]
)
def test_long_text_takes_no_longer_than_its_length_deserves(unit: str) -> None:
    """Log lines may be long, and some are written by whoever wants to stop us."""
    began = time.process_time()
    redact(unit * 50_000)
    assert time.process_time() - began < 10


def test_redaction_needs_nothing_but_the_standard_library() -> None:
    """Telemetry and error paths import it; it must not bring pydantic along by itself."""
    source = "import runpy, sys; runpy.run_path(sys.argv[1]); print('pydantic' in sys.modules)"
    path = sys.modules["windrow.config.redaction"].__file__
    assert path is not None
    run = subprocess.run(
        [sys.executable, "-c", source, path], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"
