"""The section of journals: where their brokers are, and what it takes to talk to them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from windrow.config.secrets import Secret
from windrow.config.section import Section
from windrow.types import Duration


def _addresses(text: str) -> str:
    if not all(part.strip() for part in text.split(",")):
        raise ValueError("an address is empty; write it as host:port, several with commas")
    return text


class JournalTls(Section):
    """TLS to the brokers: used if one of these is set, or an address begins with ``https://``."""

    ca_file: str = ""
    """What the brokers' certificates are checked by, PEM; by default what the machine trusts."""
    cert_file: str = ""
    """Our own certificate, PEM, for brokers that ask for one."""
    key_file: str = ""
    """The key of that certificate, PEM."""
    server_name: str = ""
    """The name that the brokers' certificates are for, if it is not their address."""

    @model_validator(mode="after")
    def _keep_pairs(self) -> Self:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("cert_file and key_file go together; set both or none")
        return self

    @property
    def is_set(self) -> bool:
        """Whether anything of it was configured."""
        return bool(self.ca_file or self.cert_file or self.server_name)


class Journal(Section):
    """The brokers that serve journals."""

    address: Annotated[str, AfterValidator(_addresses)] = "localhost:8080"
    """Where clients begin: host:port or a URL, or several with commas."""
    token: Secret | None = None
    """The bearer token that is sent with every call."""
    zone: str = ""
    """The failure domain we are in: brokers of it are preferred for reads."""
    file_root: str = ""
    """Where the brokers' ``file://`` stores lie on this machine, to read or prune them directly."""
    patience: Annotated[Duration, Field(gt=0)] = 10.0
    """How long a command tries while no broker answers, or too few serve the journal."""
    tls: JournalTls = JournalTls()

    @field_validator("token")
    @classmethod
    def _refuse_blanks(cls, token: Secret | None) -> Secret | None:
        if token is not None and not token.reveal().strip():
            raise ValueError("is empty; leave it out to send none")
        return token

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses, one by one."""
        return tuple(part.strip() for part in self.address.split(","))
