"""Names the wrong word, and the near ones, of a call with an unknown keyword."""

import functools
import re
import typing

_Function = typing.TypeVar("_Function", bound=typing.Callable[..., typing.Any])


def names(signature: str) -> list[str]:
    """The parameters of "def f(self, a: int, *, b: dict[str, int] = {}) -> None", but for self."""
    inside = signature[signature.index("(") + 1 :]
    found, depth, start = [], 0, True
    for part in re.findall(r"\w+|[^\w\s]", inside):
        if part in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif part in "([{":
            depth += 1
        elif part == "," and depth == 0:
            start = True
        elif start and part not in "*/":
            found.append(part)
            start = False
    return [name for name in found if name != "self"]


def names_of(function: typing.Any) -> list[str]:
    """The parameters of a function whose documentation begins with its signature."""
    signature = (function.__doc__ or "").partition("\n")[0]
    return names(signature) if "(" in signature else []


def check(name: str, known: list[str], keywords: typing.Iterable[str]) -> None:
    """A TypeError with a sentence for a keyword that is not known."""
    for word in keywords:
        if word not in known:
            import difflib  # not for a program without mistakes

            near = difflib.get_close_matches(word, known)
            meant = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}"
            raise TypeError(f"{name}() has no argument '{word}'; {meant}") from None


def refuse(cls: type, keywords: typing.Iterable[str], missing: str) -> None:
    """The same for the keywords that the constructor of `cls` does not know, and for the argument that it lacks."""
    check(cls.__name__, names_of(cls.__init__), keywords)  # type: ignore[misc]
    if missing:
        raise TypeError(f"{cls.__name__}() needs the argument '{missing}'")


def named(function: _Function) -> _Function:
    """The same function, whose TypeError for an unknown keyword is a sentence."""
    known = names_of(function)

    @functools.wraps(function)
    def call(*positional: typing.Any, **keywords: typing.Any) -> typing.Any:
        if keywords:
            check(function.__name__, known, keywords)
        return function(*positional, **keywords)

    call.__module__ = "tensorcask"  # where pickle looks for it
    return typing.cast(_Function, call)


def name_methods(*classes: type) -> None:
    """Makes the public methods of extension classes `named`, if they have parameters."""
    for cls in classes:
        for name, method in list(vars(cls).items()):
            kind = type(method).__name__
            if name.startswith("_") or kind not in ("nb_method", "nb_func") or not names_of(method):
                continue
            setattr(cls, name, named(method) if kind == "nb_method" else staticmethod(named(method)))
