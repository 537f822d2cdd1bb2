"""Path postfix templates."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.journal.fragment import Fragment
from windrow.journal.fragments.errors import InvalidTemplate
from windrow.journal.fragments.go_time import ZERO_TIME, format_time
from windrow.journal.fragments.postfix import TemplateSpool, check_template, evaluate
from windrow.journal.labels import LabelSet
from windrow.journal.spec import JournalSpec

APPENDED = datetime(2024, 3, 7, 16, 5, 9, tzinfo=UTC)
SPOOL = TemplateSpool(
    Fragment("a/journal", 255, 300),
    APPENDED.timestamp(),
    LabelSet.of({"region": "north"}),
)
SPEC = JournalSpec("a/journal", replication=2, labels=LabelSet.of({"team": "blue"}))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", ""),
        ("plain/path", "plain/path"),
        ('date={{ .Spool.FirstAppendTime.Format "2006-01-02" }}', "date=2024-03-07"),
        ('hour={{.Spool.FirstAppendTime.Format "15"}}', "hour=16"),
        ("{{ .Spool.FirstAppendTime.Format `2006/01/02` }}", "2024/03/07"),
        ('{{ $.JournalSpec.LabelSet.ValueOf "team" }}/x', "blue/x"),
        ('r={{ .Spool.Registers.ValueOf "region" }}', "r=north"),
        ('r={{ .Spool.Registers.ValueOf "missing" }}', "r="),
        ("{{ .Spool.Journal }}/{{ .Spool.Begin }}-{{ .Spool.End }}", "a/journal/255-300"),
        ("{{ .Spool.FirstAppendTime.Unix }}", str(int(APPENDED.timestamp()))),
        ('{{ .Spool.Begin | printf "%06d" }}', "000255"),
        ('{{ printf "%s-%v" .JournalSpec.Name .JournalSpec.Replication }}', "a/journal-2"),
        ('{{ "2006" | .Spool.FirstAppendTime.Format }}', "2024"),
        ("{{ if eq (1) 1 }}{{ end }}", None),
        ("{{ if eq .JournalSpec.Replication 2 }}two{{ else }}other{{ end }}", "two"),
        ("{{ if ne .JournalSpec.Replication 2 }}two{{ else }}other{{ end }}", "other"),
        ('{{ if .Spool.Registers.ValueOf "missing" }}a/{{ end }}b', "b"),
        ("a/  {{- /* a remark */ -}}  b", "a/b"),
        ("a{{ `}` }}", None),
    ],
)
def test_template_is_evaluated(template: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(InvalidTemplate):
            evaluate(template, SPOOL, SPEC)
    else:
        assert evaluate(template, SPOOL, SPEC) == expected
        check_template(template)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ .Spool.Nothing }}", "there is no 'Nothing'"),
        ("{{ .Nothing.Begin }}", "there is no 'Nothing'"),
        ("{{ .Spool }}", "is no text or number"),
        ("{{ .Spool.FirstAppendTime }}", "call a method"),
        ("{{ .Spool.FirstAppendTime.Format }}", "takes 1 strings"),
        ("{{ .Spool.FirstAppendTime.Format 15 }}", "takes 1 strings"),
        ('{{ .Spool.Begin "x" }}', "takes no arguments"),
        ("{{ .Spool.Begin", "not closed"),
        ("}}", "not closed"),
        ("{{ }}", "an action is empty"),
        ('{{ "open }}', "cannot read"),
        ("{{ .Spool.Begin | }}", "nothing on one side"),
        ("{{ range .Spool }}", "not a function"),
        ("{{ if .Spool.Begin }}x", "no end"),
        ("{{ end }}", "without an if"),
        ('{{ printf "%d" "text" }}', "printf"),
        ('{{ printf "%d" }}', "wants 1 values"),
        ("{{ printf }}", "cannot take 0 values"),
    ],
)
def test_faulty_template_is_refused_when_its_spec_is_checked(template: str, reason: str) -> None:
    with pytest.raises(InvalidTemplate, match=reason):
        check_template(template)


@pytest.mark.parametrize("postfix", ["../up", "/absolute", "a//b", "a/", "a b", "a\nb"])
def test_postfix_that_is_no_clean_path_is_refused(postfix: str) -> None:
    with pytest.raises(InvalidTemplate, match="gives"):
        evaluate(postfix, SPOOL, SPEC)


@pytest.mark.parametrize("postfix", ["../up", "/absolute", "a//b", "a/", "a b", "x" * 513])
def test_postfix_that_no_fragment_could_have_is_refused_with_its_spec(postfix: str) -> None:
    """Accepted, it would keep every fragment of its journal from being stored."""
    with pytest.raises(InvalidTemplate, match="gives"):
        check_template(postfix)
    check_template(postfix + "{{ .Spool.Begin }}")  # who knows what it will be


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("2006-01-02T15:04:05Z07:00", "2024-03-07T16:05:09Z"),
        ("Monday, _2 January 06, 3:04 PM", "Thursday,  7 March 24, 4:05 PM"),
        ("Mon Jan 2 15:04:05 MST 2006", "Thu Mar 7 16:05:09 UTC 2024"),
        ("03:4:5 pm -0700 002", "04:5:9 pm +0000 067"),
    ],
)
def test_time_is_written_by_a_layout(layout: str, expected: str) -> None:
    assert format_time(APPENDED, layout) == expected


def test_zero_time_is_the_first_of_all_years() -> None:
    assert format_time(ZERO_TIME, "2006-01-02") == "0001-01-01"


@given(st.text(alphabet='{}.$|"`- SpoolFormatifend012', max_size=40))
def test_any_template_gives_a_postfix_or_a_diagnosis(template: str) -> None:
    for call in (lambda: check_template(template), lambda: evaluate(template, SPOOL, SPEC)):
        with contextlib.suppress(InvalidTemplate):
            call()
