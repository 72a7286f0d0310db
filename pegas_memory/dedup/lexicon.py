"""Closed word lists of Russian and English that decide between a copy and an update. English entries are
whole folded words, Russian ones with a trailing ``*`` are prefixes (ё written е)."""

from __future__ import annotations

from collections.abc import Iterator


def entries(text: str) -> Iterator[tuple[str, str]]:
    """(name, word) of a table of ``name: word word …`` lines; an indented line goes on with the one before."""
    name = ""
    for line in text.strip().splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(":")
        yield from ((name, word) for word in line.split())


def by_word(text: str) -> dict[str, str]:
    return {word: name for name, word in entries(text)}


ARTICLES = frozenset("a an the".split())
FUNCTION = frozenset(
    """
    and that which who whom whose there also then so as too very just-now well namely i.e e.g
    have has had having do does did being been
    и что который которая которое которые которого которой которых котором также то же ли бы ведь вот
    """.split()
)
BE_PRESENT = frozenset("is are am isn't aren't".split())
BE_PAST = frozenset("was were wasn't weren't".split())
PAST_AUXILIARIES = frozenset("had hadn't did didn't".split())
BE = BE_PRESENT | BE_PAST | {"be", "been", "being"}

PREPOSITIONS = frozenset(
    """
    in on at of to from by with without for before after above below over under until till since between against than
    within into onto out off through via per during except despite instead around near across along toward towards upon
    behind beneath beside inside outside about
    в во на о об обо у по из от до к ко без для против перед после над под между вместо кроме через с со за при про
    около среди из-за из-под вокруг возле ради согласно
    """.split()
)
LOOSE_PREPOSITIONS = frozenset("in on of at в на".split()) | {""}
"""These may stand or not without a change of meaning, but none for another; every other one is held to."""
ONE_PREPOSITION = {"во": "в", "об": "о", "обо": "о", "ко": "к", "со": "с", "upon": "on"}

DROPPABLE = frozenset("город города городе городу театр театра театре г-н господин мистер city company".split())
"""Words beside a name that say what it names anyway: the only content words that may stand on one side only."""

NEGATIONS = {
    **dict.fromkeys(
        """not no never none nothing nobody neither nor cannot can't won't don't doesn't didn't isn't aren't wasn't
        weren't hasn't haven't hadn't shouldn't wouldn't couldn't mustn't nowhere hardly barely without
        не ни нет никогда никто ничто ничего никого никакой никакие никаких никакого нигде никуда нельзя
        едва без""".split(),
        "not",
    )
}
NEGATIVE_PREFIXES = (
    "un",
    "in",
    "im",
    "ir",
    "il",
    "non",
    "non-",
    "dis",
    "de",
    "mis",
    "anti",
    "не",
    "без",
    "бес",
    "анти",
    "де",
    "дис",
    "контр",
)

SENTENCE_ADVERBS = frozenset("eventually finally recently currently originally initially subsequently".split())
SUBORDINATE = frozenset(
    """that which who whom whose when while because although though said says где когда который которая которое
    которые что чтобы потому хотя пока""".split()
)
"""Words that open another clause: there a moved phrase may belong to another verb."""

NOUNS_LIKE_VERBS = frozenset(
    """отчет пакет совет ответ билет кабинет бюджет комитет университет интернет предмет секрет запрет факультет
    приоритет авторитет портрет букет жилет балет омлет интеллект результат формат аппарат кандидат депутат солдат
    автомат агрегат комбинат сертификат адресат сенат штат халат чат канат салат мандат реферат дубликат дефицит кредит
    лимит транзит визит аудит гранит магнит институт маршрут атрибут салют приют канал журнал сигнал портал терминал
    филиал персонал материал потенциал металл капитал арсенал финал сериал криминал автопилот подвал вокзал обвал
    экран план клан роман кран океан ресторан стакан туман карман вулкан чемодан караван ветеран хулиган орган
    домен обмен член абонент клен плен феномен бассейн район ген прием объем проем модем подъем заем диплом симптом
    перелом режим идол пол стол угол узел отдел раздел предел пробел прицел""".split()
)
"""Nouns that end like Russian verbs, or like oblique cases."""

NEGATED_WORDS = {
    "cannot": "can", "can't": "can", "couldn't": "may", "mustn't": "must", "shouldn't": "should", "won't": "will",
    "wouldn't": "would", "never": "never", "никогда": "never", "none": "none", "nothing": "nothing", "ничто": "nothing",
    "ничего": "nothing", "nobody": "nobody", "никто": "nobody", "никого": "nobody", "neither": "neither", "nor": "nor",
    "nowhere": "nowhere", "нигде": "nowhere", "никуда": "nowhere", "hardly": "hardly", "едва": "hardly",
    "barely": "barely", "нельзя": "can", "without": "without", "без": "without",
}  # fmt: skip

QUANTIFIERS = by_word(
    """
all: all every each всё все всех всем всеми весь вся всю всей каждый каждая каждое каждого каждой каждому каждую
any: any любой любая любое любые любого любых
both: both оба обе обоих
whole: entire whole целый целая целое
some: some некоторые некоторых некоторым некоторый некоторая
several: several несколько нескольких
certain: certain отдельные
various: various
few: few немного немногие немногих
little: little мало
many: many much много многие многих многим
numerous: numerous множество
most: most большинство большинства большинстве
mostly: mostly
majority: majority
only: only just solely exclusively merely только лишь исключительно единственный единственная единственное
    единственного
may: may might
could: could
possible: possibly perhaps maybe возможно
likely: probably likely вероятно
can: can могут мог могла могли можно
able: able способен способна
must: must shall должен должна должно должны обязан обязана обязаны
required: required необходимо нужно нужен нужна нужны надо
requires: requires
mandatory: mandatory обязательно
should: should ought следует
recommended: recommended рекомендуется
desirable: желательно
optional: optional optionally необязательно необязательный необязательная опционально
will: will буду будет будут будем
plan: планирует планируют планируется
mean: намерен намерена намерены
always: always всегда
constantly: constantly постоянно
permanently: permanently
usually: usually generally typically обычно
often: often frequently часто зачастую
sometimes: sometimes occasionally иногда
rarely: rarely seldom редко изредка
approx: approximately roughly примерно приблизительно
nearly: nearly almost почти
least: least
minimum: minimum minimal minimally минимум минимальный минимальная минимальное минимально
limit: maximum maximal максимум максимальный максимальная максимальное максимально
or: or или либо
if: if если
unless: unless
still: still ещё еще
already: already уже
yet: yet
anymore: anymore longer
meanwhile: пока
again: again снова опять вновь повторно
other: other another другой другая другое другие других другого иной иные
else: else
same: same
identical: identical одинаковый одинаковые одинаково
"""
)
"""Words of one kind stand for each other; a kind more or less makes two statements different."""

POLES = """
level +: increase increases increased increasing rise rises rose risen rising grow grows grew grown growing growth
    raise raises raised gain gains gained climb climbed surge surged увелич* повыс* повыш* вырос* выраст* возрос*
    возраст* рост роста росту растет растут рос росла росли подорож* подня* прибав* нараст* усил*
level -: decrease decreases decreased decreasing decline declines declined declining drop drops dropped fall falls
    fell fallen falling reduce reduces reduced reduction lower lowers lowered lowering shrink shrank cut cuts lose
    lost lessen уменьш* сниж* сниз* сократ* сокращ* упал* упад* падает падают падение подешев* понизи* пониж* убав*
    ослаб*
compare +: more greater higher larger bigger longer above exceeds exceed exceeded over-n upper больше более выше
    свыше дольше крупнее превы* сверх
compare -: less fewer lower-than smaller shorter below under-n beneath меньше менее ниже короче мельче
size +: high large big great long tall huge wide deep major heavy высок* больш* крупн* огромн* длинн* широк* глубок*
    тяжел*
size -: low small short tiny narrow shallow minor light низк* маленьк* мал малая малый малое малых мелк* коротк*
    узк* неглубок* легк*
order +: after later following subsequent subsequently next post после позже затем потом следующ* поздн*
order -: before earlier previous previously prior preceding ahead до-того раньше прежде предыдущ* ранее ранн*
edge +: last final latest end ends ended ending finish finishes finished stop stops stopped close closes closed
    closing complete последн* конец конца конце заканчив* законч* заверш* останов* прекра* прекрат* закры*
edge -: first-of initial begin begins began begun beginning start starts started starting open opens opened opening
    launch launched launches начал* начин* начат* старт* откры* запуст* запуск* запущ*
turn +: enable enables enabled enabling on-state activate activated allow allows allowed permit permits permitted
    accept accepts accepted approve approved approves support supports supported включ* разреш* позвол* допуск*
    допуст* активир* одобр* принял* приня* поддерж*
turn -: disable disables disabled disabling off deactivate deactivated deny denies denied forbid forbids forbidden
    prohibit prohibits prohibited reject rejects rejected refuse refuses refused block blocks blocked ban banned
    bans выключ* отключ* запрещ* запрет* деактив* отклон* отказ* отверг* заблок* блокир*
add +: add adds added adding insert inserted install installs installed include includes included create creates
    created append appended attach attached добав* встав* установ* устанав* включать создал* создан* созда* прикреп*
add -: remove removes removed removing delete deletes deleted uninstall uninstalled exclude excludes excluded
    destroy destroyed drop-table detach detached удал* убр* исключ* уничтож* снес* открепл*
send +: send sends sent export exports exported upload uploads uploaded push pushes pushed sell sells sold give
    gives gave given write writes wrote written output outputs encode encodes encrypt encrypts encrypted lend lent
    отправ* экспорт* выгру* прода* отда* запис* пишет шифру* зашифр* выда*
send -: receive receives received import imports imported download downloads downloaded pull pulls pulled buy buys
    bought take takes took taken read reads input inputs decode decodes decrypt decrypts decrypted borrow borrowed
    получ* импорт* загру* скача* купи* покуп* прочит* чита* расшифр* приним*
win +: win wins won winner succeed succeeds succeeded success successful pass passes passed выигр* побед* побежд*
    успех* успеш* сдал
win -: lose loses lost loser fail fails failed failure unsuccessful проигр* пораж* провал* неуда* неусп*
good +: good better best improve improves improved improvement strong stronger fast faster quick quicker safe secure
    stable positive benefit cheap cheaper хорош* лучш* улучш* быстр* безопас* стабил* положит* дешев* ускор*
good -: bad worse worst worsen worsens worsened deteriorate weak weaker slow slower dangerous insecure unstable
    negative harm expensive плох* худш* ухудш* медлен* опасн* нестабил* отрицат* замедл* дорог дорогой дорогая
    дорогие дороже
up +: up top upward upwards ascending north northern вверх верхн* вверху возраст-ряд север*
up -: down bottom downward downwards descending south southern вниз нижн* внизу юг юга юге южн*
side +: left налево west western влево левый левая левое левой слева запад*
side -: right right-hand направо east eastern rightmost вправо правый правая правое правой справа восток* восточн*
in +: in-side inside internal inbound incoming arrive arrives arrived arrival enter enters entered join joins joined
    come comes came внутр* входящ* прибы* приеха* приех* прилет* вошел вошла вошли вступ* пришел пришла пришли
in -: outside external outbound outgoing left depart departs departed departure leave leaves left-place exit exits
    exited quit quits leaving внешн* исходящ* отбы* уеха* уех* улет* вышел вышла вышли покин* ушел ушла ушли
life +: born birth alive live lives living родил* рожден* жив жива живы
life -: died dies die death dead killed deceased умер* смерт* погиб* скончал* мертв*
new +: new newer modern fresh нов новый новая новое новые нового новой новых новую новом новейш* современ*
new -: old older obsolete outdated former ancient стар* устар* бывш* древн*
truth +: true correct valid confirm confirms confirmed agree agrees agreed admit admits admitted guilty верн*
    правиль* подтверд* подтвержд* соглас* призна* виновн*
truth -: false incorrect invalid refute refutes refuted deny-claim disagree disagrees disagreed innocent ложн*
    невер* неправ* опроверг* опроверж* несоглас* невинов*
love +: love loves loved like likes liked prefer prefers preferred любит любят нравит* предпоч*
love -: hate hates hated dislike dislikes disliked avoid avoids avoided ненавид* избега*
peace +: war attack attacks attacked война войны войне атак* напал* напад*
peace -: peace defend defends defended мир мира мире мирн* оборон*
public +: public open-source free публич* открытый бесплат*
public -: private proprietary paid confidential secret закрытый частн* платн* секрет* приват*
sync +: synchronous sync online синхрон* онлайн
sync -: asynchronous async offline асинхрон* офлайн
sex +: man men male he boy father son brother husband king он мужчин* мальчик* отец отца сын сына брат брата муж
    мужа
sex -: woman women female she girl mother daughter sister wife queen она женщин* девочк* мать матери дочь дочери
    сестр* жена жены
day +: today morning daytime сегодня утр* утром днем
day -: yesterday evening night tonight вчера вечер* ночь* ночи ночью
day ~: tomorrow завтра
season winter: winter зим*
season spring: spring весн* весен*
season summer: summer лет-сезон летом летн*
season autumn: autumn осен*
colour red: red красн*
colour blue: blue син* голуб*
colour green: green зелен*
colour yellow: yellow желт*
colour white: white бел белый белая белое белые белых
colour black: black черн*
colour grey: grey gray сер серый серая серое серые
weekday 1: monday понедельник*
weekday 2: tuesday вторник*
weekday 3: wednesday сред среда среду среды
weekday 4: thursday четверг*
weekday 5: friday пятниц*
weekday 6: saturday суббот*
weekday 7: sunday воскресень*
"""

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan январ",
            "february feb феврал",
            "march mar март",
            "april apr апрел",
            "may май мая мае маю маем",
            "june jun июн",
            "july jul июл",
            "august aug август",
            "september sept sep сентябр",
            "october oct октябр",
            "november nov ноябр",
            "december dec декабр",
        ),
        start=1,
    )
    for name in names.split()
}
"""Russian ones but May without their case ending."""

NUMBERS = by_word(
    """
0: zero ноль нуль нуля нулю
1: one один одна одно одного одной одному одним одну одном
2: two два две двух двум двумя двое двоих
3: three три трех трем тремя трое троих
4: four четыре четырех четырем четырьмя четверо четверых
5: five пять пяти пятью пятеро пятерых
6: six шесть шести шестью шестеро
7: seven семь семи семью семеро
8: eight восемь восьми восемью
9: nine девять девяти девятью
10: ten десять десяти десятью
11: eleven одиннадцать одиннадцати
12: twelve двенадцать двенадцати dozen дюжина
13: thirteen тринадцать тринадцати
14: fourteen четырнадцать четырнадцати
15: fifteen пятнадцать пятнадцати
16: sixteen шестнадцать шестнадцати
17: seventeen семнадцать семнадцати
18: eighteen восемнадцать восемнадцати
19: nineteen девятнадцать девятнадцати
20: twenty двадцать двадцати
30: thirty тридцать тридцати
40: forty сорок сорока
50: fifty пятьдесят пятидесяти
60: sixty шестьдесят шестидесяти
70: seventy семьдесят семидесяти
80: eighty восемьдесят восьмидесяти
90: ninety девяносто
100: hundred сто ста
200: двести двухсот
300: триста трехсот
0.5: half половина половину половины
x2: twice дважды вдвое double doubled
x3: triple tripled втрое трижды
x1: once однажды
0.25: quarter четверть
0.333: треть
1.5: полтора полторы
"""
)

ORDINALS = by_word(
    """
#1: first перв*
#2: second втор*
#3: third третий третья третье третьего третьей третьему третьем третью
#4: fourth четверт*
#5: fifth пятый пятая пятое пятого пятой пятом пятую
#6: sixth шестой шестая шестое шестого шестую
#7: seventh седьм*
#8: eighth восьмой восьмая восьмое восьмого восьмую
#9: ninth девятый девятая девятое девятого девятой девятую
#10: tenth десятый десятая десятое десятого десятой десятую
"""
)

SCALES = {
    **dict.fromkeys("thousand thousands тыс тысяч тысячи тысяча тысячу".split(), 3),
    **dict.fromkeys("million millions mln млн миллион миллиона миллионов миллионам".split(), 6),
    **dict.fromkeys("billion billions bn млрд миллиард миллиарда миллиардов".split(), 9),
    **dict.fromkeys("trillion trillions трлн триллион триллиона триллионов".split(), 12),
}

UNITS = by_word(
    """
ns: ns nanosecond нс наносекунд*
us: us µs microsecond мкс микросекунд*
ms: ms millisecond milliseconds мс миллисекунд*
s: sec secs seconds сек секунд*
min: min mins minute minutes мин минут*
h: hour hours hourly hr hrs час часа часов часу часам часы ежечас*
d: day days daily день дня дней дню сутки суток ежеднев* ежесуточ*
w: week weeks weekly недел* еженедел*
mon: month months monthly месяц* ежемесяч*
y: year years yearly annual annually год года году лет годы годов ежегод*
B: byte bytes байт байта байтов
KB: kb kilobyte kilobytes кб килобайт*
MB: mb megabyte megabytes мб мегабайт*
GB: gb gigabyte gigabytes гб гигабайт*
TB: tb terabyte terabytes тб терабайт*
bit: bit bits бит бита битов битный
%: % percent процент*
mm: mm millimeter millimeters millimetre millimetres мм миллиметр*
cm: cm centimeter centimeters centimetre centimetres см сантиметр*
m: meter meters metre metres метр метра метров метрах метры
km: km kilometer kilometers kilometre kilometres км километр*
mi: mile miles миля мили миль
mph: mph
ft: ft foot feet фут фута футов
mg: mg milligram milligrams мг миллиграмм*
g: gram grams грамм грамма граммов
kg: kg kilogram kilograms кг килограмм*
t: ton tons tonne tonnes тонн тонны тонна
lb: lb lbs
ml: ml milliliter milliliters мл миллилитр*
l: liter liters litre litres литр литра литров
v: volt volts вольт вольта
W: watt watts ватт
kW: kw kilowatt kilowatts квт киловатт*
MW: mw megawatt megawatts мвт мегаватт*
Hz: hz hertz гц герц
MHz: mhz мгц
GHz: ghz ггц
°C: °c celsius цельси*
°F: °f fahrenheit фаренгейт*
$: $ usd dollar dollars доллар* долл
€: € eur euro euros евро
£: £ gbp pound pounds фунт фунта фунтов
₽: ₽ rub ruble rubles rouble roubles руб рубль рубля рублей рублях
¥: ¥ yen yuan иен* юан*
"""
)
AFTER_NUMBER_UNITS = by_word("""
s: s с
h: h ч
m: m м
g: g г
t: t т
l: l л
v: v в
d: д
W: w
B: b
k: k
""")
"""Letters that are units only directly behind a number."""
