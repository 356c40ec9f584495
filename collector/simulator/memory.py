"""Reading and writing the caller's memory: the only file that touches ctypes' untyped corners.

A function of a ctypes library gets `byref(x)`, an array, a pointer, a plain ctypes number or a Python
number. Everything is written through `struct`, which checks bounds and works on any ctypes object, so
the layouts of nvml.h stand here as offsets and not as copies of pynvml's classes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, Final

from collector.simulator.codes import Return, ValueType

# ctypes does not name the type of byref(); its `_obj` is what it refers to.
_REFERENCE: Final = type(ctypes.byref(ctypes.c_int()))
_POINTER: Final = ctypes.POINTER(ctypes.c_int).__mro__[1]

# A foreign ctypes object: any instance that `struct` can pack into.
Memory = Any

UINT8: Final = struct.Struct("<B")
UINT32: Final = struct.Struct("<I")
INT32: Final = struct.Struct("<i")
UINT64: Final = struct.Struct("<Q")
DOUBLE: Final = struct.Struct("<d")

VALUE_WRITERS: Final[dict[ValueType, Callable[..., None]]] = {
    ValueType.DOUBLE: DOUBLE.pack_into,
    ValueType.UNSIGNED_INT: UINT32.pack_into,
    ValueType.UNSIGNED_LONG: UINT64.pack_into,
    ValueType.UNSIGNED_LONG_LONG: UINT64.pack_into,
    ValueType.SIGNED_LONG_LONG: struct.Struct("<q").pack_into,
    ValueType.SIGNED_INT: INT32.pack_into,
    ValueType.UNSIGNED_SHORT: struct.Struct("<H").pack_into,
}
"""Writers of `nvmlValue_t`: each touches only its own width, as a driver does."""


def memory(argument: object, size: int) -> Memory | None:
    """Find the memory that an out-parameter names.

    Args:
        argument: `byref(x)`, an array, structure, pointer or address.
        size: Bytes that will be touched, needed where the argument has no size of its own.

    Returns:
        A ctypes object over that memory, or None for a null pointer.

    Raises:
        TypeError: ctypes would not pass the argument as a pointer.
    """
    if argument is None:
        return None
    foreign: Any = argument
    if isinstance(argument, _REFERENCE):
        return foreign._obj
    if isinstance(argument, _POINTER | ctypes.c_void_p | int):
        address = address_of(argument)
        return (ctypes.c_char * size).from_address(address) if address else None
    if isinstance(argument, ctypes.Array | ctypes.Structure | ctypes.Union):
        return argument
    raise TypeError(f"{type(argument).__name__} is passed by value where NVML takes a pointer: use byref()")


def address_of(argument: object) -> int:
    """Return the address in a handle or pointer, 0 for null.

    Args:
        argument: A `c_void_p`, a ctypes pointer, an int or None.
    """
    if isinstance(argument, ctypes.c_void_p):
        return argument.value or 0
    if argument is None:
        return 0
    if isinstance(argument, int):
        return argument
    foreign: Any = argument
    return ctypes.cast(foreign, ctypes.c_void_p).value or 0


def number(argument: object) -> int:
    """Return a number that was passed by value, as an int or a ctypes integer."""
    foreign: Any = argument
    return int(getattr(foreign, "value", foreign))


def text(argument: object) -> bytes:
    """Return a C string that was passed in: bytes, `c_char_p` or a character array; empty for null."""
    foreign: Any = argument
    value = getattr(foreign, "value", foreign)
    return value if isinstance(value, bytes) else b""


def read_uint32(target: Memory, offset: int = 0) -> int:
    """Read an unsigned 32-bit number at an offset."""
    value: int = UINT32.unpack_from(target, offset)[0]
    return value


def put(argument: object, layout: struct.Struct, *values: int | float) -> Return:
    """Write values to the start of an out-parameter.

    Args:
        argument: The out-parameter.
        layout: Layout of the values.
        *values: The values.

    Returns:
        SUCCESS, or INVALID_ARGUMENT for a null pointer.
    """
    target = memory(argument, layout.size)
    if target is None:
        return Return.INVALID_ARGUMENT
    layout.pack_into(target, 0, *values)
    return Return.SUCCESS


def put_text(argument: object, length: object, value: str) -> Return:
    """Write a NUL-terminated string into a caller's buffer.

    Args:
        argument: The buffer.
        length: Its length in bytes.
        value: The text.

    Returns:
        SUCCESS, INVALID_ARGUMENT for a null pointer, or INSUFFICIENT_SIZE where it does not fit.
    """
    encoded = value.encode() + b"\0"
    size = number(length)
    target = memory(argument, size)
    if target is None:
        return Return.INVALID_ARGUMENT
    if len(encoded) > size:
        return Return.INSUFFICIENT_SIZE
    struct.pack_into(f"{len(encoded)}s", target, 0, encoded)
    return Return.SUCCESS
