"""A generated corpus of 300 documents with 47 questions, the same each time.

::

    stations/     60  .md    depth, harbour, keeper              species/   60  .html  size, food, first record
    instruments/  50  .md    calibration, battery                minutes/   40  .txt   proposals that were not adopted
    cruises/      40  .pdf   three pages: crew, casts, result    letters/   20  .md    half-remembered figures
    rules/        30  .md    15 rules, each in an outdated and in the present version

Names are alike on purpose, and minutes and letters contain wrong figures about the same things, so that a fact is right
only if it comes from the right section. The text of a document depends on nothing but its own name.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from support.pdf import pdf

FOLDER = "observatory"
"""The name of the folder, with which the addresses of its sections start."""

Kind = Literal["fact", "page", "dates", "two", "absent", "lay", "parts"]


@dataclass(frozen=True, slots=True)
class ExpectedFact:
    """A fact that an answer must state.

    Attributes:
        spellings: Ways to write it, one of which must occur in the answer.
        address: The section that states it.
    """

    spellings: tuple[str, ...]
    address: str


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question about the corpus.

    Attributes:
        id: Its name.
        kind: `fact` in one section, `page` of a PDF, `dates` of which the newer counts, `two` facts of two documents,
            `absent` from the corpus, `lay` in other words than those of the corpus, `parts` of two documents.
        text: The question.
        facts: The facts of its answer; none for a question that the corpus does not answer.
    """

    id: str
    kind: Kind
    text: str
    facts: tuple[ExpectedFact, ...] = ()


_STATIONS = [a + b for a, b in product(
    ("Bren", "Aske", "Toll", "Hvar", "Skar", "Lom", "Ulv", "Rin", "Dyr", "Fal", "Gris", "Nor"),
    ("holm", "vik", "nes", "sund", "oya"),
)]  # fmt: skip
_INSTRUMENTS = [f"{a} {b}" for a, b in product(
    ("Kestrel", "Osprey", "Merlin", "Harrier", "Hobby", "Goshawk", "Buzzard", "Kite", "Eagle", "Shrike"),
    ("thermistor chain", "current meter", "sediment trap", "oxygen optode", "salinity probe"),
)]  # fmt: skip
_SPECIES = [f"{a} {b}" for a, b in product(
    ("Calorina", "Hydrella", "Meganura", "Nereola", "Oithella", "Pelagina", "Ruvetta", "Salpinga", "Themisa", "Velutra",
     "Aurelina", "Borealia"),
    ("minor", "longa", "pallida", "gracilis", "obscura"),
)]  # fmt: skip
_SHIPS = ("Tindra", "Havsula", "Skagerra", "Nordlys", "Aurora", "Brisling", "Makrell", "Sjostjerna")
_CRUISES = [f"{ship} {year}" for ship, year in product(_SHIPS, (2016, 2018, 2020, 2022, 2024))]
_RULES = (
    "sample storage", "data release", "winter access", "spare parts", "boat insurance", "ship time", "guest visits",
    "drone flights", "chemical waste", "night shifts", "travel costs", "mooring recovery", "photo credits",
    "sensor loans", "dive teams",
)  # fmt: skip
_FIRST = ("Ane", "Bjorn", "Cecilie", "Dag", "Eline", "Frode", "Gro", "Halvor", "Ingrid", "Jostein", "Kari", "Leif")
_LAST = ("Aasen", "Berge", "Dahl", "Eide", "Foss", "Grande", "Haug", "Iversen", "Lunde", "Moen", "Nygard", "Rud")
_HARBOURS = ("Lervik", "Stokksund", "Havnnes", "Sandvika", "Kjellfjord", "Torsbu", "Grunnvik", "Vesthamn")
_FOOD = ("copepod eggs", "diatoms", "fish larvae", "krill", "detritus", "arrow worms", "small jellyfish", "polychaetes")
_FILLER = (
    "The notes of the last visit are in the log of the station.",
    "Nothing else has changed since the last edition of this sheet.",
    "Whoever finds an error writes to the data steward.",
    "Photographs are in the picture archive under the same name.",
    "The weather decides, as it always does on this coast.",
    "Older sheets are in the archive and are not kept up to date.",
)
_STALE_YEARS, _PRESENT_YEARS = (2015, 2018), (2021, 2025)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts about one thing, drawn from its name."""

    name: str

    def number(self, label: str, low: int, high: int) -> int:
        return random.Random(f"{self.name}/{label}").randint(low, high)  # noqa: S311 - the same each time

    def choice(self, label: str, values: tuple[str, ...]) -> str:
        return random.Random(f"{self.name}/{label}").choice(values)  # noqa: S311 - the same each time

    def person(self, label: str) -> str:
        return f"{self.choice(f'{label}/first', _FIRST)} {self.choice(f'{label}/last', _LAST)}"

    def filler(self) -> str:
        return self.choice("filler", _FILLER)


def _path(folder: str, name: str, suffix: str) -> str:
    return f"{folder}/{name.lower().replace(' ', '-')}.{suffix}"


def _address(path: str, anchor: str) -> str:
    return f"local:{FOLDER}/{path}#{anchor}"


def _station(name: str) -> str:
    f = _Facts(name)
    return (
        f"# {name} station\n\n## Position\n\nThe {name} mooring stands in {f.number('depth', 103, 987)} m of water. "
        f"{f.filler()}\n\n## Access\n\nBoats to {name} leave from the harbour of {f.choice('harbour', _HARBOURS)}. "
        f"The key is with {f.person('keeper')}, who keeps the station.\n"
    )


def _instrument(name: str) -> str:
    f = _Facts(name)
    return (
        f"# {name}\n\n## Calibration\n\nThe {name} is calibrated every {f.number('calibration', 5, 59)} weeks against "
        f"the bath in the laboratory.\n\n## Power\n\nOne battery of the {name} lasts {f.number('battery', 61, 399)} "
        f"days at four degrees. {f.filler()}\n"
    )


def _species(name: str) -> str:
    f = _Facts(name)
    return (
        f"<html><head><title>{name}</title></head><body><p>Adults of {name} reach a length of "
        f"{f.number('length', 11, 95)} mm.</p><p>{name} feeds on {f.choice('food', _FOOD)}. It was first recorded here "
        f"in {f.number('record', 1871, 1998)}.</p></body></html>\n"
    )


def _cruise(name: str) -> bytes:
    f = _Facts(name)
    pages = (
        f"The chief scientist of the {name} cruise was {f.person('chief')}.",
        f"During the {name} cruise {f.number('casts', 31, 98)} rosette casts were made.",
        f"On the {name} cruise the oxygen was lowest at a depth of {f.number('oxygen', 203, 899)} m.",
    )
    return pdf(*pages, title=f"Cruise report {name}")


def _rule(name: str, years: tuple[int, int], state: str) -> str:
    f = _Facts(f"{name}/{state}")
    return (
        f"# Rule on {name}\n\nIn force since 1 March {f.number('year', *years)}.\n\n## Time limit\n\nThe time limit "
        f"for {name} is {f.number('days', 3, 28) if state == 'outdated' else f.number('days', 31, 88)} days. "
        f"{f.filler()}\n"
    )


def _minutes(number: int) -> str:
    f = _Facts(f"minutes {number}")
    rule, station = f.choice("rule", _RULES), f.choice("station", tuple(_STATIONS))
    return (
        f"Minutes of meeting {number}\n====================\n\nHeld on {f.number('day', 1, 28)} May "
        f"{f.number('year', 2012, 2025)}.\n\nA proposal to set the time limit for {rule} to {f.number('days', 91, 99)} "
        f"days was not adopted. The visit to {station} was moved to autumn. {f.filler()}\n"
    )


def _letter(number: int) -> str:
    f = _Facts(f"letter {number}")
    station, instrument = f.choice("station", tuple(_STATIONS)), f.choice("instrument", tuple(_INSTRUMENTS))
    return (
        f"# Letter {number} from {f.person('writer')}\n\nAs far as I remember the mooring of {station} stood in about "
        f"{f.number('depth', 20, 99)} m of water, but do not quote me. I still like the {instrument} best. "
        f"{f.filler()}\n"
    )


def documents() -> Iterator[tuple[str, bytes]]:
    """The path and content of each document."""
    yield from ((_path("stations", name, "md"), _station(name).encode()) for name in _STATIONS)
    yield from ((_path("instruments", name, "md"), _instrument(name).encode()) for name in _INSTRUMENTS)
    yield from ((_path("species", name, "html"), _species(name).encode()) for name in _SPECIES)
    yield from ((_path("cruises", name, "pdf"), _cruise(name)) for name in _CRUISES)
    for name in _RULES:
        yield _path("rules", f"{name} outdated", "md"), _rule(name, _STALE_YEARS, "outdated").encode()
        yield _path("rules", name, "md"), _rule(name, _PRESENT_YEARS, "present").encode()
    yield from ((_path("minutes", f"meeting {n}", "txt"), _minutes(n).encode()) for n in range(1, 41))
    yield from ((_path("letters", f"letter {n}", "md"), _letter(n).encode()) for n in range(1, 21))


def write_corpus(root: Path) -> Path:
    """Write the documents into a folder below `root`, and return this folder."""
    for path, content in documents():
        file = root / FOLDER / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root / FOLDER


def _depth(name: str) -> ExpectedFact:
    depth = _Facts(name).number("depth", 103, 987)
    return ExpectedFact((f"{depth}",), _address(_path("stations", name, "md"), "position"))


def questions() -> list[EvalQuestion]:
    """The questions: forty in an order in which each kind is among the first ten, then those in other words."""
    found: list[EvalQuestion] = []

    def add(kind: Kind, text: str, *facts: ExpectedFact) -> None:
        found.append(EvalQuestion(f"{kind}-{sum(q.kind == kind for q in found) + 1}", kind, text, facts))

    for name in ("Brenholm", "Askesund", "Ulvnes"):
        add("fact", f"How deep is the water at the {name} mooring?", _depth(name))
    for name in ("Tollvik", "Nornes"):
        place = _address(_path("stations", name, "md"), "access")
        add("fact", f"From which harbour does one get to {name}?",
            ExpectedFact((_Facts(name).choice("harbour", _HARBOURS),), place))  # fmt: skip
    for name in ("Skarholm", "Faloya"):
        place = _address(_path("stations", name, "md"), "access")
        add("fact", f"Who has the key of the {name} station?", ExpectedFact((_Facts(name).person("keeper"),), place))
    for name in ("Kestrel oxygen optode", "Shrike current meter", "Hobby sediment trap"):
        weeks = _Facts(name).number("calibration", 5, 59)
        place = _address(_path("instruments", name, "md"), "calibration")
        add("fact", f"How often must the {name} be calibrated?", ExpectedFact((f"{weeks} weeks",), place))
    for name in ("Merlin salinity probe", "Eagle thermistor chain"):
        days = _Facts(name).number("battery", 61, 399)
        place = _address(_path("instruments", name, "md"), "power")
        add("fact", f"How long does a battery of the {name} last?", ExpectedFact((f"{days} days",), place))
    for name in ("Nereola pallida", "Themisa gracilis", "Velutra minor"):
        length = _Facts(name).number("length", 11, 95)
        place = _address(_path("species", name, "html"), "start")
        add(
            "fact", f"How long do adults of {name} get?", ExpectedFact((f"{length} mm", f"{length} millimetres"), place)
        )
    for name in ("Hydrella obscura", "Salpinga longa"):
        food = _Facts(name).choice("food", _FOOD)
        place = _address(_path("species", name, "html"), "start")
        add("fact", f"What does {name} eat?", ExpectedFact((food,), place))
    for name in ("Tindra 2018", "Aurora 2022"):
        place = _address(_path("cruises", name, "pdf"), "page-1")
        add("page", f"Who was the chief scientist of the {name} cruise?",
            ExpectedFact((_Facts(name).person("chief"),), place))  # fmt: skip
    for name in ("Havsula 2020", "Brisling 2016"):
        casts = _Facts(name).number("casts", 31, 98)
        place = _address(_path("cruises", name, "pdf"), "page-2")
        add("page", f"How many rosette casts were made during the {name} cruise?", ExpectedFact((f"{casts}",), place))
    for name in ("Nordlys 2024", "Makrell 2018"):
        depth = _Facts(name).number("oxygen", 203, 899)
        place = _address(_path("cruises", name, "pdf"), "page-3")
        add("page", f"At what depth was the oxygen lowest on the {name} cruise?", ExpectedFact((f"{depth}",), place))
    for name in ("sample storage", "data release", "drone flights", "dive teams", "spare parts"):
        days = _Facts(f"{name}/present").number("days", 31, 88)
        place = _address(_path("rules", name, "md"), "time-limit")
        add("dates", f"What is the time limit for {name} today?", ExpectedFact((f"{days} days",), place))
    for first, second in (("Lomvik", "Lomnes"), ("Rinholm", "Rinoya"), ("Dyrsund", "Dyrvik")):
        add("two", f"Compare the water depths at the {first} mooring and at the {second} mooring.", _depth(first),
            _depth(second))  # fmt: skip
    for text in (
        "How deep is the water at the Brenfjell mooring?",
        "What does a Kestrel oxygen optode cost?",
        "Who was the captain of the Tindra 2018 cruise?",
        "How many eggs does Nereola pallida lay?",
        "What is the time limit for helicopter landings?",
        "Which paint is used on the hull of RV Aurora?",
        "When was the Skarholm station struck by lightning?",
        "How heavy is the Hobby sediment trap?",
        "Who won the ski race of the observatory?",
    ):
        add("absent", text)
    first = [question for step in range(4) for question in found[step::4]]
    found.clear()
    keeper = _address(_path("stations", "Skarholm", "md"), "access")
    battery = _address(_path("instruments", "Merlin salinity probe", "md"), "power")
    key = ExpectedFact((_Facts("Skarholm").person("keeper"),), keeper)
    days = ExpectedFact((f"{_Facts('Merlin salinity probe').number('battery', 61, 399)} days",), battery)
    start = _address(_path("species", "Hydrella obscura", "html"), "start")
    food = ExpectedFact((_Facts("Hydrella obscura").choice("food", _FOOD),), start)
    chief = ExpectedFact(
        (_Facts("Tindra 2018").person("chief"),), _address(_path("cruises", "Tindra 2018", "pdf"), "page-1")
    )
    add("lay", "How far down is the sea floor below the buoy of Brenholm?", _depth("Brenholm"))
    add("lay", "Whom do I ask if I want to get into the house on Skarholm?", key)
    add("lay", "When does a Merlin salinity probe run out of power?", days)
    add("lay", "What is on the menu of Hydrella obscura?", food)
    add("lay", "Who was in charge on board during the Tindra 2018 voyage?", chief)
    add("parts", "How deep is the water at the Ulvnes mooring, and who has the key of the Skarholm station?",
        _depth("Ulvnes"), key)  # fmt: skip
    add("parts", "How long does a battery of the Merlin salinity probe last, and what does Hydrella obscura eat?",
        days, food)  # fmt: skip
    return [*first, *found]
