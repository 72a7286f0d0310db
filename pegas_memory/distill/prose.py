"""Paragraphs to passages: sentences, each judged, those that lean on the one before joined to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from pegas_memory.distill.claims import Stand, stand
from pegas_memory.distill.markup import bullet_length, claim_of, masked
from pegas_memory.model import Block, Extracted
from pegas_memory.text import collapse, fold, sentences

MAX_JOINED = 700
"""Characters of a passage of joined sentences: about what one embedding of an atom still separates."""
MAX_SENTENCES = 4

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence at ``[start, end)`` of the document, its cleaned wording, and its block."""

    start: int
    end: int
    claim: str
    block: Block


@dataclass(frozen=True, slots=True)
class Passage:
    """One or more contiguous sentences that stand as a whole; the first one stands alone."""

    sentences: tuple[Sentence, ...]

    @property
    def start(self) -> int:
        return self.sentences[0].start

    @property
    def end(self) -> int:
        return self.sentences[-1].end

    @property
    def joined(self) -> bool:
        return len(self.sentences) > 1


class Wording:
    """The cleaned wording of any slice of one document."""

    def __init__(self, document: Extracted) -> None:
        self._document = document

    @cached_property
    def _known_words(self) -> frozenset[str]:
        return frozenset(fold(word) for word in _WORD.findall(self._document.text))

    def known(self, word: str) -> bool:
        return word in self._known_words

    def claim(self, start: int, end: int) -> str:
        return claim_of(self._document.text[start:end], self._document.kind, self.known)

    def sentences(self, block: Block) -> list[Sentence]:
        """The sentences of a paragraph or list item, its marker left out."""
        skipped = bullet_length(block.text)
        text = masked(block.text, self._document.kind)[skipped:]
        base = block.locator.start + skipped
        spans = ((base + start, base + end) for start, end in sentences(text))
        return [Sentence(start, end, self.claim(start, end), block) for start, end in spans]


def passages(found: Iterable[Sentence], judge: Callable[[str], Stand] = stand) -> Iterator[Passage]:
    """Sentences in reading order to passages. A sentence that leans joins the passage before it while
    that keeps within ``MAX_JOINED`` and ``MAX_SENTENCES``, else it is left out, and so is what leans on it."""
    current: list[Sentence] = []
    for sentence in found:
        match judge(sentence.claim):
            case Stand.ALONE:
                yield from _closed(current)
                current = [sentence]
            case Stand.LEANS if current and _fits(current, sentence):
                current.append(sentence)
            case Stand.LEANS | Stand.FALLS:
                yield from _closed(current)
                current = []
    yield from _closed(current)


def _closed(current: list[Sentence]) -> Iterator[Passage]:
    if current:
        yield Passage(tuple(current))


def _fits(current: list[Sentence], sentence: Sentence) -> bool:
    return len(current) < MAX_SENTENCES and sentence.end - current[0].start <= MAX_JOINED


def passage_claim(passage: Passage) -> str:
    return collapse(" ".join(s.claim for s in passage.sentences))
