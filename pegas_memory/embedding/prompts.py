"""What a model wants before a text, and how much text it takes, by the family its name begins with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pegas_memory.model import Role

_TASK = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, slots=True)
class Family:
    """``max_characters`` keeps ordinary Russian and English text inside the model's window."""

    pattern: re.Pattern[str]
    query: str
    document: str
    max_characters: int

    def prompted(self, text: str, role: Role) -> str:
        return (self.query if role is Role.QUERY else self.document) + text


def _family(pattern: str, query: str, document: str, max_characters: int) -> Family:
    return Family(re.compile(pattern), query, document, max_characters)


# First match wins. Windows: 512 tokens → 1,600 characters (measured with e5's tokenizer: 1,600
# characters of Russian are 352 tokens, of English 382, of code 734); 2,048 tokens → 4,000.
# Ollama gives BGE-M3 2,048 tokens whatever it declares (ollama issue 14259). nomic's vocabulary is
# English: Cyrillic costs it a token a letter.
FAMILIES: tuple[Family, ...] = (
    # https://ai.google.dev/gemma/docs/embeddinggemma/model_card, "Prompt instructions"
    _family(r"embeddinggemma", "task: search result | query: ", "title: none | text: ", 4000),
    # https://huggingface.co/intfloat/multilingual-e5-large-instruct
    _family(r"(intfloat[-_])?(multilingual-)?e5-.*instruct", f"Instruct: {_TASK}\nQuery: ", "", 1600),
    # https://huggingface.co/intfloat/multilingual-e5-small
    _family(r"(intfloat[-_])?(multilingual-)?e5-", "query: ", "passage: ", 1600),
    # https://huggingface.co/BAAI/bge-m3: no instruction
    _family(r"bge-m3", "", "", 4000),
    # https://huggingface.co/BAAI/bge-large-en-v1.5 (Ollama's bge-large is this one)
    _family(r"bge-(small|base|large)(?!-zh)", "Represent this sentence for searching relevant passages: ", "", 1600),
    # https://huggingface.co/nomic-ai/nomic-embed-text-v1.5
    _family(r"nomic-embed-text", "search_query: ", "search_document: ", 2000),
    # https://huggingface.co/Qwen/Qwen3-Embedding-0.6B (no space after "Query:")
    _family(r"qwen3-embedding", f"Instruct: {_TASK}\nQuery:", "", 4000),
)
UNKNOWN = _family("", "", "", 1600)
PART_LENGTHS = tuple(sorted({family.max_characters for family in (*FAMILIES, UNKNOWN)}))
"""Every length at which some model's texts are cut into parts."""


def family_of(model: str) -> Family:
    """The family of a model's name as a server spells it: any case, with or without ``org/`` or
    ``hf.co/org/`` before it, a ``:tag`` after it, or the ``text-embedding-`` that LM Studio adds."""
    name = model.casefold().rsplit("/", 1)[-1].removeprefix("text-embedding-")
    return next((family for family in FAMILIES if family.pattern.match(name)), UNKNOWN)
