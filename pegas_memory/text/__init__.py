"""The text gate, and the pure text functions that SQL must not do (locale and extensions differ
between servers): folding, sentence spans, token bounds, language, normal forms, hashes."""

from pegas_memory.text.cuts import token_limit, tokens_bound, whole_before
from pegas_memory.text.gate import (
    CLAIM_LIMIT,
    CONTENT_LIMIT,
    DOCUMENT_LIMIT,
    METADATA_LIMIT,
    NAME_LIMIT,
    TAG_LIMIT,
    URI_LIMIT,
    clean_json,
    clean_name,
    clean_tags,
    clean_text,
    collapse,
    fold,
    language_of,
    quoted,
    sha256,
    tail_of,
)
from pegas_memory.text.sentences import first_sentence, sentences

__all__ = [
    "CLAIM_LIMIT",
    "CONTENT_LIMIT",
    "DOCUMENT_LIMIT",
    "METADATA_LIMIT",
    "NAME_LIMIT",
    "TAG_LIMIT",
    "URI_LIMIT",
    "clean_json",
    "clean_name",
    "clean_tags",
    "clean_text",
    "collapse",
    "first_sentence",
    "fold",
    "language_of",
    "quoted",
    "sentences",
    "sha256",
    "tail_of",
    "token_limit",
    "tokens_bound",
    "whole_before",
]
