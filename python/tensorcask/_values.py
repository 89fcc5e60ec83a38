"""Values that files have beside their tensors."""

import typing


class OpaqueObject(typing.NamedTuple):
    """An object of a class that is not known, with what the file says of it; nothing of it was made or called.

    ``tensorcask.open(..., opaque_objects=True)`` lets files of PyTorch have such objects.

    >>> import tensorcask as tc
    >>> tc.OpaqueObject("my.module.Model", arguments=(), state=None).class_name
    'my.module.Model'
    """

    class_name: str
    arguments: object
    state: object
