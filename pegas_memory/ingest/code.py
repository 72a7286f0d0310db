"""Source code into blocks: one for each top-level definition, in between what stands there."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from pegas_memory.errors import NoUsableText
from pegas_memory.ingest.blocks import has_words, tidy
from pegas_memory.ingest.code_names import language_of_code
from pegas_memory.model import Block, BlockKind, DocumentKind, Extracted, Locator
from pegas_memory.text import language_of

JOINED = 1_200
"""Characters up to which neighbours that define nothing (imports, constants) are one block."""
MAX_LINE = 500
"""Characters of a line that are looked at."""
_DEFINES = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|sealed|open|data|async|unsafe|extern"
    r'(?:\s*"\w+")?|inline|virtual|const(?:expr)?|template\s*<[^>]*>|pub(?:\([^)]*\))?)\s+)*'
    r"(?:def|class|func|fun|fn|function|struct|enum|union|interface|trait|impl|protocol|extension|module|namespace|type"
    r"|object|record|macro_rules!|create\s+(?:or\s+replace\s+)?(?:table|view|function|procedure|type|index))\b"
    r"|[A-Za-z_][\w:<>,*&\s\[\]]*\([^;{}]*\)\s*(?:const\s*)?(?:\{|$)"
    r"|(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>|\w+\s*=>)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"[)\]}>]|(?:else|elif|except|finally|catch|rescue|ensure|end|fi|done|esac|where|then)\b")
_LITERAL = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|//.*|#.*|/\*.*?\*/")


def read_code(text: str, name: str = "", title: str = "") -> Extracted:
    """Blocks of kind CODE whose locators tell the line (from 1); the text is the file's own, through the gate.

    Raises ``NoUsableText`` when it holds no word.
    """
    text = tidy(text)
    language = language_of_code(name, text[:200].encode())
    starts = _python_starts(text) if language == "python" else []
    spans = list(_spans(text, starts or [(start, _defines(text, start)) for start in _starts(text)]))
    blocks = tuple(_blocks(text, spans, language))
    if not blocks:
        raise NoUsableText("The file holds no line of code.")
    about = {"language": language} if language else {}
    return Extracted(
        DocumentKind.CODE_REPO, text, blocks, title=title or name, language=language_of(text), metadata=about
    )


def _blocks(text: str, spans: list[tuple[int, int]], language: str) -> Iterator[Block]:
    line, at = 1, 0
    for start, end in spans:
        line, at = line + text.count("\n", at, start), start
        if has_words(text[start:end]):
            yield Block(BlockKind.CODE, text[start:end], Locator(start, end, line=line), language=language)


def _spans(text: str, starts: list[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """From each start (and whether something is defined there) to the next; small neighbours without a definition
    together. Without the white space around."""
    begin, defined = 0, False
    for start, defines in [*starts, (len(text), True)]:
        if start > begin and (defines or defined or start - begin > JOINED):
            yield from _stripped(text, begin, start)
            begin, defined = start, defines
        elif start == begin:
            defined = defines


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Whole lines, so that the first one keeps its indentation."""
    while start < end and text[start:end].partition("\n")[0].strip() == "":
        start = text.find("\n", start, end) + 1 or end
    end = start + len(text[start:end].rstrip())
    if start < end:
        yield start, end


def _python_starts(text: str) -> list[tuple[int, bool]]:
    """Where the statements of a module begin, decorators and the comment above included; [] when it does not
    parse."""
    try:
        with warnings.catch_warnings(action="ignore"):
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    lines = text.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    starts: list[tuple[int, bool]] = []
    for node in body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1
        while first and lines[first - 1].startswith("#"):
            first -= 1
        defines = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if not starts or offsets[first] > starts[-1][0]:
            starts.append((offsets[first], defines))
    return starts


def _starts(text: str) -> Iterator[int]:
    """Where something may begin at the top level: at a line without indentation after a blank one, unless a
    bracket is open or the line goes on with what stands before."""
    depth, blank, at = 0, True, 0
    for line in text.split("\n"):
        top = line[:1] not in ("", " ", "\t")
        if top and blank and (depth <= 0 or _DEFINES.match(line[:MAX_LINE])) and not _GOES_ON.match(line):
            depth = 0  # a bracket in a text or a comment was counted
            yield at
        bare = _LITERAL.sub("", line) if len(line) <= MAX_LINE else ""
        depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
        blank = not line.strip()
        at += len(line) + 1


def _defines(text: str, start: int) -> bool:
    """Whether the paragraph that begins here defines something: comments, attributes and decorators first."""
    end = text.find("\n\n", start)
    lines = text[start : end if end >= 0 else len(text)].split("\n", 30)
    return any(_DEFINES.match(line[:MAX_LINE]) for line in lines[:30])
