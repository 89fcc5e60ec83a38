"""Names the wrong word, and the near ones, of a call with an unknown keyword."""

import functools
import re
import typing

_Function = typing.TypeVar("_Function", bound=typing.Callable[..., typing.Any])


def names(signature: str) -> list[str]:
    """The parameters of "def f(a: int, *, b: dict[str, int] = {}) -> None"."""
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
    return found


def named(function: _Function) -> _Function:
    """The same function, whose TypeError for an unknown keyword is a sentence."""
    known = names((function.__doc__ or "").partition("\n")[0])

    @functools.wraps(function)
    def call(*positional: typing.Any, **keywords: typing.Any) -> typing.Any:
        for word in keywords:
            if word not in known:
                import difflib  # not for a program without mistakes

                near = difflib.get_close_matches(word, known)
                meant = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}"
                raise TypeError(f"{function.__name__}() has no argument '{word}'; {meant}") from None
        return function(*positional, **keywords)

    call.__module__ = "tensorcask"  # where pickle looks for it
    return typing.cast(_Function, call)
