from __future__ import annotations

import pickle
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.config import Dsn, Secret

PASSWORDS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=4
).map(lambda text: f"q7{text}z9")


def key_value(password: str) -> str:
    escaped = password.replace("\\", r"\\").replace("'", r"\'")
    return f"host=db.example port=6543 dbname=shop user=anna password='{escaped}'"


def uri(password: str) -> str:
    return f"postgresql://anna:{quote(password, safe='')}@db.example:6543/shop"


@pytest.mark.parametrize("form", [key_value, uri])
@given(password=PASSWORDS)
def test_text_form_hides_the_password_and_keeps_the_rest(
    form: type[str] | object, password: str
) -> None:
    assert callable(form)
    dsn = Dsn(form(password))
    shown = {str(dsn), repr(dsn), f"{dsn}"}
    assert not any(p in text for text in shown for p in (password, quote(password, safe="")))
    assert str(dsn) == form("PASS").replace("PASS", "***")
    assert dsn.reveal() == form(password).strip()
    assert dsn.address == "db.example:6543"


@pytest.mark.parametrize("form", [key_value, uri])
@given(password=PASSWORDS)
def test_driver_message_that_quotes_the_password_is_cleaned(
    form: type[str] | object, password: str
) -> None:
    assert callable(form)
    dsn = Dsn(form(password))
    cleaned = dsn.hide_in(f"no such port {password} in {form(password)}")
    assert password not in cleaned
    assert form(password) not in cleaned


@pytest.mark.parametrize("form", [key_value, uri])
@given(password=PASSWORDS)
def test_password_kept_apart_replaces_the_one_in_the_dsn(
    form: type[str] | object, password: str
) -> None:
    assert callable(form)
    dsn = Dsn(form("old")).with_password(Secret(password))
    assert password not in str(dsn)
    if form is uri:
        assert dsn.reveal() == uri(password)
    else:
        assert dsn.reveal().startswith(key_value("old"))
        assert dsn.reveal().endswith(key_value(password).partition("user=anna ")[2])


@pytest.mark.parametrize(
    "written",
    [
        "postgresql://anna:q7pass/word@db/shop",  # libpq: invalid port "q7pass"
        "postgresql://anna:q7pass@word@db/shop",  # libpq: could not translate host "word@db"
        "postgresql://anna:12/q7pass@db/shop",
        "postgresql://anna:q7pass%@db/shop",  # libpq: invalid percent-encoded token "q7pass%"
        "postgresql://anna:q7pass%00@db/shop",
        "postgresql://anna:q7 pass@db/shop",
        "postgresql://anna@db:q7pass/shop",
        "postgresql://db/shop?passwrd=q7pass",
        "postgresql://db/shop?password",
        "postgresql://db/shop?password=q7=pass",
        "oracle://anna:q7pass@db/shop",
        "host=db password=my q7pass",  # libpq: missing "=" after "q7pass"
        "host=db password=my pass=q7word",  # libpq: invalid connection option "pass"
        "host=db password='q7pass",
        "host=db password='q7'pass'",
        "q7pass",
        "",
        "   ",
    ],
)
def test_malformed_dsn_is_refused_without_quoting_it(written: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Dsn(written)
    assert "q7" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("postgres://anna@db/shop", "postgres://anna@db/shop"),
        ("postgresql://:q7@db/shop", "postgresql://:***@db/shop"),
        ("postgresql://anna:@db/shop", "postgresql://anna:@db/shop"),
        (
            "postgresql://db/shop?sslmode=require&password=q7&sslpassword=q8&user=a",
            "postgresql://db/shop?sslmode=require&password=***&sslpassword=***&user=a",
        ),
        ("postgresql://db/shop?%70assword=q7", "postgresql://db/shop?%70assword=***"),
        ("postgresql://a:q7?#q8@db/shop", "postgresql://a:***@db/shop"),
        ("host = db  password = q7 user=a", "host = db  password = *** user=a"),
        ("host=db password=q7\\ q8 user=a", "host=db password=*** user=a"),
        ("password=q7=q8 host=db", "password=*** host=db"),
        ("host=db", "host=db"),
    ],
)
def test_every_form_of_libpq_is_read(written: str, shown: str) -> None:
    assert str(Dsn(written)) == shown


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("postgresql://db/shop", "db:5432"),
        ("postgresql://a:b@one:1,two:2,three/shop", "one:1,two:2,three:5432"),
        ("postgresql://[::1]:6/shop", "[::1]:6"),
        ("postgresql://[fe80::1]/shop", "[fe80::1]:5432"),
        ("postgresql:///shop", "the local socket"),
        ("postgresql:///shop?host=/run/pg&port=6", "/run/pg/.s.PGSQL.6"),
        ("postgresql://%2Frun%2Fpg/shop", "/run/pg/.s.PGSQL.5432"),
        ("host=one,two port=6 password=q7", "one:6,two:6"),
        ("hostaddr=10.0.0.1 port=6", "10.0.0.1:6"),
        ("service=shop", "service shop"),
        ("dbname=shop", "the local socket"),
    ],
)
def test_address_names_host_and_port_and_nobody(written: str, address: str) -> None:
    assert Dsn(written).address == address


def test_dsn_survives_pickling_whole() -> None:
    dsn = Dsn("postgresql://anna:q7@db/shop")
    assert pickle.loads(pickle.dumps(dsn)) == dsn


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
@given(password=PASSWORDS)
def test_address_of_mysql_hides_its_password_too(scheme: str, password: str) -> None:
    quoted = quote(password, safe="")
    dsn = Dsn(f"{scheme}://anna:{quoted}@db.example/shop?unix_socket=/run/db.sock")
    assert str(dsn) == f"{scheme}://anna:***@db.example/shop?unix_socket=/run/db.sock"
    assert dsn.system == "mysql"
    assert dsn.address == "/run/db.sock"
    assert password not in dsn.hide_in(f"access denied with {password}")
    replaced = dsn.with_password(Secret("other"))
    assert replaced.reveal() == f"{scheme}://anna:other@db.example/shop?unix_socket=/run/db.sock"


def test_address_of_mysql_takes_no_unknown_option() -> None:
    with pytest.raises(ValueError, match="MySQL's driver does not know"):
        Dsn("mysql://anna@db/shop?sslmode=require")


def test_address_of_sqlite_is_its_file() -> None:
    dsn = Dsn("sqlite:////var/lib/shop.db")
    assert (dsn.system, dsn.address) == ("sqlite", "/var/lib/shop.db")
    assert dsn.with_password(Secret("other")) == dsn
    with pytest.raises(ValueError, match="names no file"):
        Dsn("sqlite:///")


def test_every_other_address_is_of_postgresql() -> None:
    assert Dsn("postgresql://anna@db/shop").system == "postgresql"
    assert Dsn("host=db dbname=shop").system == "postgresql"
