"""Tensors of other hosts: ``tensorcask.serve``, ``follow``, and what they take and return."""

import os
import types
import typing
from collections.abc import Callable, Mapping

from tensorcask import _native
from tensorcask._errors import AbortedError, InvalidArgumentError, MissingTensorError


_MAX_PEM_BYTES = 1 << 20


class Version(typing.NamedTuple):
    """Which tensors a server offers. Those of one version never change; each new set has another version.

    >>> import tensorcask as tc
    >>> tc.Version(100, 7).step
    100
    """

    step: int
    id: int  # random: two sets of one step have different versions


class Credentials:
    """What a server or a client of ``grpcs://`` shows, and what it accepts.

    ``certificate`` and ``key`` are those of this side: a server needs both, a client where the server asks for them.
    ``authorities`` may have signed the certificate of the other side: without them a client trusts those of the system,
    and a server asks clients for no certificate. With a ``token`` a server serves only clients that show the same one.
    Each but the token is the path of a file in PEM, or its content as bytes.

    >>> import tensorcask as tc
    >>> tc.Credentials(authorities=b"-----BEGIN CERTIFICATE-----...", token="a secret")
    Credentials(authorities, token)
    """

    def __init__(
        self,
        *,
        certificate: "str | os.PathLike[str] | bytes | None" = None,
        key: "str | os.PathLike[str] | bytes | None" = None,
        authorities: "str | os.PathLike[str] | bytes | None" = None,
        token: "str | None" = None,
    ) -> None:
        if (certificate is None) != (key is None):
            raise InvalidArgumentError("a certificate needs its key, and a key its certificate")
        self.certificate = _pem("certificate", certificate)
        self.key = _pem("key", key)
        self.authorities = _pem("authorities", authorities)
        self.token = token

    def __repr__(self) -> str:
        return f"Credentials({', '.join(name for name, value in vars(self).items() if value is not None)})"


def _pem(what: str, source: "str | os.PathLike[str] | bytes | None") -> "bytes | None":
    if source is None:
        return None
    if isinstance(source, bytes):
        content, name = source, what
    else:
        with open(source, "rb") as file:
            content = file.read(_MAX_PEM_BYTES + 1)
        name = os.fspath(source)
    if len(content) > _MAX_PEM_BYTES or b"-----BEGIN " not in content:
        raise InvalidArgumentError(f"{name}: not PEM: wanted -----BEGIN ..., at most {_MAX_PEM_BYTES} bytes")
    return content


def serve(
    source: "str | os.PathLike[str] | _native.Reader | Mapping[str, object] | None",
    address: str = "127.0.0.1:0",
    *,
    step: int = 0,
    follow: bool = False,
    name: str = "ckpt",
    interval: float = 1.0,
    verify: bool = False,
    in_memory: bool = False,
    credentials: "Credentials | None" = None,
    insecure: bool = False,
    accept_pushes: bool = False,
    max_memory_bytes: int = 256 << 20,
    max_streams: int = 256,
    slow_client: float = 30.0,
) -> "_native.Server":
    """Serves tensors to other hosts over gRPC, until the server is closed. Needs gRPC (MissingFrameworkError).

    ``source`` is

    - the path of a file, or a ``Reader``, which may be closed afterwards;
    - several readers, as a mapping: the tensors of the reader ``old`` are ``old/...``;
    - with ``follow``, the folder of a ``CheckpointManager`` with this ``name``: the newest whole step, and each new one
      within ``interval`` seconds. With ``verify`` a step counts as whole if all its bytes are, else if its structure
      is. With ``in_memory`` each step is read before it is served, and the run may remove it then;
    - a mapping of arrays, which are copied: ``step`` is their version, and ``Server.publish`` replaces them. None is
      the same without tensors: clients are told to wait.

    ``address`` is HOST:PORT; port 0 is any that is free, ``Server.port``. An address that other hosts reach needs
    ``credentials``, or ``insecure=True``: then every host that reaches it can read all tensors. With ``accept_pushes``
    clients may replace the tensors of a mapping (``tensorcask.push``).

    All streams together take at most ``max_memory_bytes`` beside tensors that are in memory. ``max_streams`` are open
    at once. A stream whose client takes nothing for ``slow_client`` seconds is ended.

    >>> import numpy as np, tensorcask as tc       # needs grpc
    >>> _ = tc.save("served.safetensors", {"w": np.arange(4)}, overwrite=True)
    >>> with tc.serve("served.safetensors") as server, tc.open(server.url) as reader:
    ...     print(list(reader), reader.slice("w")[2:])
    ['w'] [2 3]
    """
    readers = _readers_of(source)
    is_live = False
    if follow:
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(f"with follow=True, source must be the path of a folder, not {type(source)!r}")
        origin = _native.folder_source(source, name, interval, verify, in_memory)
    elif isinstance(source, (str, os.PathLike)):
        with _native.open(source) as reader:
            origin = _native.readers_source({"": reader})
    elif readers is not None:
        origin = _native.readers_source(readers)
    elif source is None or hasattr(source, "items"):
        is_live = True
        origin = _native.live_source()
    else:
        raise TypeError(
            "source must be a path, a Reader, a mapping of names to arrays or of prefixes to Readers, or None, not "
            f"{type(source)!r}"
        )
    if credentials is not None and credentials.certificate is None:
        raise InvalidArgumentError("the credentials of a server need a certificate and its key")
    if max_streams < 1:
        raise InvalidArgumentError(f"max_streams is {max_streams}; wanted 1 or more")
    if accept_pushes and not is_live:
        raise InvalidArgumentError("accept_pushes=True needs a mapping of arrays or None as the source")
    server = _native.Server(
        origin, address, credentials, insecure, max_memory_bytes, max_streams, slow_client, accept_pushes
    )
    if is_live and source is not None:
        try:
            server.publish(step, typing.cast("Mapping[str, object]", source))
        except BaseException:
            server.close()
            raise
    return server


class Follower:
    """Loads the tensors of a server, and each newer version of them: an iterator of versions. ``follow`` makes it.

    Between two steps of the iterator nothing is changed. ``stop``, which any thread may call, ends the iteration; so
    does the end of a ``with`` block.

    >>> import numpy as np, tensorcask as tc       # needs grpc
    >>> weights = {"w": np.zeros(2)}
    >>> with tc.serve({"w": np.ones(2)}, step=1) as server, tc.follow(server.url, weights) as follower:
    ...     first = next(follower)
    ...     _ = server.publish(2, {"w": np.full(2, 5.0)})
    ...     print(first.step, next(follower).step, weights["w"])
    1 2 [5. 5.]
    """

    def __init__(
        self,
        address: str,
        target: object,
        *,
        strict: bool,
        timeout: "float | None",
        credentials: "Credentials | None",
    ) -> None:
        self._address = address
        self._target = target
        self._strict = strict
        self._timeout = timeout
        self._credentials = credentials
        self._subscription = _native.Subscription(address, credentials)
        self._version: "Version | None" = None

    @property
    def version(self) -> "Version | None":
        """Of the tensors that were loaded last; None before the first."""
        return self._version

    def __iter__(self) -> "Follower":
        return self

    def __next__(self) -> Version:
        """Waits for a newer version, loads it, and returns it."""
        version = self.next(self._timeout)
        if version is None:
            raise StopIteration
        return version

    def next(self, timeout: "float | None" = None) -> "Version | None":
        """Waits for a newer version, loads it, and returns it. None after ``stop``.

        TimeoutError if there is none in time; the timeout does not end a transfer that has begun.
        """
        while (version := self._subscription.next(timeout)) is not None:
            if version == self._version:  # a function has seen it
                continue
            loaded = self._load(version)
            if loaded is not None:
                self._version = loaded
                return loaded
        return None

    def _load(self, version: Version) -> "Version | None":
        """The version that was loaded: this one, or a newer one. None if the server replaced it meanwhile."""
        if _takes_tensors(self._target):
            outs = _arrays_of(self._target)
            self._check_names(outs)
            return version if self._subscription.pull_into(outs) else None
        try:
            with _native.open(self._address, credentials=self._credentials) as reader:
                typing.cast("Callable[[_native.Reader], object]", self._target)(reader)
                return reader.version
        except AbortedError:
            return None

    def _check_names(self, outs: "Mapping[str, object]") -> None:
        offered = self._subscription.names()
        missing = sorted(set(outs) - set(offered))
        if missing:
            raise MissingTensorError(f"{self._address}: has no tensor {missing[0]!r}{_and_more(missing)}")
        extra = sorted(set(offered) - set(outs))
        if extra and self._strict:
            raise InvalidArgumentError(
                f"{self._address}: tensor {extra[0]!r}{_and_more(extra)} has no place in what is loaded into; "
                "strict=False leaves it out"
            )

    def stop(self) -> None:
        """Ends the iteration, also while another thread waits in it."""
        self._subscription.stop()

    @property
    def stopped(self) -> bool:
        return self._subscription.stopped

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self,
        type: "type[BaseException] | None",
        exception: "BaseException | None",
        traceback: "types.TracebackType | None",
    ) -> None:
        self.stop()


def follow(
    address: str,
    target: object,
    *,
    strict: bool = True,
    timeout: "float | None" = None,
    credentials: "Credentials | None" = None,
) -> Follower:
    """Follows a server: loads its tensors now, and then each newer version, in place. Needs gRPC.

    ``target`` is a module of PyTorch (or another object with ``state_dict``, whose tensors share its memory), a mapping
    of names to arrays that can be written, or a function. Tensors arrive in one stream, straight in the memory of the
    arrays, which must have their dtypes and shapes; those on a GPU pass through the host. A function is called with a
    ``Reader`` of the newest version instead, and reads what it wants; if the server replaces that version meanwhile, it
    is called again.

    Each step of the iterator waits for a version, and gives it once it is loaded. The first is the one that the server
    has: nothing is loaded before ``next`` is called. A server may leave out versions that were replaced meanwhile.
    While the server is away, or has nothing yet, the follower waits. If ``timeout`` seconds pass without a newer
    version, it is a TimeoutError, or a ConnectionError before the first.

    All names of the target must be those of tensors of the server (KeyError), and with ``strict`` the reverse, too
    (ValueError). After an error the arrays are unspecified.

    >>> import numpy as np, tensorcask as tc       # needs grpc
    >>> with tc.serve({"w": np.ones(2)}, step=7) as server:
    ...     weights = {"w": np.zeros(2)}
    ...     for version in tc.follow(server.url, weights):
    ...         print(version.step, weights["w"])
    ...         break
    7 [1. 1.]
    """
    if not _takes_tensors(target) and not callable(target):
        raise TypeError(
            "target must be a module with state_dict, a mapping of names to arrays, or a function of a Reader, not "
            f"{type(target)!r}"
        )
    return Follower(address, target, strict=strict, timeout=timeout, credentials=credentials)


def _readers_of(source: object) -> "dict[str, _native.Reader] | None":
    """The readers by the prefix of their names; None for another source."""
    if isinstance(source, _native.Reader):
        return {"": source}
    if not isinstance(source, Mapping) or not any(isinstance(value, _native.Reader) for value in source.values()):
        return None
    if not all(isinstance(value, _native.Reader) for value in source.values()):
        raise TypeError("source has Readers and other values; wanted Readers alone, or arrays alone")
    return {f"{prefix}/" if prefix else "": reader for prefix, reader in source.items()}


def _takes_tensors(target: object) -> bool:
    return hasattr(target, "state_dict") or hasattr(target, "items")


def _arrays_of(target: typing.Any) -> "Mapping[str, object]":
    return target.state_dict() if hasattr(target, "state_dict") else target  # type: ignore[no-any-return]


def _and_more(names: "list[str]") -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
