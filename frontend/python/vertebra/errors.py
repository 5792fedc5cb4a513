"""What can go wrong, as exceptions."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """A range of a source: lines and columns from 1, columns in bytes."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler.

    `code` is that of docs/errors.md: 1101 of VTB1101."""

    is_error: bool
    code: int
    text: str
    place: Place | None = None
    notes: list[tuple[str, Place | None]] = field(default_factory=list)
    help: str | None = None


class VertebraError(RuntimeError):
    """What the library says when a call fails."""


class CompileError(VertebraError):
    """A source, or what was asked of it, is at fault.

    The text shows the lines with carets."""

    def __init__(self, text: str, diagnostics: list[Diagnostic]):
        super().__init__(text)
        self.diagnostics = diagnostics
