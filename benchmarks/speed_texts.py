"""Distinct claims and questions in English and Russian for the speed benchmarks, the same on every run."""

from __future__ import annotations

from collections.abc import Iterator

_SUBJECTS = (
    ("pump", "насос"), ("turbine", "турбина"), ("reactor", "реактор"), ("library", "библиотека"),
    ("museum", "музей"), ("bridge", "мост"), ("station", "станция"), ("satellite", "спутник"),
    ("glacier", "ледник"), ("orchard", "сад"), ("telescope", "телескоп"), ("harbour", "гавань"),
    ("compiler", "компилятор"), ("battery", "батарея"), ("vaccine", "вакцина"), ("railway", "железная дорога"),
    ("observatory", "обсерватория"), ("reservoir", "водохранилище"), ("archive", "архив"), ("ferry", "паром"),
)  # fmt: skip
_PLACES = (
    ("Vologda", "Вологде"), ("Bergen", "Бергене"), ("Kyoto", "Киото"), ("Porto", "Порту"), ("Tomsk", "Томске"),
    ("Leiden", "Лейдене"), ("Cusco", "Куско"), ("Perm", "Перми"), ("Tartu", "Тарту"), ("Oaxaca", "Оахаке"),
    ("Galway", "Голуэе"), ("Pskov", "Пскове"), ("Uppsala", "Уппсале"), ("Hobart", "Хобарте"), ("Kazan", "Казани"),
    ("Lviv", "Львове"), ("Nara", "Наре"), ("Bologna", "Болонье"), ("Quito", "Кито"), ("Sochi", "Сочи"),
)  # fmt: skip
_DEEDS = (
    ("was opened again after a long repair", "снова открылась после долгого ремонта", "opened again", "открыли снова"),
    ("loses heat through its northern wall", "теряет тепло через северную стену", "losing heat", "теряет тепло"),
    ("is checked twice a year by two engineers", "проверяется дважды в год двумя инженерами", "checked", "проверяют"),
    ("stores its records on paper and on tape", "хранит записи на бумаге и на ленте", "storing records",
     "хранит записи"),
    ("needs a spare part that is no longer made", "нуждается в детали, которую больше не делают", "in need of a part",
     "нужна деталь"),
    ("was paid for by the citizens themselves", "построена на деньги самих горожан", "paid for", "построили"),
    ("stands still when the wind is too strong", "останавливается при слишком сильном ветре", "standing still",
     "останавливается"),
    ("uses half of the energy that was planned", "расходует половину запланированной энергии", "using energy",
     "расходует энергию"),
    ("was described in a letter of the founder", "описана в письме основателя", "described", "описали"),
    ("is closed to visitors during the winter", "закрыта для посетителей зимой", "closed", "закрыта"),
)  # fmt: skip


def _parts(number: int) -> tuple[tuple[str, str], tuple[str, str], tuple[str, str, str, str]]:
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    place = _PLACES[number // len(_SUBJECTS) % len(_PLACES)]
    deed = _DEEDS[number // 7 % len(_DEEDS)]
    return subject, place, deed


def claims(count: int, start: int = 0) -> Iterator[str]:
    """``count`` claims, English and Russian by turns; numbers ``start`` … make each one distinct."""
    for number in range(start, start + count):
        subject, place, deed = _parts(number)
        if number % 2:
            yield f"{subject[1].capitalize()} № {number} в {place[1]} {deed[1]}, код {number * 7919 % 99991}."
        else:
            yield f"The {subject[0]} number {number} in {place[0]} {deed[0]}, code {number * 7919 % 99991}."


def questions(count: int, start: int = 0) -> Iterator[str]:
    """``count`` distinct questions about such claims, English and Russian by turns."""
    for number in range(start, start + count):
        subject, place, deed = _parts(number * 13)
        if number % 2:
            yield f"Почему {subject[1]} № {number * 3 + 1} в {place[1]} {deed[3]}?"
        else:
            yield f"Why is the {subject[0]} number {number * 3} in {place[0]} {deed[2]}?"
