"""Documents to typed claims: each stands alone, is typed right, and quotes its source letter for letter."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from pegas_memory.distill import chunk_atoms, distill_extractive
from pegas_memory.ingest import chunk, read_bytes, read_text
from pegas_memory.model import AtomType, DocumentKind, DraftAtom, Extracted

MARKDOWN, HTML, TEXT = DocumentKind.MARKDOWN, DocumentKind.HTML, DocumentKind.TEXT


def read(text: str, kind: DocumentKind) -> Extracted:
    return read_bytes(text.encode(), kind) if kind is HTML else read_text(text, kind)


def distill(text: str, kind: DocumentKind = TEXT) -> list[DraftAtom]:
    document = read(text, kind)
    atoms = distill_extractive(document, chunk(document))
    assert_true_to_source(document, atoms)
    return atoms


def assert_true_to_source(document: Extracted, atoms: Sequence[DraftAtom]) -> None:
    for atom in atoms:
        assert document.text[atom.locator.start : atom.locator.end] == atom.quote
        assert atom.quote.strip()
        assert atom.claim == " ".join(atom.claim.split())
        assert atom.claim
        assert 0 <= atom.confidence <= 1
        assert 0 <= atom.importance <= 1


def claims(text: str, kind: DocumentKind = TEXT) -> list[str]:
    return [atom.claim for atom in distill(text, kind)]


def test_hard_wrapped_sentences_become_one_line_and_their_quotes_keep_the_wraps() -> None:
    atoms = distill(
        "    The Debian Project was created by Ian Murdock in 1993, initially\n"
        "    under the sponsorship of the GNU project. A Unix-\n    compatible system needs a kernel.\n"
    )
    assert [a.claim for a in atoms] == [
        "The Debian Project was created by Ian Murdock in 1993, initially under the sponsorship of the GNU project.",
        "A Unix-compatible system needs a kernel.",
    ]
    assert "initially\n" in atoms[0].quote
    assert {a.type for a in atoms} == {AtomType.FACT}


def test_a_hyphenated_word_is_glued_only_where_the_document_knows_it_whole() -> None:
    text = (
        "The committee published new infor-\nmation about the harbour. All information was checked twice.\n\n"
        "The build uses a cross-\ncompiler from the archive."
    )
    assert claims(text)[0] == "The committee published new information about the harbour."
    assert claims(text)[-1] == "The build uses a cross-compiler from the archive."


def test_decoration_leaves_the_claim_and_stays_in_the_quote() -> None:
    (atom,) = distill(
        "The **worker** reads [the outbox](https://example.org/outbox) with `SELECT` in *one* go.", MARKDOWN
    )
    assert atom.claim == "The worker reads the outbox with SELECT in one go."
    assert "[the outbox](https://example.org/outbox)" in atom.quote


@pytest.mark.parametrize(
    "text",
    [
        "Home | Next | Up",
        "Пред. | Наверх | След.",
        "We use cookies to give you the best experience on this website.",
        "Copyright 2019 Software Foundation and its many contributors worldwide.",
        "© 2024 Example Ltd. All rights reserved and protected by law.",
        "1. Introduction ............................ 5\n2. Getting started ......................... 9",
        "For more information about this topic, see the Linux home page.",
        "Подробности об этом см. в разделе 14.3.",
        "Why should I choose Debian over some other distribution?",
        "Как установить систему с компакт-диска?",
        "and then the second half of a sentence that was cut.",
        "The first half of a sentence that was cut before the",
        "A list of packages.",
        "It was designed for old machines. ",
        "Однако он так и не был построен.",
        "При этом скорость выросла вдвое.",
        "В 1995 году он переехал в Самару.",
        "In 1995 he moved to Rotterdam for work.",
        "Родился в Казани в семье учителя.",
        "It depends. They grew. These differ from those in the table above.",
        "The mean was 1.2 (range 0.4",
    ],
)
def test_what_is_no_claim_gives_none(text: str) -> None:
    """Beside a good claim; alone, a document falls back to its chunks."""
    anchor = "The audit log is kept for thirty days."
    assert claims(f"Is this a preface?\n\n{text}\n\nWhat comes next?\n\n{anchor}") == [anchor]


@pytest.mark.parametrize("kind", [MARKDOWN, HTML])
def test_headings_are_no_claims(kind: DocumentKind) -> None:
    body = {
        MARKDOWN: "# The worker reads the outbox.\n\nThe audit log is kept for thirty days.\n",
        HTML: "<body><h1>The worker reads the outbox.</h1><p>The audit log is kept for thirty days.</p></body>",
    }[kind]
    (atom,) = distill(body, kind)
    assert atom.claim == "The audit log is kept for thirty days."
    assert atom.locator.headings == ("The worker reads the outbox.",)


def test_a_sentence_that_leans_is_joined_with_the_one_before() -> None:
    (first, second) = distill(
        "Маяк построили в 1860 году на скале. Однако он простоял всего десять лет. Порт закрыли в 1912 году."
    )
    assert first.claim == "Маяк построили в 1860 году на скале. Однако он простоял всего десять лет."
    assert first.quote == first.claim
    assert second.claim == "Порт закрыли в 1912 году."


def test_a_sentence_that_leans_on_a_question_or_on_too_much_is_left_out() -> None:
    long = (
        "The harbour authority keeps a register of every ship "
        + "that has ever called at the port " * 20
        + "since 1900."
    )
    found = claims(f"{long} It is open to visitors. Who reads it? It is read by clerks.")
    assert found == [long]


@pytest.mark.parametrize(
    ("sentence", "term"),
    [
        ("A virtual package is a generic name that applies to any one of a group of packages.", "virtual package"),
        ("The Hurd is a set of servers running on top of a microkernel.", "Hurd"),
        ("Free software means that you have the freedom to distribute copies of it.", "Free software"),
        ("Кассовый разрыв — это временная нехватка денег на счёте предприятия.", "Кассовый разрыв"),
        ("Тифлокомментирование — лаконичное описание предмета для слепых зрителей.", "Тифлокомментирование"),
        ("Флаг представляет собой белое полотнище с олимпийской эмблемой.", "Флаг"),
        ("Под энтропией понимают меру беспорядка замкнутой системы.", "энтропией"),
        (
            "Эрнст Рём (German: Ernst Röhm; 28 ноября 1887, Мюнхен) — один из руководителей штурмовых отрядов.",
            "Эрнст Рём",
        ),
    ],
)
def test_definitions_name_their_term(sentence: str, term: str) -> None:
    (atom,) = distill(sentence)
    assert (atom.type, atom.metadata.get("term")) == (AtomType.DEFINITION, term)


@pytest.mark.parametrize(
    "sentence",
    [
        "The result is a significant increase in the number of readers.",
        "There is a small harbour at the mouth of the river.",
        "Длина озера составляет около 96 км, ширина — до 50 км.",
        "Цель проекта — создать свободную операционную систему.",
        "Столица — город Ораньестад.",
        "The port was closed in 1912 after a storm.",
    ],
)
def test_facts_are_not_taken_for_definitions(sentence: str) -> None:
    (atom,) = distill(sentence)
    assert atom.type is AtomType.FACT


def test_a_definition_list_gives_its_entries() -> None:
    atoms = distill(
        "There are several types of people around the project:\n\n"
        "- upstream author: the person who made the original program.\n"
        "- sponsor: a person who helps maintainers to upload packages.\n",
        MARKDOWN,
    )
    assert [(a.type, a.metadata["term"]) for a in atoms] == [
        (AtomType.DEFINITION, "upstream author"),
        (AtomType.DEFINITION, "sponsor"),
    ]


def test_a_list_is_one_claim_with_its_lead_in() -> None:
    (atom,) = distill(
        "A Linux system usually has, besides its kernel:\n\n- a file system;\n- Unix utilities.\n", MARKDOWN
    )
    assert atom.claim == "A Linux system usually has, besides its kernel: a file system; Unix utilities."
    assert atom.quote.startswith("A Linux system")
    assert atom.quote.endswith("Unix utilities.")


def test_a_long_list_gives_the_items_that_are_sentences() -> None:
    items = "".join(
        f"- The module number {n} reads its own part of the archive and writes a report.\n" for n in range(20)
    )
    found = claims(f"The archive is read by these modules:\n\n{items}- short fragment\n", MARKDOWN)
    assert len(found) == 20
    assert all(claim.startswith("The module number") for claim in found)


def test_a_table_says_what_it_shows_and_holds_its_rows() -> None:
    text = "# Ports\n\nTable 2. Ports of the services\n\n| Service | Port |\n|---|---|\n| web | 2085 |\n| db | 5434 |\n"
    (atom,) = [a for a in distill(text, MARKDOWN) if a.type is AtomType.TABLE]
    assert atom.claim == "Table 2. Ports of the services (columns: Service, Port)"
    assert "| db | 5434 |" in atom.content
    assert atom.metadata["columns"] == ["Service", "Port"]


def test_a_table_without_a_caption_is_named_by_its_heading_in_the_language_of_the_source() -> None:
    (atom,) = distill("# Порты служб\n\n| Служба | Порт |\n|---|---|\n| база | 5434 |\n", MARKDOWN)
    assert atom.type is AtomType.TABLE
    assert atom.claim == "Порты служб (столбцы: Служба, Порт)"


def test_code_is_named_by_what_introduces_it() -> None:
    text = "# Upgrade\n\nThe package list is refreshed with this command:\n\n```bash\n# as root\napt-get update\n```\n"
    (atom,) = distill(text, MARKDOWN)
    assert (atom.type, atom.metadata) == (AtomType.CODE, {"language": "bash"})
    assert atom.claim == "The package list is refreshed with this command: apt-get update"
    assert atom.content == "# as root\napt-get update"


def test_code_without_an_introduction_is_named_by_its_heading_and_first_line() -> None:
    (atom,) = distill(
        "# Parsing\n\n```python\nimport re\n\ndef parse(text):\n    return re.split(',', text)\n```\n", MARKDOWN
    )
    assert atom.claim == "Parsing: def parse(text):"


def test_rules_become_logical_rules_in_normal_form() -> None:
    rule = '```json\n{"then": "located_in", "if": ["part_of", "located_in"]}\n```\n'
    (atom,) = distill(f"# Rules\n\n{rule}", MARKDOWN)
    assert atom.type is AtomType.LOGICAL_RULE
    assert json.loads(atom.content) == {"if": ["part_of", "located_in"], "then": "located_in"}
    (single,) = distill('```json\n{"if": "calls", "then": "depends_on"}\n```\n', MARKDOWN)
    assert json.loads(single.content)["if"] == ["calls"]
    (other,) = distill('# Settings\n\n```json\n{"if": "x"}\n```\n', MARKDOWN)
    assert other.type is AtomType.CODE


def test_instructions_are_text_not_facts() -> None:
    (atom,) = distill("Run the upgrade as root after a backup was made.")
    assert atom.type is AtomType.TEXT


def test_repeats_are_given_once() -> None:
    assert len(claims("The port was closed in 1912.\n\nWho knows?\n\nThe port was closed in 1912.")) == 1


def test_long_documents_keep_every_claim() -> None:
    text = "\n\n".join(f"The lighthouse number {n} was built in {1800 + n % 200} on a rock." for n in range(1_500))
    assert len(claims(text)) == 1_500


def test_only_the_chunks_given_are_distilled() -> None:
    document = read_text(
        "\n\n".join(f"The lighthouse number {n} was built on a rock in {1800 + n}." for n in range(60))
    )
    chunks = chunk(document)
    assert len(chunks) > 2
    one_by_one = [atom for c in chunks for atom in distill_extractive(document, [c])]
    assert one_by_one == distill_extractive(document, chunks)


def test_a_document_without_a_claim_stays_findable() -> None:
    atoms = distill("milk\n\neggs\n\nflour, two bags")
    assert atoms
    assert {a.type for a in atoms} == {AtomType.TEXT}
    assert "flour" in "".join(a.content for a in atoms)


def test_chunk_atoms_hold_each_chunk_whole() -> None:
    document = read_text(
        "\n\n".join(f"Абзац номер {n} говорит о маяке и о его смотрителе. Ещё одна фраза." for n in range(80))
    )
    chunks = chunk(document)
    atoms = chunk_atoms(document, chunks)
    assert_true_to_source(document, atoms)
    assert [a.content for a in atoms] == [c.text for c in chunks]
    assert all(a.type is AtomType.TEXT and len(a.quote) <= 500 for a in atoms)
    assert atoms[0].claim == "Абзац номер 0 говорит о маяке и о его смотрителе."


def test_a_chunk_of_one_endless_word_is_quoted_in_part() -> None:
    document = read_text("x" * 3_000)
    atoms = chunk_atoms(document, chunk(document))
    assert_true_to_source(document, atoms)
    assert all(0 < len(a.quote) <= 500 for a in atoms)


@pytest.mark.parametrize(
    "text",
    [
        "**",
        "[](",
        "|||",
        "a\n" * 500,
        "1. " * 8,
        "«" * 400 + "текст",
        "\u0301" * 50 + " a",
        "(" * 2_000 + "слово.",
        "- x\n" * 300,
    ],
)
@pytest.mark.parametrize("kind", [TEXT, MARKDOWN])
def test_odd_text_is_distilled_without_an_error(text: str, kind: DocumentKind) -> None:
    document = read_text(f"{text}\n\nThe audit log is kept for thirty days.", kind)
    atoms = distill_extractive(document, chunk(document))
    assert_true_to_source(document, atoms)
    assert any("audit log" in a.claim + a.content for a in atoms)


HEBREW = "אבישי נכנס לבניין מנהלת המרינה. תיבת הדואר הייתה ריקה.\n\n" * 40
GERMAN = (
    "Wer reitet so spät durch Nacht und Wind? Es ist der Vater mit seinem Kind; er hat den Knaben wohl in dem Arm, er "
    "fasst ihn sicher, er hält ihn warm.\n\n"
) * 20


@pytest.mark.parametrize("text", [HEBREW, GERMAN])
def test_one_sentence_that_is_understood_hides_no_other_language(text: str) -> None:
    document = read_text(f"{text}The population of the town is 460,613 people in 2020.\n\n{text}")
    chunks = chunk(document)
    drafts = distill_extractive(document, chunks)
    assert "460,613" in "".join(draft.claim for draft in drafts if draft.type is AtomType.FACT)
    assert len(drafts) >= len(chunks)
    assert [draft.locator.start for draft in drafts] == sorted(draft.locator.start for draft in drafts)


def test_a_heading_over_columns_is_read_with_the_row_below() -> None:
    table = "| Releases |  |\n|---|---|\n| to air | to water |\n| 100 | 20 |\n"
    [draft] = distill(table, MARKDOWN)
    assert "Releases: to air, to water" in draft.claim
