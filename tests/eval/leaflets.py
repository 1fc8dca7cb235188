"""Sixty generated leaflets as PDF files, with questions in a layperson's words; the same each time.

::

    lighthouses   light, horn, visits        huts      beds, meals, water      pumps   table of figures, winter
    ferries       table of fares, tandems    museums   tickets, closing days   ships   launch, loss, cargo

The first page is a cover with a table of contents. The facts are on the second and third page, in a few short
sentences and in tables of figures. The questions name the thing, and ask in words that the leaflets do not have.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.pdf import Line, paragraph, pdf


class LeafletQuestion(NamedTuple):
    """A question with the leaflet and the fact of its answer; both are empty if no leaflet answers it."""

    text: str
    leaflet: str = ""
    fact: str = ""


_NAMES = {
    "lighthouse": "Karrow Skelding Morvay Tarn Brightholm Oddness Pellin Cragwick Sandrey Vennel".split(),  # noqa: SIM905
    "ferry": "Lindo Asperoy Marstrand Hove Kirkesund Balta Finnoy Ulmer Rossan Tjorn".split(),  # noqa: SIM905
    "hut": "Sella Grauhorn Fanes Morteratsch Tuoi Cadlimo Medel Ramoz Lischana Zapport".split(),  # noqa: SIM905
    "museum": "Weavers Clock Salt Puppet Amber Bell Glass Tram Whaling Lace".split(),  # noqa: SIM905
    "pump": "Ventor Aqualon Rivus Tidax Pontel Mariva Undor Fluvex Torrin Cascor".split(),  # noqa: SIM905
    "ship": "Hilda Marie,Ebba,Concordia,Svanen,Fortuna,Ingeborg,Activ,Dagny,Minerva,Haabet".split(","),  # noqa: SIM905
}
_TOWNS = ("Torsby", "Glimsand", "Averhamn", "Nystad", "Lomma", "Hallevik")
_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays")
_CARGOES = ("timber", "salt herring", "roof tiles", "coal", "barley")


def _number(name: str, label: str, low: int, high: int) -> int:
    return random.Random(f"{name}/{label}").randint(low, high)  # noqa: S311 - the same each time


def _one_of(name: str, label: str, values: tuple[str, ...]) -> str:
    return random.Random(f"{name}/{label}").choice(values)  # noqa: S311 - the same each time


def _table(rows: list[tuple[str, ...]], y: float) -> list[Line]:
    return [Line(72 + 130 * column, y - 16 * n, cell) for n, row in enumerate(rows) for column, cell in enumerate(row)]


def _lighthouse(name: str) -> list[list[Line]]:
    return [
        paragraph(
            f"The lamp of {name} has a range of {_number(name, 'range', 11, 29)} nautical miles and turns once in",
            f"{_number(name, 'turn', 5, 30)} seconds. It was electrified in {_number(name, 'wired', 1921, 1958)}.",
            f"In poor visibility the horn of {name} sounds {_number(name, 'horn', 2, 9)} blasts a minute.",
        ),
        paragraph(
            f"Groups climb the tower of {name} with a guide. There are {_number(name, 'steps', 90, 240)} steps.",
            "The gallery is closed during gales.",
        ),
    ]


def _ferry(name: str) -> list[list[Line]]:
    adult, child, car = (_number(name, label, low, low + 6) for label, low in (("adult", 4), ("child", 1), ("car", 20)))
    tandem = _number(name, "tandem", 3, 9)
    return [
        [
            *paragraph(f"Fares of the {name} ferry", size=16),
            *_table(
                [("Ticket", "Single", "Return"), ("Adult", f"{adult} crowns", f"{2 * adult - 1} crowns"),
                 ("Child", f"{child} crowns", f"{2 * child} crowns"),
                 ("Car", f"{car} crowns", f"{2 * car - 5} crowns")],
                660,
            ),
            *paragraph(f"A tandem costs {tandem} crowns. Dogs ride free. Fares are paid on board.", y=560),
        ],
        paragraph(
            f"The crossing to {name} takes {_number(name, 'minutes', 12, 55)} minutes. From November to March the last",
            f"boat leaves {name} at {_number(name, 'last', 16, 21)}:{_number(name, 'past', 10, 55)}.",
        ),
    ]  # fmt: skip


def _hut(name: str) -> list[list[Line]]:
    return [
        paragraph(
            f"The {name} hut has {_number(name, 'beds', 18, 96)} beds in four rooms. Sheets are compulsory.",
            f"The warden of {name} serves the evening meal at {_number(name, 'meal', 17, 19)}:30.",
        ),
        paragraph(
            f"Drinking water at {name} comes from a spring {_number(name, 'spring', 60, 480)} metres above the hut.",
            f"The ascent from the valley takes {_number(name, 'ascent', 2, 7)} hours.",
        ),
    ]


def _museum(name: str) -> list[list[Line]]:
    full = _number(name, "full", 6, 15)
    return [
        [
            *paragraph(f"Admission to the {name} Museum", size=16),
            *_table([("Visitor", "Price"), ("Adult", f"{full} euros"), ("Pensioner", f"{full - 3} euros")], 660),
        ],
        paragraph(
            f"The {name} Museum is closed on {_one_of(name, 'closed', _DAYS)}. Its oldest exhibit was made in "
            f"{_number(name, 'oldest', 1420, 1790)}.",
            f"The cloakroom of the {name} Museum takes coats only.",
        ),
    ]


def _pump(name: str) -> list[list[Line]]:
    model = f"{name} {_number(name, 'model', 2, 9)}00"
    return [
        [
            *paragraph(f"Technical data of the {model}", size=16),
            *_table(
                [("Property", "Value"), ("Flow rate", f"{_number(name, 'flow', 31, 99)} litres a minute"),
                 ("Sound level", f"{_number(name, 'sound', 48, 79)} decibels"),
                 ("Mass", f"{_number(name, 'mass', 11, 39)} kilograms")],
                660,
            ),
        ],
        paragraph(
            f"Drain the {model} before the first frost. Replace the filter after {_number(name, 'filter', 110, 890)}",
            f"operating hours. The guarantee of the {model} covers {_number(name, 'guarantee', 2, 8)} years.",
        ),
    ]  # fmt: skip


def _ship(name: str) -> list[list[Line]]:
    return [
        paragraph(
            f"The schooner {name} was launched at {_one_of(name, 'yard', _TOWNS)} in "
            f"{_number(name, 'launched', 1840, 1899)}.",
            f"She carried {_one_of(name, 'cargo', _CARGOES)}. Her crew numbered {_number(name, 'crew', 5, 14)}.",
        ),
        paragraph(
            f"The {name} ran aground off {_one_of(name, 'loss', _TOWNS)} in {_number(name, 'lost', 1901, 1931)}.",
            "All hands were saved. The figurehead stands in the church.",
        ),
    ]


_WRITERS: dict[str, Callable[[str], list[list[Line]]]] = {
    "lighthouse": _lighthouse,
    "ferry": _ferry,
    "hut": _hut,
    "museum": _museum,
    "pump": _pump,
    "ship": _ship,
}


def leaflets() -> Iterator[tuple[str, bytes]]:
    """The name and the content of each file."""
    for kind, names in _NAMES.items():
        for name in names:
            title = f"{name} {kind}"
            pages = _WRITERS[kind](name)
            cover = [
                *paragraph(title, size=24, y=740),
                *paragraph("Contents", size=14, y=640),
                *paragraph(*(f"{n} {title}, part {n} .......... {n + 1}" for n in (1, 2)), y=610),
                *paragraph("Printed on recycled paper. All rights reserved.", y=90, size=8),
            ]
            yield f"{title.lower().replace(' ', '-')}.pdf", pdf(cover, *pages, title=title)


def write_leaflets(folder: Path) -> Path:
    """Write the files into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in leaflets():
        (folder / name).write_bytes(content)
    return folder


def questions() -> list[LeafletQuestion]:
    """32 questions that a leaflet answers, then eight that none does."""

    def ask(text: str, kind: str, name: str, fact: str) -> LeafletQuestion:
        return LeafletQuestion(text.format(name), f"{name} {kind}".lower().replace(" ", "-"), fact)

    def figure(text: str, kind: str, name: str, label: str, low: int, high: int, unit: str = "") -> LeafletQuestion:
        return ask(text, kind, name, f"{_number(name, label, low, high)}{unit}")

    adult, child = _number("Balta", "adult", 4, 10), _number("Lindo", "child", 1, 7)
    return [
        figure("How strong is the light at {}?", "lighthouse", "Karrow", "range", 11, 29, " nautical miles"),
        figure("What does {} do in fog?", "lighthouse", "Morvay", "horn", 2, 9, " blasts"),
        figure("How far out at sea can sailors see {}?", "lighthouse", "Sandrey", "range", 11, 29, " nautical miles"),
        figure("How many stairs must I go up at {}?", "lighthouse", "Cragwick", "steps", 90, 240, " steps"),
        figure("When did {} get power?", "lighthouse", "Pellin", "wired", 1921, 1958),
        ask("Can I go to the top of {} when there is a storm?", "lighthouse", "Vennel", "closed during gales"),
        figure("How much must I pay to take my tandem to {}?", "ferry", "Hove", "tandem", 3, 9, " crowns"),
        figure("What does a bike for two people cost to {}?", "ferry", "Rossan", "tandem", 3, 9, " crowns"),
        ask("What does it cost a grown-up to get to {}?", "ferry", "Balta", f"Adult {adult} crowns"),
        ask("What is the price for my daughter to {}?", "ferry", "Lindo", f"Child {child} crowns"),
        figure("How long is the trip over to {}?", "ferry", "Ulmer", "minutes", 12, 55, " minutes"),
        figure("How late can I still get home from {} in winter?", "ferry", "Tjorn", "last", 16, 21, ":"),
        ask("Do I have to buy anything for my puppy on the way to {}?", "ferry", "Finnoy", "Dogs ride free"),
        figure("How many people can sleep at {}?", "hut", "Fanes", "beds", 18, 96, " beds"),
        figure("When is dinner at {}?", "hut", "Tuoi", "meal", 17, 19, ":30"),
        figure("How long must I walk up to {}?", "hut", "Medel", "ascent", 2, 7, " hours"),
        figure("Where does what I drink at {} come from?", "hut", "Ramoz", "spring", 60, 480, " metres"),
        ask("Must I bring linen to {}?", "hut", "Zapport", "Sheets are compulsory"),
        ask("On which day can I not go to the {} Museum?", "museum", "Puppet", _one_of("Puppet", "closed", _DAYS)),
        figure("How old is the most ancient thing in the {} Museum?", "museum", "Amber", "oldest", 1420, 1790),
        figure("What do I pay to get into the {} Museum?", "museum", "Tram", "full", 6, 15, " euros"),
        ask("What can I leave at the entrance of the {} Museum?", "museum", "Lace", "coats only"),
        figure("How loud is the {}?", "pump", "Ventor", "sound", 48, 79, " decibels"),
        figure("How heavy is the {}?", "pump", "Rivus", "mass", 11, 39, " kilograms"),
        figure("How quickly does the {} move water?", "pump", "Pontel", "flow", 31, 99, " litres"),
        ask("What must I do with the {} when it gets cold?", "pump", "Undor", "before the first frost"),
        figure("For how long can I take a broken {} back?", "pump", "Torrin", "guarantee", 2, 8, " years"),
        figure("When was the {} built?", "ship", "Hilda Marie", "launched", 1840, 1899),
        figure("When did the {} sink?", "ship", "Concordia", "lost", 1901, 1931),
        figure("How many sailors worked on the {}?", "ship", "Ingeborg", "crew", 5, 14),
        ask("What goods were in the hold of the {}?", "ship", "Dagny", _one_of("Dagny", "cargo", _CARGOES)),
        ask("Did anybody drown on the {}?", "ship", "Minerva", "All hands were saved"),
        *map(
            LeafletQuestion,
            (
                "How strong is the light at Kinnaird?",
                "What does a tandem cost on the ferry to Orkney?",
                "When was the Cutty Sark built?",
                "How loud is the Grundfos 300?",
                "How do I make apple jam?",
                "Who won the marathon of Boston in 1975?",
                "Which vitamins are in spinach?",
                "How long is the flight from Paris to Tokyo?",
            ),
        ),
    ]
