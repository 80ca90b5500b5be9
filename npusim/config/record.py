"""The class decorator that makes a frozen, strictly validated dataclass of a piece of configuration."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import pydantic.dataclasses
from pydantic import ConfigDict, Field

T = TypeVar("T")

_CONFIG = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, validate_default=True)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field, Field))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots and keyword-only fields whose values are checked strictly, never converted.

    Fields may be scalars, the types of ``npusim.config``, literals, records, tuples, mappings with scalar keys, and
    unions of these; records in a union are told apart by a ``kind: Literal[...]`` field and
    ``Annotated[A | B, Discriminator("kind")]``. ``Doc("...")`` or ``Field(description="...")`` documents a field.
    A rule between fields goes into ``__post_init__`` and raises ValueError. Construction from Python raises pydantic's
    ValidationError; ``load`` raises ConfigError.
    """
    decorate: Any = pydantic.dataclasses.dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
    decorated: type[T] = decorate(cls)
    return decorated
