from __future__ import annotations

import pytest

from windrow.config import Secret, load
from windrow.config.layers import Setting
from windrow.config.model import Config
from windrow.errors import ConfigError


def loaded(**settings: str) -> Config:
    flags = [
        Setting(("journal", *key.split("__")), value, f"--set {key}")
        for key, value in settings.items()
    ]
    return load(flags=flags, environ={}).config


def test_addresses_are_one_or_several_with_commas() -> None:
    assert loaded().journal.addresses == ("localhost:8080",)
    several = loaded(address="a:1, b:2,https://c:3").journal
    assert several.addresses == ("a:1", "b:2", "https://c:3")
    for wrong in ("", "a:1,", " "):
        with pytest.raises(ConfigError, match="an address is empty"):
            loaded(address=wrong)


def test_the_token_is_a_secret() -> None:
    journal = loaded(token="bearer-of-all").journal
    assert journal.token == Secret("bearer-of-all")
    assert "bearer" not in repr(journal)
    with pytest.raises(ConfigError, match="is empty"):
        loaded(token=" ")


def test_a_certificate_goes_with_its_key() -> None:
    assert not loaded().journal.tls.is_set
    assert loaded(tls__ca_file="ca.pem").journal.tls.is_set
    both = loaded(tls__cert_file="cert.pem", tls__key_file="key.pem")
    assert both.journal.tls.is_set
    with pytest.raises(ConfigError, match="go together"):
        loaded(tls__cert_file="cert.pem")


def test_a_patience_of_nothing_is_refused() -> None:
    assert loaded(patience="500ms").journal.patience == 0.5
    with pytest.raises(ConfigError):
        loaded(patience="0s")
