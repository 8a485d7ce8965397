"""Paths of segments for Spark: unique, and without characters of special meaning."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CapabilityError
from siltstone.store.files.name_match import NameMatch, chooses, fixed_prefix
from siltstone.store.files.paths import escaped, file_paths, silt_uri

NAMES = st.text(
    st.sampled_from("ab/_.~*[{?,:%= é\\\n") | st.characters(codec="utf-8"), min_size=1, max_size=12
)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("flights/2013", "flights/2013"),
        ("year=2013/a-b_c.d", "year=2013/a-b_c.d"),
        ("año/東", "año/東"),
        ("_hidden/.too", "~5fhidden/~2etoo"),
        ("a b*c", "a~20b~2ac"),
        ("a~b", "a~7eb"),
        ("x.silt/y", "x~2esilt/y"),
        ("x._COPYING_", "x~2e_COPYING_"),
        ("/a//b/", "~/a/~/b/~"),
        ("..", "~2e."),
        ("€", "~e2~82~ac"),
    ],
)
def test_how_names_are_written(name: str, path: str) -> None:
    assert escaped(name) == path


@pytest.mark.slow
@given(st.lists(NAMES, unique=True, max_size=8))
def test_paths_are_unique_and_none_is_a_folder_of_another(names: list[str]) -> None:
    paths = file_paths(names)
    assert list(paths) == names
    found = list(paths.values())
    assert len(set(found)) == len(found)
    for path in found:
        assert not any(other.startswith(f"{path}/") for other in found)
        assert not set(path) & set("{}[]*?\\%:, \n\t")
        for part in path.split("/"):
            assert part
            assert part[0] not in "._"
            assert not part.endswith((".silt", "._COPYING_"))


@given(NAMES)
def test_a_path_leads_back_to_its_name(name: str) -> None:
    parts = [b"" if part == "~" else part.encode() for part in escaped(name).split("/")]
    plain = re.sub(rb"~([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), b"/".join(parts))
    assert plain.decode() == name


def test_a_name_that_is_also_a_folder_is_told_apart() -> None:
    found = file_paths(["a", "a/b", "a/b/c", "a/"])
    assert found == {"a": "a~", "a/b": "a/b~", "a/b/c": "a/b/c", "a/": "a/~"}
    assert file_paths(["a/", "a//b"]) == {"a/": "a/~~", "a//b": "a/~/b"}


@pytest.mark.parametrize(
    ("manifest", "uri"),
    [
        ("file:///d/system/files/0-a.silt", "silt://file/d/system/files/0-a.silt"),
        ("s3a://b/p/0-a.silt", "silt://s3a+b/p/0-a.silt"),
        ("hdfs://nn:8020/p/0-a.silt", "silt://hdfs+nn:8020/p/0-a.silt"),
        ("abfss://c@h/x/0-a.silt", "silt://abfss+c@h/x/0-a.silt"),
        ("file:///d e/_x/y.silt/0-a.silt", "silt://file/d~20e/~5fx/y~2esilt/0-a.silt"),
    ],
)
def test_the_place_of_the_manifest_is_in_the_path(manifest: str, uri: str) -> None:
    assert silt_uri(manifest) == uri


def test_a_scheme_that_has_a_plus_is_refused() -> None:
    with pytest.raises(CapabilityError, match="scheme"):
        silt_uri("a+b://c/d")


@pytest.mark.parametrize(
    ("text", "match", "name", "chosen"),
    [
        ("a*", NameMatch.NAME, "a*", True),
        ("a*", NameMatch.NAME, "ab", False),
        ("a*", NameMatch.PREFIX, "a*b", True),
        ("", NameMatch.PREFIX, "b", True),
        ("a*", NameMatch.GLOB, "ab", True),
        ("a*", NameMatch.GLOB, "a/b", False),
        ("a**", NameMatch.GLOB, "a/b\nc", True),
        ("a?c", NameMatch.GLOB, "abc", True),
        ("a?c", NameMatch.GLOB, "a/c", False),
        ("a.c", NameMatch.GLOB, "abc", False),
        ("[a]", NameMatch.GLOB, "[a]", True),
    ],
)
def test_what_a_text_chooses(text: str, match: NameMatch, name: str, chosen: bool) -> None:
    assert chooses(text, match, name) is chosen
    if chosen:
        assert name.startswith(fixed_prefix(text, match))
