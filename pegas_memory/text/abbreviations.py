"""Abbreviations of Russian and English by what a full stop after them may mean."""

from __future__ import annotations

GO_ON = frozenset(
    """
    mr mrs ms mx dr prof gen col sgt capt lt cdr rev hon gov sen pres messrs mme mlle st mt ft vs cf e.g i.e al approx
    ca esp incl viz ibid fig figs eqn eqns eqs vol vols pp jan feb aug sept oct nov abbr ave blvd rd dept univ assn
    bros inc ltd corp co llc plc jr sr est u.s u.k u.s.a u.n e.u d.c ph.d m.d b.a m.a b.sc m.sc a.k.a p.s n.b r.i.p
    i.v i.p s.c spp subsp var cv
    т.е т.к т.н т.о т.ч и.о в.т.ч т п пп ст стр см ср им ул пл просп пер наб туп бул ш г гг в вв н.э д.н.э
    с о оз р обл респ рис табл гл напр акад проф доц тов гр гос физ хим о-в о-ва ок изд ред яз англ лат рус нем фр
    итал исп греч укр яп рец сост отв зам зав нач кв корп эт факс доб арх св преп кн каб дж прим
    янв февр фев апр авг сент сен окт нояб ноя дек н д м э ч млн млрд трлн тыс руб коп долл
    """.split()
)
"""Mostly within a sentence: after one of these a capital letter does not start the next one."""

ONLY_BEFORE_NUMBERS = frozenset(
    "no nos art sec ch ed eds app ex ref refs par ser p s col fol eq mar apr jun jul dec nr тел лист пол".split()
)
"""Words and abbreviations in one: an abbreviation when a number follows («No. 5», "Dec. 3")."""

ENDS = frozenset("etc т.д т.п a.m p.m".split())
"""With these a list or a time ends: before a capital letter, so does the sentence."""
ENDS_AFTER_AND = frozenset({"др", "пр"})
"""«и др.», «и пр.» likewise, while «др. Греция» and «пр. Мира» go on."""

UNITS = frozenset(
    """
    г гг тыс млн млрд трлн руб коп долл кг км м мм см дм га л мл т ц чел экз мин сек ч ок стр с кв.м кв.км куб.м
    min sec hr hrs ft lb lbs oz mi yd kg km cm mm
    """.split()
)
"""Before a capital they end the sentence when a number stands before them, while «г. Москва» and
«ул. Ленина» go on."""

ABBREVIATIONS = GO_ON | ENDS | ENDS_AFTER_AND | UNITS | ONLY_BEFORE_NUMBERS

STARTERS = frozenset(
    """
    the this that these those it its he she they we you there here but and however although while when where what who
    why how if in on at for from after before since as so then thus therefore meanwhile also such some many most each
    every both all no not his her their our your my i by with without during under over between among once yet or
    он она оно они мы вы это этот эта эти тот та те там тут здесь теперь потом затем тогда так такой такие также тоже
    но и а однако хотя если когда где как что кто чтобы поэтому после до при в во на над под за из от с со к ко у о об
    по для без между через его её ее их наш наша наши ваш мой моя мои свой каждый все всё весь вся некоторые многие
    большинство один одна ещё уже только даже не нет да кроме среди впрочем наконец
    """.split()
)
"""Words that open sentences and are no names: before one of them an abbreviation that may end a sentence does."""

NEVER_END = frozenset(
    """
    mr mrs ms mx dr prof gen col sgt capt lt cdr rev hon gov sen pres messrs mme mlle vs cf e.g i.e fig figs eqn eqns
    eqs vol vols pp approx ca esp incl viz т.е т.к т.н см ср рис табл напр акад проф доц тов англ лат исп греч дж
    """.split()
)
"""Titles and the like: something always follows them, whatever its first letter."""

LETTERED = frozenset(
    """
    витамин витамина витамины витамином плана план класс класса класса группа группы группе точка точки точке тип типа
    пункт пункта вариант варианта буква буквы буква гепатит гепатита категория категории серия серии блок блока
    vitamin plan class group point type grade option hepatitis appendix team exhibit series category block letter
    """.split()
)
"""Nouns that are named by a letter: «витамин C. Потом» ends a sentence, "J. Smith" does not."""

NUMBERED = (
    "глава|часть|раздел|параграф|статья|пункт|таблица|рисунок|приложение|шаг|этап|лекция|урок|том|книга"
    "|chapter|section|part|article|table|figure|appendix|step|lesson|volume|book|rule|example|note"
)
"""Nouns that open a numbered heading: «Глава 3. Начало пути» is one."""
