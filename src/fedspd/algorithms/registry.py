"""Every method by name: those of the package, and those that users bring.

A module of `algorithms.methods` that holds a `Method` is listed without being named anywhere. A user's own comes in by
`register`, or by an entry point of the group `fedspd.methods`, whose distribution need not be known here.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from fedspd.algorithms import methods
from fedspd.algorithms.method import Method
from fedspd.errors import InputError
from fedspd.reading import nearest

ENTRY_POINTS = "fedspd.methods"


class Registry(Mapping[str, Method]):
    """Methods by name: ours, Table 1 in its order, rivals, what users brought, and what has no privacy."""

    def __init__(self) -> None:
        self._brought: dict[str, Method] = {}

    def __getitem__(self, name: str) -> Method:
        found = self.own(name) or self._brought.get(name) or _installed().get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        listed = {**_installed(), **self._brought, **_built_in()}
        return iter(sorted(listed, key=lambda name: _place(listed[name])))

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def brought(self) -> tuple[Method, ...]:
        """What was registered in this process, for others that it starts."""
        return tuple(self._brought.values())

    @property
    def built_in(self) -> Mapping[str, Method]:
        """The package's own, whose proofs its tests attack; asking for them loads no other distribution's code."""
        return _built_in()

    def own(self, name: str) -> Method | None:
        """The package's own of this name, if there is one."""
        return _own(name)

    def register(self, method: Method) -> None:
        """Enter a method of the user's; the same one again changes nothing."""
        if not isinstance(method, Method):
            raise InputError(f"expected a fedspd Method, got {method!r}; see docs/how-to/add-a-method.md.")
        known = _built_in().get(method.name) or self._brought.get(method.name)
        if known is not None and known is not method:
            raise InputError(f"a method needs a name of its own, got {method.name!r}, which is taken; rename it.")
        check_card(method)
        self._brought[method.name] = method

    def find(self, name: str) -> Method:
        """The method of this name, or a refusal that names the nearest."""
        if name not in self:
            raise InputError(f"the method must be one that fedspd methods lists, got {name!r}; {nearest(name, self)}")
        return self[name]


def check_card(method: Method) -> None:
    """Refuse a claim of proof that names no proof."""
    if method.guarantee == "proved" and not method.card.proved:
        raise InputError(
            f"a proved method names its proof, got {method.name!r} without; say in card.proved what holds and where it "
            "is proved, or set guarantee = 'as published'."
        )


def label(name: str, title: str = "") -> str:
    """What a table or a figure calls a method: its title, or the one given, and whether it is a reconstruction.

    A name that is not listed, of a run folder that another version wrote, is shown as it is.
    """
    method = METHODS.get(name)
    if method is None:
        return title or name
    return f"{title} (reconstruction)" if title and method.card.reconstruction else title or method.label


def _place(method: Method) -> tuple[bool, bool, int, str]:
    card = method.card
    row = 99 if card.table_1 is None else card.table_1
    return (method.guarantee == "none", card.table_1 is None, row, method.name)


@cache
def _own(name: str) -> Method | None:
    """Where a module is called like it, that one alone is loaded: all of them take longer than the paper's run."""
    module = name.replace("-", "_").removesuffix("_published")
    for called in (f"{module}_published", module):
        if called in _modules() and (found := _of_module(called).get(name)):
            return found
    return _built_in().get(name)


@cache
def _modules() -> tuple[str, ...]:
    return tuple(one.name for one in pkgutil.iter_modules(methods.__path__))


def _of_module(module: str) -> dict[str, Method]:
    held = vars(import_module(f"{methods.__name__}.{module}")).values()
    return {one.name: one for one in held if isinstance(one, Method)}


@cache
def _built_in() -> dict[str, Method]:
    found = [one for module in _modules() for one in _of_module(module).values()]
    return {one.name: one for one in sorted(found, key=_place)}


@cache
def _installed() -> dict[str, Method]:
    """Of other distributions; looked for only where a name is not the package's own, or all are listed."""
    from importlib.metadata import entry_points  # loads the standard library's mail modules

    found: dict[str, Method] = {}
    for point in entry_points(group=ENTRY_POINTS):
        method = point.load()
        if not isinstance(method, Method) or method.name in _built_in():
            raise InputError(
                f"the entry point {point.name!r} of {ENTRY_POINTS} must be a fedspd Method with a name of its own, got "
                f"{method!r}; mend or remove that distribution."
            )
        check_card(method)
        found[method.name] = method
    return found


METHODS = Registry()
