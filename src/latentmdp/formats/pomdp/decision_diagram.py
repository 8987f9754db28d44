"""Tables of `.pomdpx` as decision diagrams: a node asks for a variable's value, a leaf has numbers.

<Node var="action"><Edge val="wait"><SubDAG type="persistent" var="rock_1"/></Edge> ...
"""

from dataclasses import dataclass, field

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.names import Names
from latentmdp.formats.pomdp.rules import ANY, Rules
from latentmdp.formats.pomdp.xml_stream import DEEPEST

MOST_VISITS = 200_000  # of nodes, for any file; templates in templates multiply


@dataclass(frozen=True)
class Node:
    """Asks for the value of `variable`."""

    variable: str
    edges: list[tuple[str, "Diagram"]] = field(default_factory=list)


@dataclass(frozen=True)
class Shorthand:
    """A `SubDAG`: what stands for a distribution of the table's variable."""

    kind: str  # deterministic, persistent, uniform, template
    variable: str = ""
    value: str = ""
    template: str = ""


Diagram = Node | Shorthand | float


class DiagramTable:
    """Turns diagrams into rules.

    `axes` are the table's variables in order, parents first; `previous` is the place of the
    variable's own value one step before, if it is among them.
    """

    def __init__(
        self,
        rules: Rules,
        axes: dict[str, Names],
        previous: int | None,
        templates: dict[str, Diagram],
        file_bytes: int,
        is_reward: bool,
    ) -> None:
        self.rules, self.axes, self.previous = rules, axes, previous
        self.templates, self.is_reward = templates, is_reward
        self.place_of = {name: i for i, name in enumerate(axes)}
        self.visits_left = MOST_VISITS + file_bytes
        self.places: list[list[int]] = []
        self.values: list[float] = []

    def add(self, diagram: Diagram) -> None:
        """Rules for every leaf."""
        self._walk(diagram, [ANY] * len(self.axes), 0)
        places = np.array(self.places, dtype=np.int64).reshape(-1, len(self.axes))
        self.rules.add_many(list(places.T), np.array(self.values))

    def _leaf(self, place: list[int], value: float) -> None:
        self.places.append(place)
        self.values.append(value)

    def _walk(self, diagram: Diagram, place: list[int], depth: int) -> None:
        self.visits_left -= 1
        if self.visits_left < 0:
            raise ModelError("the diagram must not be far larger than the file; templates repeat")
        if depth > min(2 * len(self.axes) + 4, DEEPEST):
            raise ModelError("the diagram asks for variables again and again, or in a circle")
        if isinstance(diagram, float):
            self._leaf(place, diagram)
        elif isinstance(diagram, Node):
            at = self._place(diagram.variable)
            for value, below in diagram.edges:
                number = self.axes[diagram.variable][value]
                if place[at] in (ANY, number) or number == ANY:
                    chosen = place[at] if number == ANY else number
                    self._walk(below, [*place[:at], chosen, *place[at + 1 :]], depth + 1)
        elif diagram.kind == "template":
            if diagram.template not in self.templates:
                raise ModelError(f"there is no SubDAGTemplate {diagram.template[:80]!r}")
            self._walk(self.templates[diagram.template], place, depth + 1)
        else:
            self._distribution(diagram, place)

    def _distribution(self, shorthand: Shorthand, place: list[int]) -> None:
        last = len(self.axes) - 1
        if self.is_reward or self._place(shorthand.variable) != last:
            raise ModelError(
                f"a {shorthand.kind[:80]!r} SubDAG must be about the table's own variable; "
                f"it is about {shorthand.variable[:80]!r}"
            )
        if shorthand.kind == "uniform":
            self._leaf(place, 1.0 / self.rules.sizes[last])
        elif shorthand.kind == "deterministic":
            number = self.axes[shorthand.variable][shorthand.value]
            if number == ANY:
                raise ModelError("a deterministic SubDAG must have one value")
            self._leaf([*place[:last], number], 1.0)
        elif shorthand.kind == "persistent":
            if self.previous is None:
                raise ModelError(
                    f"{shorthand.variable[:80]!r} can only be persistent if its previous value is "
                    "among its parents"
                )
            known = place[self.previous]
            if known != ANY:
                self._leaf([*place[:last], known], 1.0)
            else:
                self._identity(place, self.previous, last)
        else:
            raise ModelError(
                "the type of a SubDAG must be deterministic, persistent, uniform or template; it "
                f"is {shorthand.kind[:80]!r}"
            )

    def _identity(self, place: list[int], one: int, other: int) -> None:
        """1 where two numbers are the same."""
        every = np.arange(self.rules.sizes[other])
        places = [np.full(len(every), number) for number in place]
        places[one] = places[other] = every
        self.rules.add_many(places, np.ones(len(every)))

    def _place(self, variable: str) -> int:
        if variable not in self.place_of:
            raise ModelError(
                f"the diagram must ask for the table's parents or its variable; it asks for "
                f"{variable[:80]!r}"
            )
        return self.place_of[variable]
