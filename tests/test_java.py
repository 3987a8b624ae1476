"""Java and its jars: which one is found, what is fetched and kept, and what is said when something is missing."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from headrace.java import JarSet, JavaUnavailable, fetch_jars, java_of_version, java_version
from headrace.testing.requirements import require_java


def test_changed_jar_set_is_fetched_again() -> None:
    old = JarSet(name="set", dependencies=("a:b:1",))
    for changed in (
        JarSet(name="set", dependencies=("a:b:2",)),
        JarSet(name="set", dependencies=("a:b:1",), excludes=("c",)),
        JarSet(name="set", dependencies=("a:b:1",), overrides=("c:d:3",)),
    ):
        assert changed.folder_name() != old.folder_name()


def test_excludes_precede_overrides_as_ivy_needs() -> None:
    xml = JarSet(name="set", dependencies=("a:b:1",), excludes=("c", "d:e"), overrides=("f:g:3",)).ivy_xml()

    tags = [line.split()[0] for line in xml.splitlines() if "org=" in line]
    assert tags == ["<dependency", "<exclude", "<exclude", "<override"]


def test_error_names_the_malformed_coordinate() -> None:
    with pytest.raises(ValueError, match="a:b"):
        JarSet(name="set", dependencies=("a:b",)).ivy_xml()


def test_fetched_jars_are_used_without_java_or_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar_set = JarSet(name="set", dependencies=("a:b:1",))
    folder = tmp_path / "java" / jar_set.folder_name()
    folder.mkdir(parents=True)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    assert fetch_jars(jar_set) == folder


def test_missing_java_is_an_error_with_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(JavaUnavailable, match="openjdk"):
        fetch_jars(JarSet(name="set", dependencies=("a:b:1",)))


def test_failed_fetch_leaves_no_complete_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_java()
    settings = tmp_path / "ivysettings.xml"  # a mirror that is an empty folder
    settings.write_text(
        '<ivysettings><settings defaultResolver="empty"/><resolvers><filesystem name="empty">'
        f'<artifact pattern="{tmp_path}/none/[artifact].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADRACE_IVY_SETTINGS", str(settings))

    with pytest.raises(JavaUnavailable, match="HEADRACE_IVY_SETTINGS") as failed:
        fetch_jars(JarSet(name="set", dependencies=("a:b:1",)))

    assert "a#b;1: not found" in str(failed.value)
    assert [path.suffix for path in (tmp_path / "cache" / "java").iterdir()] == [".lock"]


def fake_java(folder: Path, *, says: str, code: int = 0) -> str:
    """A `java` that answers `-version`, without the file beside it in which real ones say it."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return str(command)


@pytest.mark.parametrize(
    ("says", "version"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_401"', 8)]
)
def test_version_of_java_is_detected(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(fake_java(tmp_path, says=says)) == version


def test_java_stub_of_macos_counts_as_missing(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path, says="Unable to locate a Java Runtime.", code=1)) is None


def test_java_that_is_too_old_or_missing_is_an_error_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, says='openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnavailable, match=r"is version 11.*apt-get install openjdk-17.*JAVA_HOME"):
        java_of_version(17)

    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(JavaUnavailable, match="apt-get install openjdk-17-jre-headless"):
        java_of_version(17)


def test_classifier_fetches_one_jar_without_dependencies() -> None:
    xml = JarSet(name="sources", dependencies=("a:b:1:test-sources",)).ivy_xml()
    assert 'transitive="false"' in xml
    assert 'classifier="test-sources"' in xml
    assert 'rev="1"' in xml
