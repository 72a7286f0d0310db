"""Document to typed claims without a language model.

What becomes of each block: a paragraph gives its sentences that stand alone, a sentence that starts
with a pronoun or connective joined to the one before (``prose``); a list gives one claim together with
its lead-in, or its items that are whole sentences or definitions; a table, a code block, a rule gives
one atom each. Headings, questions, navigation, references to other places, fragments and garbled blocks give
nothing. Exact repeats in one document are given once. A document with text but without a single claim falls
back to one ``text`` atom per chunk, and so does each chunk in another language than Russian and English, so that
nothing that was read is unfindable.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from pegas_memory.distill import structured
from pegas_memory.distill.claims import Stand, is_boilerplate, is_imperative, stand
from pegas_memory.distill.definitions import defined_term, listed_term
from pegas_memory.distill.foreign import is_foreign
from pegas_memory.distill.lexicon import ENUMERATES
from pegas_memory.distill.prose import Passage, Sentence, Wording, passage_claim, passages
from pegas_memory.distill.weights import confidence_of, importance_of
from pegas_memory.errors import GarbledText
from pegas_memory.model import AtomType, Block, BlockKind, Chunk, DocumentKind, DraftAtom, Extracted, Locator
from pegas_memory.progress import tell
from pegas_memory.text import collapse, sentences

MAX_LIST = 900
"""Characters of a list that is kept whole with its lead-in; a longer one gives its items."""
MAX_QUOTE = 2_000
MAX_CHUNK_QUOTE = 500

_GLOSSARY = re.compile(r"glossar|terminolog|definitions?$|terms\b|глоссари|термин|определени|словар", re.IGNORECASE)
_DECORATED = re.compile(r"\s*(?:[-*+]\s+)?(?:\*\*|__|`)\S")
_ITEM_END = re.compile(r"[\s;,.]+$")


def distill_extractive(document: Extracted, chunks: Sequence[Chunk]) -> list[DraftAtom]:
    """Atoms of the blocks that begin within ``chunks``, in reading order; see the module's text for the rules.

    Every quote is ``document.text[locator.start:locator.end]``. Raises ``GarbledText`` (every block is garbled),
    nothing else on odd input.
    """
    _refuse_garbled(document)
    spans = sorted((chunk.locator.start, chunk.locator.end) for chunk in chunks)
    drafts = [draft for draft in _Distiller(document).drafts() if _within(draft.locator.start, spans)]
    seen: dict[tuple[AtomType, str, str], DraftAtom] = {}
    for draft in drafts:
        seen.setdefault((draft.type, draft.claim, draft.content), draft)
    unsaid = _unsaid(chunks, list(seen.values())) if seen else chunks
    if not unsaid:
        return list(seen.values())
    return sorted([*seen.values(), *chunk_atoms(document, unsaid)], key=lambda draft: draft.locator.start)


def _unsaid(chunks: Sequence[Chunk], drafts: Sequence[DraftAtom]) -> list[Chunk]:
    """Chunks that gave no claim and are of a language that the rules do not know."""
    starts = sorted(draft.locator.start for draft in drafts)

    def gave(chunk: Chunk) -> bool:
        at = bisect_left(starts, chunk.locator.start)
        return at < len(starts) and starts[at] < chunk.locator.end

    return [chunk for chunk in chunks if not gave(chunk) and is_foreign(chunk.text)]


def chunk_atoms(document: Extracted, chunks: Sequence[Chunk]) -> list[DraftAtom]:
    """One ``text`` atom per chunk: the claim is its first sentence, the content the whole chunk, the
    quote the place of that sentence (at most 500 characters); garbled blocks are left out of it.
    Raises ``GarbledText``."""
    _refuse_garbled(document)
    wording = Wording(document)
    return [draft for chunk in chunks if (draft := _chunk_atom(document, chunk, wording)) is not None]


def _refuse_garbled(document: Extracted) -> None:
    if document.blocks and all(block.garbled for block in document.blocks):
        raise GarbledText("The text is noise: its fonts do not say which letters they show.")


def _chunk_atom(document: Extracted, chunk: Chunk, wording: Wording) -> DraftAtom | None:
    clear = [b for b in chunk.blocks if not b.garbled]
    if chunk.blocks and not clear:
        return None
    content = chunk.text if len(clear) == len(chunk.blocks) else "\n\n".join(b.text for b in clear)
    bodies = [b for b in clear if b.kind is not BlockKind.HEADING and b.text.strip()]
    where, text = (bodies[0].locator, bodies[0].text) if bodies else (chunk.locator, chunk.text)
    start = where.start
    if start == chunk.locator.start:  # what the chunk before holds as well was claimed there
        start, text = start + chunk.overlap, text[chunk.overlap :]
    spans = sentences(text)
    if not spans:
        return None
    left, right = start + spans[0][0], start + spans[0][1]
    if right - left > MAX_CHUNK_QUOTE:
        cut = document.text.rfind(" ", left + 1, left + MAX_CHUNK_QUOTE)
        right = cut if cut > left else left + MAX_CHUNK_QUOTE
    return DraftAtom(
        type=AtomType.TEXT,
        claim=wording.claim(left, right) or collapse(document.text[left:right]),
        quote=document.text[left:right],
        locator=replace(where, start=left, end=right),
        content=content,
        confidence=confidence_of(AtomType.TEXT, "", document.kind, joined=False),
        importance=importance_of(AtomType.TEXT, "", opens_section=chunk.position == 0),
    )


def _within(start: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Of spans in order, none inside another: the last that begins at or before ``start`` decides."""
    at = bisect_right(spans, start, key=lambda span: span[0])
    return at > 0 and start < spans[at - 1][1]


class _Distiller:
    def __init__(self, document: Extracted) -> None:
        self._document = document
        self._wording = Wording(document)

    def drafts(self) -> Iterator[DraftAtom]:
        found = groupby(self._document.blocks, key=lambda b: None if b.garbled else b.kind)
        runs = [(kind, list(run)) for kind, run in found]
        for index, (kind, run) in enumerate(runs):
            self._tell(run[0])
            before = runs[index - 1][1][-1] if index and runs[index - 1][0] else None
            after = runs[index + 1][1][0] if index + 1 < len(runs) and runs[index + 1][0] else None
            opens = before is not None and before.kind is BlockKind.HEADING
            match kind:
                case BlockKind.HEADING | None:
                    continue
                case BlockKind.PARAGRAPH:
                    yield from self._paragraphs(run, after, opens)
                case BlockKind.LIST_ITEM:
                    yield from self._list(run, before)
                case BlockKind.TABLE:
                    for block in run:
                        yield from self._table(block, before, after)
                case BlockKind.CODE:
                    for block in run:
                        yield from self._code(block, before)

    def _tell(self, block: Block) -> None:
        tell("characters", block.locator.start, len(self._document.text))

    # --- prose ---------------------------------------------------------------------------------

    def _paragraphs(self, run: Sequence[Block], after: Block | None, opens: bool) -> Iterator[DraftAtom]:
        """A run of paragraphs; a lead-in that ends it is left to the list or code block that follows."""
        prose: list[Sentence] = []
        for block in run:
            self._tell(block)
            if rules := structured.rules_of(block.text.strip()):
                yield from self._rules(block, rules, None)
            elif self._is_definition_entry(block):
                yield from self._entry(block)
            elif not is_boilerplate(collapse(block.text)) or len(block.text) > 400:
                prose += self._wording.sentences(block)
        if after is not None and prose and prose[-1].claim.endswith(":"):
            prose.pop()
        for number, passage in enumerate(passages(prose)):
            self._tell(passage.sentences[0].block)
            yield self._from_passage(passage, opens_section=opens and number == 0)

    def _from_passage(self, passage: Passage, *, opens_section: bool = False) -> DraftAtom:
        claim = passage_claim(passage)
        first = passage.sentences[0].claim
        term = defined_term(first)
        kind = AtomType.DEFINITION if term else AtomType.TEXT if is_imperative(first) else AtomType.FACT
        return self._draft(
            kind, claim, passage.start, passage.end, passage.sentences[0].block,
            metadata={"term": term} if term else {}, joined=passage.joined, opens_section=opens_section,
        )  # fmt: skip

    def _is_definition_entry(self, block: Block) -> bool:
        in_glossary = any(_GLOSSARY.search(heading) for heading in block.locator.headings[-1:])
        return (in_glossary or bool(_DECORATED.match(block.text))) and bool(self._entry_term(block))

    def _entry_term(self, block: Block) -> str:
        found = self._wording.sentences(block)
        return listed_term(collapse(" ".join(s.claim for s in found))) if found else ""

    def _entry(self, block: Block) -> Iterator[DraftAtom]:
        """A definition-list entry; with a whole sentence behind its label it is a fact under that label."""
        found = self._wording.sentences(block)
        claim = collapse(" ".join(s.claim for s in found))
        body = claim.split(":", 1)[-1].strip()
        term = listed_term(claim)
        labelled = body[:1].isupper() and stand(body) is Stand.ALONE and not re.match(r"(?:A|An|The)\s", body)
        kind = AtomType.FACT if labelled else AtomType.DEFINITION
        metadata = {} if labelled else {"term": term}
        yield self._draft(kind, claim, found[0].start, found[-1].end, block, metadata=metadata)

    # --- lists ---------------------------------------------------------------------------------

    def _list(self, run: Sequence[Block], before: Block | None) -> Iterator[DraftAtom]:
        lead = self._lead_in(before)
        own = [list(self._item(block)) for block in run]
        whole = None if lead is None or all(own) else self._whole_list(lead, run)
        if whole is not None:
            yield whole
        for drafts in own:
            yield from (d for d in drafts if whole is None or d.type is AtomType.DEFINITION)

    def _item(self, block: Block) -> Iterator[DraftAtom]:
        if self._entry_term(block):
            yield from self._entry(block)
            return
        for passage in passages(self._wording.sentences(block)):
            yield self._from_passage(passage)

    def _lead_in(self, before: Block | None) -> Passage | None:
        """The sentence ending in ``:`` before a list, with what it leans on; None when it can't be read alone."""
        if before is None or before.kind is not BlockKind.PARAGRAPH:
            return None
        found = self._wording.sentences(before)
        if not found or not found[-1].claim.endswith(":") or ENUMERATES.match(found[-1].claim):
            return None
        last = found[-1]
        groups = list(passages(found, lambda claim: stand(claim, ends_with_colon=claim is last.claim)))
        return groups[-1] if groups and groups[-1].sentences[-1] is last else None

    def _whole_list(self, lead: Passage, run: Sequence[Block]) -> DraftAtom | None:
        end = run[-1].locator.start + len(run[-1].text.rstrip())
        items = [" ".join(s.claim for s in self._wording.sentences(block)) for block in run]
        items = [_ITEM_END.sub("", collapse(item)) for item in items if item.strip()]
        if not items or end - lead.start > MAX_LIST or any(is_boilerplate(item) for item in items):
            return None
        first = lead.sentences[0].claim
        kind = AtomType.TEXT if is_imperative(first) else AtomType.FACT
        claim = f"{passage_claim(lead)} {'; '.join(items)}."
        return self._draft(kind, claim, lead.start, end, lead.sentences[0].block, joined=True)

    # --- tables, code, rules ---------------------------------------------------------------------

    def _table(self, block: Block, before: Block | None, after: Block | None) -> Iterator[DraftAtom]:
        header = structured.columns(block.text)
        caption = self._caption(before, after)
        subject = (caption or collapse(" › ".join(block.locator.headings[-2:])) or collapse(self._document.title))[:400]
        claim = structured.table_claim(subject, header, block.text)
        if not claim:
            return
        for left, right in structured.parts(block.text):
            content = structured.as_markdown(block.text[left:right])
            start, end = block.locator.start + left, block.locator.start + min(right, left + MAX_QUOTE)
            yield self._draft(AtomType.TABLE, claim, start, end, block, content=content, metadata={"columns": header})

    def _caption(self, before: Block | None, after: Block | None) -> str:
        """The paragraph next to a table that names it: "Table 2. …" on either side, or a lead-in before it."""
        for block in (before, after):
            if block is not None and block.kind is BlockKind.PARAGRAPH and structured.is_caption(block.text):
                return self._wording.claim(block.locator.start, block.locator.end)
        lead = self._lead_in(before)
        return passage_claim(lead) if lead else ""

    def _code(self, block: Block, before: Block | None) -> Iterator[DraftAtom]:
        code, fenced_as = structured.unfenced(block.text)
        if not code.strip():
            return
        lead = self._last_sentence(before)
        if rules := structured.rules_of(code):
            yield from self._rules(block, rules, lead)
            return
        language = (block.language or fenced_as).strip().lower()
        for left, right in structured.parts(code):
            claim = self._code_claim(block, code[left:right], lead)
            start = block.locator.start + block.text.index(code[:1]) if left == 0 else block.locator.start
            quote_start = lead.start if lead is not None and left == 0 else start
            end = min(block.locator.end, quote_start + MAX_QUOTE)
            if claim:
                metadata = {"language": language} if language else {}
                yield self._draft(
                    AtomType.CODE, claim, quote_start, end, block, content=code[left:right], metadata=metadata
                )

    def _last_sentence(self, before: Block | None) -> Sentence | None:
        """What introduces a code block: the last sentence of the paragraph directly before it."""
        if before is None or before.kind is not BlockKind.PARAGRAPH:
            return None
        found = self._wording.sentences(before)
        last = found[-1] if found else None
        return last if last and len(last.claim) <= 400 and not is_boilerplate(last.claim) else None

    def _code_claim(self, block: Block, code: str, lead: Sentence | None) -> str:
        if self._document.kind is DocumentKind.CODE_REPO:
            return structured.source_claim(collapse(self._document.title), code)
        line = structured.telling_line(code)
        heading = collapse(" › ".join(block.locator.headings[-2:])) or collapse(self._document.title)
        if lead is not None and stand(lead.claim, ends_with_colon=lead.claim.endswith(":")) is Stand.ALONE:
            said = lead.claim.rstrip(" :")
        else:
            said = ": ".join(
                part for part in (heading, lead.claim.rstrip(" :") if lead and lead.claim[0].isupper() else "") if part
            )
        return collapse(f"{said}: {line}" if said and line else said or line)

    def _rules(self, block: Block, rules: Sequence[str], lead: Sentence | None) -> Iterator[DraftAtom]:
        for rule in rules:
            claim = lead.claim.rstrip(" :") if lead is not None and len(rules) == 1 else rule
            start, end = block.locator.start, min(block.locator.end, block.locator.start + MAX_QUOTE)
            yield self._draft(AtomType.LOGICAL_RULE, claim, start, end, block, content=rule)

    # --- common -----------------------------------------------------------------------------------

    def _draft(
        self, kind: AtomType, claim: str, start: int, end: int, block: Block, *, content: str = "",
        metadata: dict[str, Any] | None = None, joined: bool = False, opens_section: bool = False,
    ) -> DraftAtom:  # fmt: skip
        where = block.locator
        return DraftAtom(
            type=kind,
            claim=claim,
            quote=self._document.text[start:end],
            locator=Locator(start, end, where.page, where.chapter, where.headings, where.line),
            content=content,
            confidence=confidence_of(kind, claim, self._document.kind, joined=joined),
            importance=importance_of(kind, claim, opens_section=opens_section),
            metadata=metadata or {},
        )
