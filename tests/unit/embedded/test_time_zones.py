import pytest

from openclaw.embedded import entities


@pytest.mark.parametrize(
    ("place", "zone"),
    [
        ("Tokyo", "Asia/Tokyo"),
        ("new york", "America/New_York"),
        ("Washington D.C.", None),
        ("Japan", "Asia/Tokyo"),
        ("Germany", "Europe/Berlin"),
        ("France", "Europe/Paris"),
        ("Mumbai", "Asia/Kolkata"),
        ("UTC", "UTC"),
        ("LA", "America/Los_Angeles"),
        ("la", None),
        ("Narnia", None),
    ],
)
def test_a_place_has_the_zone_that_the_database_gives_it(place: str, zone: str | None) -> None:
    assert entities.zone_of(place) == zone


def test_every_place_leads_to_a_zone_that_exists() -> None:
    assert set(entities.places().values()) <= entities.zone_names()


def test_words_that_are_no_places_are_none() -> None:
    assert not {"east", "west", "center", "local"} & entities.places().keys()


def test_without_the_tables_there_are_still_cities(monkeypatch: pytest.MonkeyPatch) -> None:
    files = entities.resources.files

    def missing(package: str) -> object:
        if package == "tzdata":
            raise ModuleNotFoundError(package)
        return files(package)

    monkeypatch.setattr(entities.resources, "files", missing)
    entities.places.cache_clear()
    try:
        assert entities.zone_of("Tokyo") == "Asia/Tokyo"
    finally:
        entities.places.cache_clear()
