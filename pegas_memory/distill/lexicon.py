"""Closed word lists of Russian and English that the extractive distiller reads sentences with."""

from __future__ import annotations

import re

AUXILIARIES = frozenset(
    """
    am is are was were be been being isn't aren't wasn't weren't has have had hasn't haven't hadn't do does did don't
    doesn't didn't can cannot can't could couldn't may might must shall should shouldn't will won't would wouldn't
    it's that's there's you're we're they're i'm you'll we'll you've we've let's
    """.split()
)

_IRREGULAR = """
    found led gave took made became began wrote went came saw rose fell grew won lost held kept left meant met paid put
    ran said sent set sold spent stood told thought built bought brought caught chose drew drove knew spoke understood
    underwent overcame bound bore got broke flew froze hid lay sang shook sank spread struck taught threw wore withdrew
    """

_VERBS = """
    accept accord account achieve act add address affect agree aim allow alter answer appear apply argue arise assess
    assign associate assume attach attempt avoid balance base become begin behave believe belong bind block boost break
    bring build call cause change check choose claim clean close collect combine come compare compile complete comprise
    compute concern conclude configure confirm conform connect consider consist contain continue contribute control
    convert copy correlate correspond cover create decide decline decrease define delete deliver demonstrate depend
    derive describe design destroy detect determine develop differ disable disappear discover discuss display
    distinguish distribute divide download drive edit elicit eliminate employ enable encode encourage end enhance ensure
    enter establish evaluate evolve examine exceed exclude execute exhibit exist expand expect explain expose express
    extend extract fail fall favour favor file find fix follow force form format gain generate get give go govern grow
    handle happen help hold host identify illustrate implement imply import improve include increase indicate induce
    influence inform inhibit inherit initiate insert install integrate intend interact interfere introduce invoke
    involve join justify keep know lack last launch lead leave lie limit link list live load locate look lose lower
    maintain make manage mark match matter mean measure mediate mention migrate modify modulate monitor move need note
    observe obtain occur offer omit open operate originate own participate pass pay perform permit persist place play
    point possess predict prefer prepare present prevent print proceed process produce promise promote propose protect
    prove provide publish pull push put raise range reach read receive recognize recognise recommend record recover
    reduce refer reflect refuse regard regulate reject relate release rely remain remove render reopen replace report
    represent require reside resolve respond restore restrict result retain retrieve return reveal rise rule run save
    say search see seek seem select send separate serve set share show sign signal sit solve sort speak specify spend
    split stand start state stay stimulate stop store strengthen succeed suffer suggest suit supply support suppress
    switch take target tell tend test think translate treat trigger try turn type underlie understand undergo unify
    update upgrade upload use vary verify view visit wait want warn win wish work write yield
    abolish absorb accommodate accompany acquire adjoin admire admit announce appoint arrive bake beat blame
    bleed boil borrow breathe burrow buy carry confess conquer cost deepen defend demolish deny depart descend
    die disagree divorce draw earn eat elect emerge emit endure enjoy erect explode fetch fill forgive freeze
    graduate hang harden heal hear hide invade invite learn marry melt mend obey oppose outweigh overlook owe
    radiate ratify resign retire ripen rotate sell sing soften starve sue surrender surround sweeten testify
    thicken throw vanish vibrate violate weigh
"""

NOT_VERB_ENDINGS = (
    "ing",
    "tion",
    "tions",
    "ment",
    "ments",
    "ness",
    "ity",
    "ance",
    "ence",
    "er",
    "ers",
    "or",
    "ors",
    "al",
    "ive",
    "able",
    "ible",
    "ly",
    "ities",
    "ations",
)
"""Endings of nouns and adjectives that share a stem with a verb (relation, requirement)."""

IMPERATIVES = frozenset(
    """
    add apply ask avoid back boot build call change check choose click close compile configure connect consider copy
    create define delete disable do don't download edit enable ensure enter execute extract fill find follow get give go
    include insert install keep leave let list log look make move open pass place please press put read remember remove
    rename replace restart return run save search select send set specify start stop switch take test tick try turn type
    update upgrade use verify visit wait write
    """.split()
)

VERB_WORDS = frozenset(_IRREGULAR.split())
NOT_PAST = frozenset("speed indeed hundred embed sacred naked exceed proceed breed bleed succeed wicked".split())
VERB_LEMMAS = tuple(_VERBS.split())

RUSSIAN_PREDICATES = frozenset(
    """
    есть нет был была было были будет будут можно нужно надо нельзя должен должна должно должны необходимо следует
    возможно невозможно может могут свободен свободна свободно свободны нужен нужна нужны готов готова готовы способен
    доступен доступна доступно доступны известен известна известно известны согласен равен равна равно равны похож
    похожа похожи прав обязан обязана обязаны виден видна видно видны важно лучше
    """.split()
)
RUSSIAN_FINITE = re.compile(
    r"(?:[аеиоуыюяё]л(?:а|о|и)?(?:сь|ся)?|(?:[её]т|ит|ут|ют|ят|[жшщч]ат)(?:ся)?|(?:[уая]ем|жем|дем)(?:ся)?"
    r"|(?:[её]шь|ишь)(?:ся)?|(?:[уая]ете|жете|д[её]те|ёте|ите)(?:сь)?|(?:ан|ен|ён|ян)(?:а|о|ы)?|(?:ы|я|ну|и)т(?:а|о|ы)"
    r"|[гк]ли|[гксзр][лс]?ла|ш[её]л|мог|смог|вырос|рос|умер)$"
)
RUSSIAN_NOT_VERBS = frozenset(
    """
    пакет пакета ответ совет интернет объект проект формат результат предмет букет билет кабинет бюджет портрет момент
    документ аргумент элемент институт абсолют лет свет цвет сайт байт файл канал журнал материал портал металл идеал
    финал сигнал персонал потенциал интервал интеграл стол пол дом том потом затем всем тем чем сам им нам вам там
    тут экран план стан роман орган океан страна сторона сторон закон регион миллион цена смена система система проблема
    схема тема время имя два дата плата работа зарплата карта команда это эта эти того чтобы таблица часть пять шесть
    совсем менее более меньшем большем каком таком любом ином целом языком образом случаем путём днем днём летом зимой
    смысл узел отдел раздел предел ряд взгляд атом университет факультет комитет приоритет предмет паркет авторитет
    суверенитет иммунитет совета институт институте маршрут минут лимит кредит дефицит визит орбите элите кредите лимите
    член члена члены стена стены имена времена племена плена сцена сцены океана страны цены дела дело тело тела начало
    сила школа правило правила отдела раздела предела числа число стола угла узла канала сигнала материала журнала
    портала металла файла орбита орбиты элита элиты защита защиты опыта быта бита биты санта случаем обычаем урожаем
    алфавит гранит магнит аппетит авиабилет планет планета ракет газет монет секрет запрет расчёт отчёт счёт полёт
    самолёт вертолёт налёт взлёт учёт зачёт почёт пулемёт миномёт отчет расчет самолет вертолет учет счет полет
    """.split()
)

BEFORE_NOUN = frozenset(
    """
    a an the of its their his her my our your this these those every each no any some in on for with by from to as at
    between into per via such same first last next new other one two three
    """.split()
)
"""What stands before a word makes it a noun (a list, of changes) or an infinitive (to list)."""

PERSONAL_EN = frozenset("it he she they him her them its his their hers theirs".split())
DEMONSTRATIVE_EN = frozenset("this that these those such".split())
PERSONAL_RU = frozenset("он она оно они его её ее их ему ей им ней нём нем него них ним нею".split())
DEMONSTRATIVE_RU = frozenset(
    """
    этот эта это эти этого этой этих этому этим этими этом эту тот та те того той тех тому тем теми том ту такой такая
    такое такие такого таких таким такому такими такую сей данный данная данное данные данного данной данных
    последний последняя последние
    """.split()
)
CONNECTIVES = re.compile(
    r"(?:however|therefore|thus|hence|moreover|furthermore|otherwise|instead|but|and|or|nor|so|yet|besides|another|"
    r"consequently|similarly|likewise|nevertheless|nonetheless|meanwhile|afterwards|conversely|accordingly|"
    r"the (?:latter|former|same|other|others|above|rest)|for (?:example|instance|this|that|these)|"
    r"in (?:addition|contrast|turn|this|that|these|such|particular|other words|both cases)|as (?:a result|such|well)|"
    r"on the (?:other hand|contrary)|because of (?:this|that)|after (?:this|that)|by contrast|also|then|"
    r"as (?:before|usual|mentioned|noted|stated|said)|here(?!,? we)|additionally|alternatively|still|"
    r"both(?! (?:\S+ ){1,4}and)|(?:one|all|some|most|many|each) of (?:them|these|those)|others?|"
    r"to do (?:this|that|so)|if (?:so|not)|even so|that is|i\.e\.|e\.g\.|at (?:this|that) (?:time|point)|"
    r"during (?:this|that)|collectively|together(?! with)|specifically|importantly|notably|overall|finally|"
    r"однако|поэтому|таким образом|тем не менее|кроме (?:того|этого)|при этом|при том|более того|к тому же|также|"
    r"так(?! как)|следовательно|итак|впрочем|зато|но|и|а|или|либо|тогда|затем|потом|напротив|наоборот|иначе|например|"
    r"в (?:этом|том|таком|этих|таких|данном|частности|результате(?= ?,)|противном|свою очередь)|"
    r"с другой стороны|вместо этого|после (?:этого|того|чего)|для этого|из-за этого|благодаря этому|"
    r"в то же время|в отличие от (?:н|эт)\w+|здесь|там|тут|сюда|отсюда|оттуда|туда|тоже|причём|причем|"
    r"оба|обе|(?:один|одна|одно|некоторые|многие|большинство|среди)? ?из них|среди них|у (?:него|неё|нее|них)|"
    r"тем самым|тем временем|другой|другая|другое|другие|остальные|прочие|то есть|т\. ?е\.|кстати|наконец|"
    r"аналогично|подобн\w+|вследствие этого|в связи с этим|по этой причине|помимо (?:этого|того)|вместе с тем)"
    r"(?![\w-])",
    re.IGNORECASE,
)
EXPLETIVE = re.compile(
    r"(?:it (?:is|was|has been|can be|should be|may be|must be|seems?|appears?|would be|will be|became|remains)"
    r"(?: also| not| now| well| still| often| generally| widely| therefore)? ?"
    r"(?:\w* (?:that|whether|how|why)|(?:more |very |quite |most )?"
    r"(?:possible|impossible|necessary|unnecessary|important|easy|"
    r"easier|hard|harder|difficult|better|best|advisable|recommended|useful|common|likely|unlikely|essential|crucial|"
    r"customary|safe|wise|usual|sufficient|enough|time|practical|feasible|desirable)(?: for [\w ]{2,30})? to)\b"
    r"|это правда, что)",
    re.IGNORECASE,
)
ABOUT_ITSELF = re.compile(
    r"(?:this|the present) (?:document|paper|study|article|book|manual|guide|faq|chapter|section|page|review|report|"
    r"tutorial|work|thesis|appendix|handbook|website|site)\b|(?:этот|данный|настоящий|эта|данная|настоящая|это|данное|"
    r"в (?:этом|данном|этой|данной|настоящем)|наст\w+) (?:документ|стать|книг|руководств|глав|раздел|страниц|обзор|"
    r"отчёт|отчет|пособи|справочник|сайт|работ)",
    re.IGNORECASE,
)
PREPOSITIONS = frozenset(
    """
    in on at by from since during after before until around with without for of to under over through following despite
    в во на с со к ко по за из от до о об у после перед около вместо кроме для благодаря согласно без под над при через
    """.split()
)
BEFORE_PRONOUN = frozenset(
    """
    in on at by from since during after before until around about early late later the of year years month months day
    century then now once initially originally first soon again next previously recently only still also january
    february march april may june july august september october november december spring summer autumn winter
    в во на с со к ко по за из от до о об у после перед около начале конце середине год году года годы годах лет месяц
    день дня век веке позже позднее раньше сначала вскоре снова теперь сейчас уже ещё еще впервые первоначально
    сегодня вчера тогда лишь только января февраля марта апреля мая июня июля августа сентября октября ноября декабря
    весной летом осенью зимой помимо кроме для благодаря согласно и но а если когда хотя как что where when if while
    although because and but
    """.split()
)

BOILERPLATE = re.compile(
    r"©|\(c\) ?(?:19|20)\d\d|all rights reserved|все права защищены|"
    r"\b(?:we|this (?:web)?site|our (?:web)?site) uses? cookies|accept (?:all )?cookies|"
    r"\bcookies? (?:policy|consent|settings|notice)|"
    r"(?:мы|сайт) использу\w+ (?:файлы )?(?:cookie|куки)|(?:используя|пользуясь) (?:этот|наш|этим|нашим) сайт|"
    r"click here|skip to (?:main )?content|enable javascript|нажмите здесь|\.{4,}|(?:\. ){4,}|…{2,}",
    re.IGNORECASE,
)
"""Says boilerplate wherever it stands in a text."""

NOTICE = re.compile(
    r"copyright\b|авторские права|privacy policy|terms of (?:use|service)|политик\w+ конфиденциальности|"
    r"пользовательск\w+ соглашени|sign (?:in|up)\b|log in\b|subscribe\b|newsletter|follow us|share (?:this|on)\b|"
    r"back to top|last (?:updated|modified)|retrieved from|powered by|read more|читать (?:далее|дальше|полностью)|"
    r"подпишитесь|поделиться|войдите|зарегистрируйтесь|наверх|к содержанию|последнее (?:обновление|изменение)",
    re.IGNORECASE,
)
"""Says boilerplate only at the start of a short text: a manual may well write about logging in."""

NAVIGATION = re.compile(
    r"(?:(?:next|prev(?:ious)?|up|home|top|index|contents?|menu|table of contents|toc|back|search|login|about|"
    r"contact(?: us)?|help|faq|назад|вперёд|вперед|далее|пред(?:ыдущая|\.)?|след(?:ующая|\.)?|наверх|начало|главная|"
    r"меню|оглавление|содержание|поиск|войти|контакты|о нас|уровень выше)(?:$|[\s|/›»>·•:,-]+))+",
    re.IGNORECASE,
)
CROSS_REFERENCE = re.compile(
    r"(?:please )?(?:see|refer to|consult|(?:read|check|look at|have a look at|visit) (?:the |our |their |also )*"
    r"(?:https?:|web ?site|web ?page|documentation|manual|docs?\b|section|chapter|page|faq|home ?page|guide))\b|"
    r"(?:for|more) (?:more |further |additional |detailed |full |other )?(?:information|details?|instructions|"
    r"documentation|info|help|explanation)\b.{0,120}\b(?:see|refer|visit|consult|read|check|found|available|look)\b|"
    r"(?:подроб\w+|дополнительн\w+ (?:информац|сведен)\w+|более подробн\w+|больш\w+ информац\w+)\b.{0,140}"
    r"(?:см\.?|смотри\w*|найти|найдёте|найдете|читайте|прочит\w+|обратитесь|ознаком\w+|приведен\w+|содерж\w+|доступн\w+)|"
    r"(?:см\.|смотри(?:те)?|прочитайте|прочтите|читайте|загляните|посетите|обратитесь к (?:раздел|глав|документац|"
    r"руководств|страниц)\w+)(?![\w])",
    re.IGNORECASE,
)
POINTS_ELSEWHERE = re.compile(
    r"\b(?:as follows|(?:described|listed|shown|mentioned|given|discussed|explained|outlined|seen|noted|defined|"
    r"presented) (?:above|below|earlier|previously)|the (?:following|preceding|previous|next) (?:section|chapter|table|"
    r"figure|example|list|page|paragraph|picture|diagram)|see (?:above|below)|above[- ]mentioned|aforementioned)\b|"
    r"(?<!\w)(?:(?:описан|перечислен|показан|упомянут|указан|приведен|приведён|изложен)\w* (?:выше|ниже|ранее)|"
    r"(?:выше|ниже)(?: ?|-)(?:описан|перечислен|показан|упомянут|указан|приведен|приведён|изложен)\w*|"
    r"(?:следующ|предыдущ)\w+ (?:раздел|глав|пример|таблиц|рисун|списк)\w*|см\. (?:выше|ниже))",
    re.IGNORECASE,
)
ENUMERATES = re.compile(
    r"^(?:see also|contents|table of contents|references|links|further reading|related|tags|categories|share|"
    r"смотрите также|см\. также|содержание|оглавление|ссылки|литература|примечания|теги|категории|рубрики)\b",
    re.IGNORECASE,
)
LABELS = frozenset(
    """
    note notes example examples warning caution important tip hint see usage syntax output input result results method
    methods conclusion conclusions background objective objectives aim aims design setting settings purpose summary
    question answer q a todo fixme update source sources author authors date version status url email phone tel fax
    figure table step mailing license licence copyright title subject from to cc re http https ftp file and or if then
    примечание примечания пример примеры внимание важно предупреждение совет замечание см вопрос ответ источник автор
    дата версия результат результаты вывод выводы метод методы цель цели рисунок таблица шаг тема кому от
    """.split()
)
