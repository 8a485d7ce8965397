from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.settings import ContainerSettings, Tuning
from siltstone.core.errors import SettingsError, StoreNotFoundError
from siltstone.store.admin.place_settings import find_place
from siltstone.store.settings.effective import CONTAINER_KEYS, EffectiveSettings, load_settings
from siltstone.store.settings.model import Settings
from siltstone.store.settings.sections import Section
from siltstone.store.settings.template import default_text, settings_text

ROOT = Path(__file__).resolve().parents[4]
LEAST = "long_term_storage: {binding: nfs, nfs: {path: ./chunks}}\ntier1: {log: file}\n"


def load(folder: Path, text: str, **environment: str) -> EffectiveSettings:
    (folder / "siltstone.yaml").write_text(text, encoding="utf-8")
    return load_settings(folder, environment)


def test_a_file_needs_only_to_say_where(tmp_path: Path) -> None:
    settings = load(tmp_path, LEAST)
    assert settings.container == ContainerSettings()
    assert settings.binding == "nfs"
    assert settings.binding_options == {"path": str(tmp_path / "chunks")}
    assert settings.log_options == {}
    assert settings.index_folder == tmp_path / "index"
    assert settings.uuid is None


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("flush: {sizes: 1}", 3, "flush.sizes: unknown key"),
        ("flush: {aeg: 30s}", 3, "flush.aeg: unknown key; did you mean 'age'?"),
        ("flsh: {age: 30s}", 3, "flsh: unknown key; did you mean 'flush'?"),
        ("flush:\n  age: 1s\n  age: 2s", 5, "flush.age: the key stands here twice"),
        ("flush: {age: 30}", 3, "flush.age: not a time: 30"),
        ("flush: {bytes: 8MB}", 3, "flush.bytes: not a size: '8MB'"),
        ("flush: 3", 3, "flush: must hold keys and values"),
        ("flush:", 3, "flush: must hold keys and values"),
        ("flush: {parallel: 0}", 3, "flush.parallel: input should be greater"),
        ("flush: {parallel: yes}", 3, "flush.parallel: not a whole number"),
        ("segments: {chunk_size: 0}", 3, "segments.chunk_size: must be above 0"),
        ("segments: {chunk_size: 2TiB}", 3, "segments.chunk_size: must be at most 1 TiB"),
        ("bandwidth: {upload: 0}", 3, "bandwidth.upload: must be above 0"),
        ("bandwidth: {download: 0MiB}", 3, "bandwidth.download: must be above 0"),
        ("bandwidth: {background: 0}", 3, "bandwidth.background: must be above 0"),
        ("reads: {verify: maybe}", 3, "reads.verify: input should be 'remembered'"),
        ("collections: {part_size: 1KiB}", 3, "collections.part_size: must be from 1 MiB to 1 GiB"),
        ("collections: {part_size: 2GiB}", 3, "collections.part_size: must be from 1 MiB to 1 GiB"),
        (
            "collections: {compaction: on}",
            3,
            "collections.compaction: input should be 'background'",
        ),
        ("collections: {poll_max: 0s}", 3, "collections.poll_max: must be above 0"),
        ("collections: {lease: 10s}", 3, "collections.lease: must be from 30 s to 30 d"),
        ("collections: {lease: 31d}", 3, "collections.lease: must be from 30 s to 30 d"),
        (
            "collections: {consensus: ''}",
            3,
            "collections.consensus: string should have at least 1 character",
        ),
        ("objects: {value_segment: 1KiB}", 3, "objects.value_segment: must be from 1 MiB to 4 GiB"),
        ("objects: {value_segment: 5GiB}", 3, "objects.value_segment: must be from 1 MiB to 4 GiB"),
        ("objects: {lost: none}", 3, "objects.lost: input should be 'error' or 'missing'"),
        ("objects: {head_checks: -1}", 3, "objects.head_checks: input should be greater"),
        ("objects: {head_checks: 1s}", 3, "objects.head_checks: input should be a valid integer"),
        ("objects: {head_checks: no}", 3, "objects.head_checks: not a whole number"),
        ("objects: {compact: on}", 3, "objects.compact: input should be 'auto' or 'manual'"),
        ("objects: {compact_hours: '6'}", 3, "objects.compact_hours: not two hours of a day"),
        ("objects: {compact_hours: 6-6}", 3, "objects.compact_hours: not two hours of a day"),
        ("objects: {compact_hours: 6-25}", 3, "objects.compact_hours: hours are from 0 to 24"),
        ("objects: {compact_hours: 24-2}", 3, "objects.compact_hours: hours are from 0 to 24"),
        ("objects: {waste_retention: 3}", 3, "objects.waste_retention: not a time: 3"),
        ("uuid: 7", 3, "uuid: not a uuid"),
        ("1: 2", 3, "1: a key must be plain text"),
        ("index: {path: '${NOPE}'}", 3, "index.path: the environment variable NOPE is not set"),
        ("index: {path: '${}'}", 3, "index.path: '${' without a name"),
        ("index: {path: ''}", 3, "index.path: string should have at least 1 character"),
        ("a: [", 3, "is not valid YAML"),
        ("a: &x [*x]", 3, "a.0: an alias contains itself"),
        ("a: !!python/object:os.system x", 3, "is not valid YAML: could not determine"),
        ("flush: {x: 1, y: 2}", 3, "flush.x: unknown key (and 1 more)"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, LEAST + text)
    assert f"siltstone.yaml line {line}: {reason}" in str(caught.value)


def test_hours_of_the_day_are_those_from_one_to_another(tmp_path: Path) -> None:
    assert load(tmp_path, LEAST).objects.hours is None
    assert load(tmp_path, LEAST + "objects: {compact_hours: 22-6}").objects.hours == (22, 6)
    assert load(tmp_path, LEAST + "objects: {compact_hours: 0-24}").objects.hours == (0, 24)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "long_term_storage: is missing"),
        ("- 1", "must hold keys and values, not a list"),
        ("tier1: {log: file}", "long_term_storage: is missing"),
        ("long_term_storage: {}\ntier1: {log: file}", "long_term_storage.binding: is missing"),
        (LEAST.replace("nfs: {", "s3: {"), "long_term_storage.s3: unknown key"),
        (LEAST.replace("binding: nfs", "binding: nsf"), "long_term_storage.binding is 'nsf', and"),
        (
            LEAST.replace("log: file", "log: file, fil: {}"),
            "tier1.fil: unknown key; tier1.log is 'file', and its options",
        ),
        (LEAST.replace("{path: ./chunks}", "7"), "what stands under 'nfs' must be keys and values"),
        (LEAST.replace("log: file", "log: file, options: {}"), "unknown key: options"),
        ("x: " + "y" * 2**20, "so not a settings file"),
        ("a: 2001-13-45", "a value cannot be understood"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(reason)):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("section", "text", "reason"),
    [
        (
            "long_term_storage",
            "binding: nfs\n  nfs:\n    pth: ./chunks",
            "line 4: long_term_storage.nfs.pth: unknown key; did you mean 'path'? (and 1 more)",
        ),
        (
            "long_term_storage",
            "binding: s3\n  s3:\n    bucket: abc\n    connections: many",
            "line 5: long_term_storage.s3.connections: input should be a valid integer",
        ),
        (
            "long_term_storage",
            "binding: s3\n  s3:\n    bucket: abc\n    session_token: a",
            "line 3: long_term_storage.s3: session_token needs access_key_id",
        ),
        (
            "long_term_storage",
            "binding: nsf\n  nsf: {}",
            "line 2: long_term_storage.binding: no plugin is called 'nsf' in siltstone.bindings; "
            "did you mean 'nfs'? installed are: azure",
        ),
        (
            "tier1",
            "log: kafka\n  kafka:\n    servers: [a:1]\n    topic: t\n    insecur: true",
            "tier1.kafka.insecur: unknown key; did you mean 'insecure'?",
        ),
        ("tier1", "log: file\n  file: {}", "tier1.file.path: is missing"),
    ],
)
def test_wrong_options_of_a_plugin_are_named_with_their_line(
    tmp_path: Path, section: str, text: str, reason: str
) -> None:
    settings = siltstone.init(tmp_path / "store")
    whole = settings.read_text(encoding="utf-8")
    found = re.search(rf"(?m)^{section}:\n(  .*\n)+", whole)
    assert found is not None
    others = whole[: found.start()] + whole[found.end() :]
    settings.write_text(f"{section}:\n  {text}\n{others}", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        siltstone.open(settings)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{settings} line ")


def test_options_of_a_place_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "place.yaml"
    file.write_text("long_term_storage:\n  binding: s3\n  s3:\n    buckt: x\n", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        find_place(file)
    reason = "long_term_storage.s3.buckt: unknown key; did you mean 'bucket'? (and 1 more)"
    assert str(caught.value) == f"{file} line 4: {reason}"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "siltstone.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        load_settings(tmp_path)


def test_variables_are_replaced_in_values(tmp_path: Path) -> None:
    text = LEAST + "index: {path: '/x/${A}/${B:-b}/${EMPTY:-c}/${EMPTY}/$${A}/$A'}"
    settings = load(tmp_path, text, A="a", EMPTY="")
    assert settings.index_folder == Path("/x/a/b/c//${A}/$A")


def test_a_number_may_come_from_a_variable(tmp_path: Path) -> None:
    settings = load(tmp_path, LEAST + "flush: {parallel: '${N}', bytes: '${S}'}", N="3", S="1MiB")
    assert settings.container.flush_parallel == 3
    assert settings.container.flush_bytes == 2**20


def test_a_missing_file_is_a_missing_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="there is no file"):
        load_settings(tmp_path)
    with pytest.raises(StoreNotFoundError):
        load_settings(tmp_path / "nope.yaml")


def test_secrets_are_in_no_text(tmp_path: Path) -> None:
    text = LEAST.replace("path: ./chunks", "password: '${P}', path: [hunter2]")
    settings = load(tmp_path, text, P="hunter2")
    assert settings.binding_options["password"] == "hunter2"
    assert "hunter2" not in repr(settings)
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text + "garbage: {delay: 1}", P="hunter2")
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


def test_a_container_has_these_settings() -> None:
    """A new one is an option that each user has to understand: look for a good constant first."""
    assert {name: ".".join(key) for name, key in CONTAINER_KEYS.items()} == {
        "storage_threads": "long_term_storage.threads",
        "storage_attempts": "long_term_storage.attempts",
        "background_rate": "bandwidth.background",
        "index_cache_bytes": "index.cache",
        "chunk_bytes": "segments.chunk_size",
        "flush_bytes": "flush.bytes",
        "flush_age_s": "flush.age",
        "flush_parallel": "flush.parallel",
        "pack_bytes": "flush.pack_bytes",
        "read_back": "flush.read_back",
        "table_flush_age_s": "flush.table_age",
        "close_flush": "close.flush",
        "unflushed_bytes_max": "back_pressure.bytes",
        "unflushed_table_bytes_max": "back_pressure.table_bytes",
        "checkpoint_bytes": "checkpoint.bytes",
        "garbage_delay_s": "garbage.delay",
        "optimiser_enabled": "optimiser.enabled",
        "relocation_enabled": "relocation.enabled",
        "free_bytes_min": "space.free_min",
        "used_bytes_max": "space.used_max",
        "verify_reads": "reads.verify",
        "prefetch_bytes": "reads.prefetch",
        "append_deadline_s": "deadlines.append",
        "storage_deadline_s": "deadlines.storage",
    }
    own = {one.name for one in fields(ContainerSettings)} - {one.name for one in fields(Tuning)}
    assert set(CONTAINER_KEYS) == own


def test_the_file_of_a_new_store_holds_the_defaults(tmp_path: Path) -> None:
    uuid = "22d7b201-355b-4c8a-bbb2-be0b5922189d"
    text = settings_text(uuid)
    plain = load(tmp_path, text)
    assert plain.uuid == uuid
    assert plain.container == ContainerSettings()
    uncommented = re.sub(r"(?m)^#(?=[a-z_]+:|  )", "", text)
    assert uncommented != text
    assert load(tmp_path, uncommented) == plain


def test_every_setting_is_documented_word_for_word() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    documented = re.findall(r"(?m)^\| `[\w.]+` \| .*", page)
    known = []
    for section, outer in Settings.model_fields.items():
        kind = outer.annotation
        within = {section: outer}
        if isinstance(kind, type) and issubclass(kind, Section):
            within = {f"{section}.{key}": info for key, info in kind.model_fields.items()}
        for key, info in within.items():
            if not key.endswith(".options"):
                default = default_text(info)
                shown = f"`{default}`" if default else "–"
                known.append(f"| `{key}` | {shown} | {info.description} |")
    assert documented == known
