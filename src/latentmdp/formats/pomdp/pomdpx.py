"""SARSOP's `.pomdpx` (PomdpX 1.0): variables and tables in XML.

Tables have entries, an `Instance` with the values of the parents and of the variable and numbers
for it: `*` is any value, `-` all values in order, `identity` and `uniform` stand for numbers. Or
they are decision diagrams. What is said last holds, what is not said is 0.
"""

from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.decision_diagram import Diagram, DiagramTable, Node, Shorthand
from latentmdp.formats.pomdp.factored import Factored, StateVariable, VariableTable, flatten
from latentmdp.formats.pomdp.flat import Pomdp
from latentmdp.formats.pomdp.names import Names, Numbered
from latentmdp.formats.pomdp.pomdpx_entries import Entries, finite
from latentmdp.formats.pomdp.rules import Allowance, Rules
from latentmdp.formats.pomdp.xml_stream import Attributes, XmlStream
from latentmdp.model.repair import Repairs
from latentmdp.runtime.files import PathLike, as_path

VARIABLES = {"StateVar": "s", "ActionVar": "a", "ObsVar": "o"}  # and how values are numbered
SECTIONS = ("InitialStateBelief", "StateTransitionFunction", "ObsFunction", "RewardFunction")
INSIDE_EDGE = ("Node", "SubDAG", "Terminal")
CHILDREN: dict[str, tuple[str, ...]] = {
    "pomdpx": ("Description", "Discount", "Variable", *SECTIONS),
    "Variable": (*VARIABLES, "RewardVar"),
    **dict.fromkeys(VARIABLES, ("ValueEnum", "NumValues")),
    **dict.fromkeys(SECTIONS[:3], ("CondProb",)),
    "RewardFunction": ("Func",),
    **dict.fromkeys(("CondProb", "Func"), ("Var", "Parent", "Parameter")),
    "Parameter": ("Entry", "DAG", "SubDAGTemplate"),
    "Entry": ("Instance", "ProbTable", "ValueTable"),
    **dict.fromkeys(("DAG", "SubDAGTemplate", "Edge"), INSIDE_EDGE),
    "Node": ("Edge",),
}
TEXTS = (
    "Discount", "ValueEnum", "NumValues", "Var", "Parent", "Instance", "ProbTable", "ValueTable",
    "Terminal",
)  # fmt: skip


def read_pomdpx(
    path: PathLike, discount: float | None = None, repairs: Repairs | None = None
) -> Pomdp:
    """The POMDP in a file; `discount` in place of the file's own."""
    allowance = Allowance(as_path(path).stat().st_size)
    model = _Reader(allowance).read(path)
    if discount is not None:
        model.discount = discount
    _check_complete(model)
    return flatten(model, allowance, repairs or Repairs())


class _Reader:
    """Follows the elements of a file; `open_table` is the one that is being read."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.model = Factored()
        self.values: dict[str, Names] = {}  # by variable, both names of a state variable
        self.rewards: set[str] = set()
        self.texts: dict[str, str] = {}  # of the element that is being read
        self.open_table: VariableTable | None = None
        self.diagram: Diagram | None = None
        self.diagrams: list[Diagram] = []
        self.templates: dict[str, Diagram] = {}
        self.nodes: list[Node] = []
        self.edges: list[str] = []

    def read(self, path: PathLike) -> Factored:
        """All of a file."""
        self.stream = XmlStream("pomdpx", CHILDREN, TEXTS, skipped=("Description",))
        self.stream.on_start, self.stream.on_end = self._on_start, self._on_end
        self.stream.on_text = self._on_text
        self.stream.read(path)
        return self.model

    def _on_text(self, name: str, text: str, _: Attributes) -> None:
        if name == "Terminal":
            self._place(finite(text, "Terminal"))
        elif name == "Discount":
            self.model.discount = finite(text, "Discount")
        else:
            if name in self.texts:
                raise ModelError(f"<{name}> must come once; it comes twice")
            self.texts[name] = text

    def _on_start(self, name: str, attributes: Attributes) -> None:
        if name == "Entry":
            self.texts = {}
        elif name in VARIABLES or name in ("CondProb", "Func"):
            self.texts, self.attributes, self.open_table = {}, attributes, None
        elif name == "RewardVar":
            self.rewards.add(_attribute(name, attributes, "vname"))
        elif name in SECTIONS:
            if not self.values:
                raise ModelError(f"<{name}> must come after <Variable>; no variable is known yet")
            self.section = name
        elif name == "Parameter":
            self._begin_table(attributes)
        elif name == "SubDAGTemplate":
            self.template = _attribute(name, attributes, "id")
            self.diagrams = []
        elif name == "DAG":
            self.diagrams = []
        elif name == "Node":
            self.nodes.append(Node(_attribute(name, attributes, "var")))
        elif name == "Edge":
            self.edges.append(_attribute(name, attributes, "val"))
        elif name == "SubDAG":
            kind = _attribute(name, attributes, "type")
            rest = (attributes.get(key, "") for key in ("var", "val", "idref"))
            self._place(Shorthand(kind, *rest))

    def _on_end(self, name: str) -> None:
        if name == "Entry":
            self._end_entry()
        elif name in VARIABLES:
            self._end_variable(name)
        elif name == "Node":
            self._place(self.nodes.pop())
        elif name == "Edge":
            self.edges.pop()
        elif name in ("DAG", "SubDAGTemplate"):
            if len(self.diagrams) != 1:
                raise ModelError(f"<{name}> must hold one diagram; it holds {len(self.diagrams)}")
            if name == "SubDAGTemplate":
                self.templates[self.template] = self.diagrams[0]
            else:
                self.diagram = self.diagrams[0]
        elif name == "Parameter":
            self._end_table()
        elif name in ("CondProb", "Func") and self.open_table is None:
            raise ModelError(f"<{name}> must have a <Parameter>; it has none")

    # ------------------------------------------------------------------ variables

    def _end_variable(self, kind: str) -> None:
        if len(self.texts) != 1:
            raise ModelError(f"<{kind}> must have either <ValueEnum> or <NumValues>")
        ((how, text),) = self.texts.items()
        if how == "ValueEnum":
            values: list[str] | Numbered = text.split()
        else:
            count = text.strip()
            if not count.isdecimal() or len(count) > 18:
                raise ModelError(f"<NumValues> must be a whole number; it is {text[:80]!r}")
            self.allowance.check(int(count), f"{count} values")
            values = Numbered(VARIABLES[kind], int(count))
        if len(values) == 0:
            raise ModelError(f"<{kind}> must have at least one value; it has none")
        names = Names("value", values)
        if kind == "StateVar":
            before, after = (
                _attribute(kind, self.attributes, key) for key in ("vnamePrev", "vnameCurr")
            )
            is_seen = self.attributes.get("fullyObs", "").strip().lower() in ("true", "1")
            self.model.states.append(StateVariable(before, values, is_seen, after))
            new = [before, after]
        else:
            new = [_attribute(kind, self.attributes, "vname")]
            group = self.model.actions if kind == "ActionVar" else self.model.observations
            group[new[0]] = values
        for name in new:
            if name in self.values or new.count(name) > 1:
                raise ModelError(f"variables must have different names; {name!r} comes twice")
            self.values[name] = names

    # ------------------------------------------------------------------ tables

    def _begin_table(self, attributes: Attributes) -> None:
        missing = [name for name in ("Var", "Parent") if name not in self.texts]
        if missing:
            raise ModelError(f"<{missing[0]}> must come before <Parameter>; it is missing")
        kind = attributes.get("type", "TBL").strip()
        if kind not in ("TBL", "DD"):
            raise ModelError(f"the type of <Parameter> must be TBL or DD; it is {kind[:80]!r}")
        variable = self.texts["Var"].strip()
        parents = tuple(self.texts["Parent"].split())
        parents = () if parents == ("null",) else parents
        known = self._known_parents(variable)
        for parent in parents:
            if parent not in known or parents.count(parent) > 1:
                raise ModelError(
                    f"the parents of {variable[:80]!r} must be variables that it may depend on, "
                    f"each once; {parent[:80]!r} is not"
                )
        is_reward = self.section == "RewardFunction"
        if is_reward and not parents:
            raise ModelError(f"the reward {variable[:80]!r} must have parents; it has none")
        self.axes = {name: self.values[name] for name in parents}
        if not is_reward:
            self.axes[variable] = self.values[variable]
        self.kind, self.diagram, self.templates = kind, None, {}
        names = tuple(self.values[parent].names for parent in parents)
        rules = Rules([len(axis.names) for axis in self.axes.values()], self.allowance)
        self.open_table = VariableTable(variable, parents, names, rules)
        self.entries = Entries(rules, self.axes, is_reward)

    def _known_parents(self, variable: str) -> set[str]:
        """What the variable may depend on, by the section; refuses a variable that is not there."""
        model = self.model
        before, after = {v.name for v in model.states}, {v.next_name for v in model.states}
        allowed = {
            "InitialStateBelief": (before, before),
            "StateTransitionFunction": (after, before | after | set(model.actions)),
            "ObsFunction": (set(model.observations), after | set(model.actions)),
            "RewardFunction": (
                self.rewards,
                before | after | set(model.actions) | set(model.observations),
            ),
        }
        variables, parents = allowed[self.section]
        if variable not in variables:
            raise ModelError(
                f"<Var> must be a variable of its kind declared before; {variable[:80]!r} is not"
            )
        return parents - {variable}

    def _end_table(self) -> None:
        table = self.open_table
        assert table is not None
        self.entries.finish()
        if self.kind == "DD":
            if self.diagram is None:
                raise ModelError("a <Parameter> of type DD must have a <DAG>; it has none")
            before = {v.next_name: v.name for v in self.model.states}.get(table.variable)
            previous = table.parents.index(before) if before in table.parents else None
            DiagramTable(
                table.rules, self.axes, previous, self.templates, self.allowance.file_bytes,
                self.section == "RewardFunction",
            ).add(self.diagram)  # fmt: skip
        if self.section == "RewardFunction":
            self.model.rewards.append(table)
            return
        tables = {
            "InitialStateBelief": self.model.first,
            "StateTransitionFunction": self.model.next,
            "ObsFunction": self.model.seen,
        }[self.section]
        if table.variable in tables:
            raise ModelError(f"each variable must have one table; {table.variable!r} has two")
        tables[table.variable] = table

    def _end_entry(self) -> None:
        numbers = "ValueTable" if self.section == "RewardFunction" else "ProbTable"
        for name in ("Instance", numbers):
            if name not in self.texts:
                raise ModelError(f"<Entry> must have an <{name}>; it has none")
        if self.kind != "TBL":
            raise ModelError("a <Parameter> of type DD must not have an <Entry>")
        self.entries.add(self.texts["Instance"], self.texts[numbers], self.stream.line)

    def _place(self, diagram: Diagram) -> None:
        """Hang a diagram where it stands: below the last edge, or at the top."""
        if self.edges and len(self.edges) == len(self.nodes):
            self.nodes[-1].edges.append((self.edges[-1], diagram))
        else:
            self.diagrams.append(diagram)


def _attribute(element: str, attributes: Attributes, name: str) -> str:
    value = attributes.get(name, "").strip()
    if not value:
        raise ModelError(f"<{element}> must have the attribute {name}; it has none")
    return value


def _check_complete(model: Factored) -> None:
    if model.discount is None:
        raise ModelError("the discount must be given; the file has no <Discount>")
    for what, found in (("StateVar", model.states), ("ActionVar", model.actions)):
        if not found:
            raise ModelError(f"the file must declare a <{what}>; it has none")
    if not model.rewards:
        raise ModelError("the file must have a <RewardFunction>; it has none")
    needed = [
        *(("InitialStateBelief", v.name, model.first) for v in model.states),
        *(("StateTransitionFunction", v.next_name, model.next) for v in model.states),
        *(("ObsFunction", name, model.seen) for name in model.observations),
    ]
    for section, variable, tables in needed:
        if variable not in tables:
            raise ModelError(f"<{section}> must have a table for {variable[:80]!r}; it has none")
