"""``python -m tests.faults.client CONFIG``: one client process, which works until it is stopped or killed.

Every text it stores holds a token that nothing else holds, so that each can be looked for afterwards. It changes
only what it made itself and what it was told about: of anything else the outcome is open, and it lets it be.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pegas_memory.config import load_settings
from pegas_memory.model import ShownAs, Verdict
from tests.faults.doors import CallFailed, Door, LibraryDoor, ServerDied, opened
from tests.faults.ledger import DONE, DOUBT, REFUSED, Ledger

HUBS, COMMON = 5, 12
"""Entities that all clients link to; claims that all of them store."""
NOUNS = "valve pump turbine ledger bridge harbour lantern orchard furnace compass archive meadow".split()
VERBS = "holds measures feeds guards carries records crosses heats".split()
UNITS = "bar litres volts metres pages miles grams degrees".split()
LONG = 90
"""Sentences of a long content, which becomes several points."""


@dataclass(slots=True)
class Mine:
    """An atom of this client that it may still change; ``text`` is its claim, where that is all of it."""

    token: str
    text: str
    atom_id: str
    state: str
    before: str = ""


@dataclass(slots=True)
class Document:
    token: str
    path: Path
    distill: str
    doc_id: str
    version: int


class Workload:
    def __init__(self, door: Door, ledger: Ledger, rng: random.Random, name: str, given: dict[str, Any]) -> None:
        self._door, self._ledger, self._rng, self._name = door, ledger, rng, name
        self._docs, self._tenant, self._stop = Path(given["docs"]), given["tenant"], Path(given["stop"])
        self._count = 0
        self._mine: list[Mine] = []
        self._documents: list[Document] = []

    def step(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (40, self._store), (10, self._common), (10, self._replace), (16, self._verdict), (8, self._purge),
            (5, self._ingest), (4, self._ingest_again), (2, self._purge_document), (5, self._search),
            (1, self._tenant_that_goes),
        ]  # fmt: skip
        weights, works = zip(*acts, strict=True)
        self._rng.choices(works, weights)[0]()

    def _tell(self, do: str, what: dict[str, Any], tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Call, between two lines of the ledger. None when it was not acknowledged."""
        call = self._ledger.begin(do, tenant=self._tenant, **what)
        try:
            answer = self._door.call(tool, **arguments)
        except CallFailed as error:
            self._ledger.end(call, REFUSED if error.refused else DOUBT, error=str(error))
            return None
        self._ledger.end(call, DONE, **answer)
        return answer

    def _token(self) -> str:
        self._count += 1
        return f"zq{self._name}n{self._count}"

    def _claim(self, token: str) -> str:
        pick, number = self._rng.choice, self._rng.randrange(10, 10_000)
        return f"The {pick(NOUNS)} {token} {pick(VERBS)} {number} {pick(UNITS)} by the {pick(NOUNS)}."

    def _content(self, token: str) -> str:
        if self._rng.random() > 0.06:
            return ""
        numbers = range(LONG)
        return " ".join(f"Reading {n} of {token} was {self._rng.randrange(10**6)} {UNITS[n % 8]}." for n in numbers)

    # --- single claims ----------------------------------------------------------------------------

    def _store(self) -> None:
        token = self._token()
        links = [{"dst": f"Hub {self._rng.randrange(HUBS)}", "kind": "part_of"}] if self._rng.random() < 0.5 else []
        if self._mine and self._rng.random() < 0.4:
            links.append({"dst": self._rng.choice(self._mine).atom_id, "kind": "depends_on"})
        source = {"uri": f"https://example.org/{token}", "quote": token} if self._rng.random() < 0.3 else None
        self._put("store", token, links=links, tags=[self._name], source=source)

    def _put(self, do: str, token: str, replaces: Mine | None = None, **more: Any) -> None:
        claim, content = self._claim(token), self._content(token)
        what = {"token": token, "claim": claim, "content": content, "links": more.get("links", [])}
        if replaces is not None:
            what["old"] = replaces.token
            more["replaces"] = replaces.atom_id
        given = {name: value for name, value in more.items() if value}
        answer = self._tell(do, what, "memory_store", claim=claim, content=content, **given)
        if answer is None and self._rng.random() < 0.5:  # as an agent does that was not answered
            answer = self._tell(do, what, "memory_store", claim=claim, content=content, **given)
        if answer is not None:
            self._mine.append(Mine(token, "" if content else claim, answer["atom_id"], ShownAs.CANDIDATE))

    def _common(self) -> None:
        n = self._rng.randrange(COMMON)
        what = {"number": n, "tag": self._name}
        claim = f"Series {n} of the common table has the value {n * 37 + 11}."
        self._tell("common", what, "memory_store", claim=claim, tags=[self._name])

    def _some(self, *states: ShownAs) -> Mine | None:
        fitting = [one for one in self._mine if not states or one.state in states]
        return self._rng.choice(fitting) if fitting else None

    def _replace(self) -> None:
        old = self._some(ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED)
        if old is None:
            return
        self._mine.remove(old)
        self._put("replace", self._token(), replaces=old)

    def _verdict(self) -> None:
        one = self._some()
        if one is None:
            return
        if one.state == ShownAs.RETRACTED:
            verdict, then = Verdict.RESTORE, one.before
        else:
            verdict = self._rng.choice([Verdict.VERIFIED, Verdict.CONTESTED, Verdict.STALE, Verdict.RETRACT])
            then = ShownAs.RETRACTED if verdict is Verdict.RETRACT else verdict.value
        what = {"token": one.token, "then": then}
        answer = self._tell(
            "verdict", what, "memory_verify", atom_ids=[one.atom_id], verdict=verdict.value, reason="so"
        )
        if answer is None:
            self._mine.remove(one)
        else:
            one.before, one.state = one.state, then

    def _purge(self) -> None:
        one = self._some()
        if one is None:
            return
        self._mine.remove(one)
        what = {"token": one.token, "atom_id": one.atom_id}
        self._tell("purge", what, "memory_verify", atom_ids=[one.atom_id], verdict="purge", reason="it has to go")

    def _search(self) -> None:
        """Each arm by itself has to find it before anything else."""
        one = self._some(ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED)
        if one is not None:
            mode = self._rng.choice(["lexical", "dense"]) if one.text else "lexical"
            what = {"token": one.token, "atom_id": one.atom_id, "mode": mode}
            query = one.token if mode == "lexical" else one.text
            self._tell("search", what, "memory_search", query=query, mode=mode, limit=5)

    # --- documents --------------------------------------------------------------------------------

    def _ingest(self) -> None:
        token = self._token()
        path = self._docs / f"{token}.txt"
        document = Document(token, path, self._rng.choice(["off", "extractive"]), "", 1)
        if self._read(document):
            self._documents.append(document)

    def _ingest_again(self) -> None:
        if self._documents:
            document = self._rng.choice(self._documents)
            document.version += 1
            if not self._read(document):
                self._documents.remove(document)

    def _read(self, document: Document) -> bool:
        """Write a version of the file and have it ingested; True once that has ended well."""
        draft = document.path.with_suffix(".new")
        draft.write_text(self._text_of(document), encoding="utf-8")
        draft.replace(document.path)
        what = {"token": document.token, "path": str(document.path), "distill": document.distill}
        asked = {"source": str(document.path), "distill": document.distill, "wait": False}
        answer = self._tell("ingest", what, "memory_ingest", **asked)
        return answer is not None and self._ended(document, answer["job_id"])

    def _text_of(self, document: Document) -> str:
        """Each version keeps most paragraphs of the one before, drops some and adds others."""
        stable = random.Random(document.token)
        size = stable.randrange(20, 160)
        numbers = [n for n in range(size + 10 * document.version) if n % 11 != document.version]
        return "\n\n".join(
            f"Passage {n} of {document.token}: station {n * 3 + 1} reported {n * 7 + 5} {UNITS[n % len(UNITS)]} to the"
            f" {NOUNS[n % len(NOUNS)]}."
            for n in numbers
        )

    def _ended(self, document: Document, job_id: str) -> bool:
        while not self._stop.exists():
            time.sleep(0.1)
            try:
                answer = self._door.call("memory_ingest", job_id=job_id)
            except CallFailed:
                continue
            if answer["state"] in {"done", "failed", "cancelled"}:
                document.doc_id = answer["doc_id"] or ""
                return answer["state"] == "done"
        return False

    def _purge_document(self) -> None:
        if self._documents:
            document = self._documents.pop(self._rng.randrange(len(self._documents)))
            what = {"token": document.token, "doc_id": document.doc_id}
            self._tell("purge_document", what, "memory_verify", doc_id=document.doc_id, verdict="purge", reason="gone")

    def _tenant_that_goes(self) -> None:
        if not isinstance(self._door, LibraryDoor):
            return
        token = self._token()
        call = self._ledger.begin("delete_tenant", tenant=self._tenant, token=token)
        try:
            self._door.made_and_deleted(token, [self._claim(f"{token}x{n}") for n in range(5)])
        except CallFailed as error:
            self._ledger.end(call, DOUBT, error=str(error))
        else:
            self._ledger.end(call, DONE)


def main() -> int:
    given = json.loads(Path(sys.argv[1]).read_text())
    settings = load_settings()
    ledger = Ledger(Path(given["ledger"]))
    name = f"{given['name']}p{given['life']}"
    rng = random.Random(f"{given['seed']} {name}")
    try:
        with opened(given["kind"], settings) as door:
            workload = Workload(door, ledger, rng, name, given)
            while not Path(given["stop"]).exists():
                workload.step()
                time.sleep(rng.random() * float(given["pause"]))
    except ServerDied as error:
        ledger.died(str(error))
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # no thread that waits for an answer holds it up
