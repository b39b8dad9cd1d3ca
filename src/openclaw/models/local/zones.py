"""Places and what the clock is called there, from the time-zone database alone."""

import re
import zoneinfo
from functools import lru_cache
from importlib import resources

from openclaw.models.local.words import fold, word_set

_REGIONS = (
    "Africa/",
    "America/",
    "Antarctica/",
    "Arctic/",
    "Asia/",
    "Atlantic/",
    "Australia/",
    "Europe/",
    "Indian/",
    "Pacific/",
)
# Last parts of zone names that are plain words rather than places.
_NOT_PLACES = word_set("""acre center central east easter eastern general greenwich knox local mountain navajo
    north pacific south troll universal west zulu yukon samoa center""")
# Names that people use for a place whose zone is called otherwise; capitals and large cities.
_ALSO = {
    "abu dhabi": "Asia/Dubai",
    "bangalore": "Asia/Kolkata",
    "barcelona": "Europe/Madrid",
    "beijing": "Asia/Shanghai",
    "bombay": "Asia/Kolkata",
    "boston": "America/New_York",
    "california": "America/Los_Angeles",
    "cape town": "Africa/Johannesburg",
    "cologne": "Europe/Berlin",
    "dallas": "America/Chicago",
    "delhi": "Asia/Kolkata",
    "england": "Europe/London",
    "frankfurt": "Europe/Berlin",
    "geneva": "Europe/Zurich",
    "gmt": "UTC",
    "hamburg": "Europe/Berlin",
    "hanoi": "Asia/Bangkok",
    "houston": "America/Chicago",
    "la": "America/Los_Angeles",
    "melbourne": "Australia/Melbourne",
    "miami": "America/New_York",
    "milan": "Europe/Rome",
    "montreal": "America/Toronto",
    "mumbai": "Asia/Kolkata",
    "munich": "Europe/Berlin",
    "new delhi": "Asia/Kolkata",
    "nyc": "America/New_York",
    "osaka": "Asia/Tokyo",
    "ottawa": "America/Toronto",
    "rio de janeiro": "America/Sao_Paulo",
    "saint petersburg": "Europe/Moscow",
    "san francisco": "America/Los_Angeles",
    "scotland": "Europe/London",
    "seattle": "America/Los_Angeles",
    "silicon valley": "America/Los_Angeles",
    "texas": "America/Chicago",
    "uk": "Europe/London",
    "utc": "UTC",
    "wales": "Europe/London",
    "washington": "America/New_York",
    "washington dc": "America/New_York",
}
# Countries with several zones where one of them is what people mean.
_COUNTRY_CAPITALS = {
    "china": "Asia/Shanghai",
    "germany": "Europe/Berlin",
    "new zealand": "Pacific/Auckland",
    "portugal": "Europe/Lisbon",
    "spain": "Europe/Madrid",
    "ukraine": "Europe/Kyiv",
}
# Short names that are also everyday words count only in capitals, as people write them.
_ONLY_IN_CAPITALS = frozenset({"la", "uk"})
MAX_PLACE_WORDS = 4


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every IANA name that the database knows."""
    return frozenset(zoneinfo.available_timezones())


def _table(name: str) -> list[list[str]]:
    try:
        text = (resources.files("tzdata") / "zoneinfo" / name).read_text("utf-8")
    except (OSError, ModuleNotFoundError):
        return []
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


def _countries() -> dict[str, str]:
    zones: dict[str, list[str]] = {}
    for row in _table("zone.tab"):
        zones.setdefault(row[0], []).append(row[2])
    return {
        fold(name): zones[code][0]
        for code, name, *_ in _table("iso3166.tab")
        if len(zones.get(code, [])) == 1
    }


@lru_cache(maxsize=1)
def places() -> dict[str, str]:
    """The folded name of a place, to its zone."""
    found: dict[str, str] = {}
    for zone in sorted(zone_names()):
        if zone.startswith(_REGIONS):
            city = fold(zone.rsplit("/", 1)[1].replace("_", " "))
            if city not in _NOT_PLACES:
                found.setdefault(city, zone)
    for country, zone in _countries().items():
        found.setdefault(country, zone)
    return found | _COUNTRY_CAPITALS | _ALSO


def zone_of(place: str) -> str | None:
    """The zone of a place as somebody wrote it, or nothing."""
    key = re.sub(r"[\s.]+", " ", fold(place)).strip()
    if key in _ONLY_IN_CAPITALS and not place.isupper():
        return None
    return places().get(key)
