"""Message types of a bag: their definitions, and which of their fields are numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from twinproof.ingest.bag_storage import Topic

BLOBS = {"uint8", "byte", "char", "octet"}  # lists of these are files or grids, not measurements
TEXTS = {"string", "wstring", "wchar"}
WIDEST = 4096  # numbers in one message of a signal; more is a cloud, a grid or a scan
LONGEST_UNROLLED = 1024  # rosbags unrolls fixed arrays of messages into code


@dataclass(frozen=True)
class Leaf:
    """A number, or a list of numbers, inside a message."""

    path: tuple[str | int, ...]  # attributes and indices from the message down
    column: str
    many: bool = False  # a list: its columns get [0], [1], …
    wide: bool = False  # 64-bit whole numbers, which a float holds only up to 2^53


@dataclass(frozen=True)
class Left:
    """A field that is not read, and why."""

    column: str
    reason: str


def standard_type(msgtype: str) -> str:
    """pkg/msg/Name, also for the short form pkg/Name."""
    parts = msgtype.split("/")
    return f"{parts[0]}/msg/{parts[1]}" if len(parts) == 2 else msgtype


@lru_cache(maxsize=64)
def store_for(topic_type: str, definition_format: str, definition: str) -> Any | None:
    """A rosbags type store that knows the type: from the bag's own definition, else from ROS 2 itself; None if neither.

    Bags without definitions come from ROS 2 Humble and before.
    """
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    if not definition:
        store = get_typestore(Stores.ROS2_HUMBLE)
        return store if topic_type in store.fielddefs else None
    types: dict[str, Any] = {}
    if definition_format == "ros2msg":
        types.update(get_types_from_msg(definition, topic_type))
    else:
        ruler = "=" * 80 + "\n"
        for part in definition.split(ruler) if definition.startswith(f"{ruler}IDL: ") else [definition]:
            body = part.partition("\n")[2] if part.startswith("IDL: ") else part
            types.update(get_types_from_idl(body) if body.strip() else {})
    _check_arrays(types)
    store = get_typestore(Stores.EMPTY)
    store.register(types)
    return store if topic_type in store.fielddefs else None


def store_of(topic: Topic) -> Any | None:
    """The store for a topic's type."""
    return store_for(standard_type(topic.msgtype), topic.definition_format, topic.definition)


def _check_arrays(types: dict[str, Any]) -> None:
    from rosbags.interfaces import Nodetype

    for name, (_, fields) in types.items():
        for field, (node, inner) in fields:
            if node == Nodetype.ARRAY and inner[1] > LONGEST_UNROLLED and inner[0][1] not in _plain_bases(inner):
                raise ValueError(f"{name}.{field} is an array of {inner[1]} entries")


def _plain_bases(inner: Any) -> tuple[Any, ...]:
    from rosbags.interfaces import Nodetype

    numeric = inner[0][0] == Nodetype.BASE and inner[0][1][0] not in TEXTS
    return (inner[0][1],) if numeric else ()


def same_fields(store: Any, msgtype: str) -> bool:
    """Whether a store has a type exactly as ROS 2 defines it."""
    from rosbags.typesys import Stores, get_typestore

    return bool(store.fielddefs[msgtype][1] == get_typestore(Stores.ROS2_HUMBLE).fielddefs[msgtype][1])


def has_header(store: Any, msgtype: str) -> bool:
    """Whether a type has a `header` of type std_msgs/Header."""
    return any(name == "header" and inner == "std_msgs/msg/Header" for name, (_, inner) in store.fielddefs[msgtype][1])


def leaves(store: Any, msgtype: str) -> Iterator[Leaf | Left]:
    """Every field of a type below its header, depth first: numbers, or why a field is left out."""
    yield from _leaves(store, msgtype, (), "", depth=0)


def _leaves(store: Any, msgtype: str, path: tuple[str | int, ...], prefix: str, depth: int) -> Iterator[Leaf | Left]:
    from rosbags.interfaces import Nodetype
    from rosbags.typesys.base import normalize_fieldname

    if depth > 16:
        raise ValueError(f"{msgtype} is nested too deeply")
    for name, (node, inner) in store.fielddefs[msgtype][1]:
        if (depth == 0 and name == "header") or name == "structure_needs_at_least_one_member":
            continue
        column, at = prefix + name, (*path, normalize_fieldname(name))
        if node == Nodetype.BASE:
            yield from _number(inner[0], at, column)
        elif node == Nodetype.NAME:
            yield from _leaves(store, inner, at, f"{column}.", depth + 1)
        elif inner[0][0] == Nodetype.BASE:
            yield from _numbers(inner[0][1][0], node == Nodetype.ARRAY, at, column)
        elif node == Nodetype.ARRAY:
            for i in range(inner[1]):
                yield from _leaves(store, inner[0][1], (*at, i), f"{column}[{i}].", depth + 1)
        else:
            yield Left(column, f"a list of {inner[0][1]}")


def _number(base: str, path: tuple[str | int, ...], column: str) -> Iterator[Leaf | Left]:
    if base in TEXTS:
        yield Left(column, "text")
    else:
        yield Leaf(path, column, wide=base in ("int64", "uint64"))


def _numbers(base: str, fixed: bool, path: tuple[str | int, ...], column: str) -> Iterator[Leaf | Left]:
    if base in TEXTS:
        yield Left(column, "text")
    elif base in BLOBS and not fixed:
        yield Left(column, "bytes")
    else:
        yield Leaf(path, column, many=True, wide=base in ("int64", "uint64"))
