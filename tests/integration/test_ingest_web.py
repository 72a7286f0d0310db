"""Web pages: main content with its structure, what a page says of itself, and pages that are no content."""

from __future__ import annotations

import json

import pytest

from pegas_memory.errors import NoUsableText
from pegas_memory.ingest import read_bytes, read_text
from pegas_memory.model import BlockKind, DocumentKind, Extracted

# ruff: noqa: E501 - pages as they are served

LONG = "The lighthouse keeper wrote down the weather every morning before the boats went out to sea. " * 4
ДЛИННЫЙ = "Смотритель маяка каждое утро записывал погоду, пока лодки ещё не вышли в море на промысел. " * 4


def read(body: str, head: str = "", url: str = "https://example.org/a/page") -> Extracted:
    document = read_bytes(f"<html><head>{head}</head><body>{body}</body></html>".encode(), DocumentKind.WEB, url)
    assert all(document.text[b.locator.start : b.locator.end] == b.text for b in document.blocks)
    return document


def kinds(document: Extracted) -> list[tuple[BlockKind, str]]:
    return [(block.kind, block.text) for block in document.blocks]


def article(inner: str, head: str = "", words: str = LONG) -> Extracted:
    return read(f"<article><h1>Weather book</h1><p>{words}</p>{inner}<p>{words}</p><p>{words}</p></article>", head)


# --- structure ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markup", "code", "language"),
    [
        ('<pre><code class="language-python">def f(x):\n    if x &lt; 3:\n\n        return x\n</code></pre>', "def f(x):\n    if x < 3:\n\n        return x", "python"),
        ('<div class="highlight highlight-source-js"><pre><span>const</span> x  =  1;\n<span>let</span> y;</pre></div>', "const x  =  1;\nlet y;", "js"),
        ('<pre class="brush: sql">select *\n  from t\n where a = 1;</pre>', "select *\n  from t\n where a = 1;", "sql"),
        ("<pre>plain\n   art\n</pre>", "plain\n   art", ""),
        ('<figure class="highlight"><table><tr><td class="gutter"><pre>1\n2</pre></td><td class="code"><pre>int main() {\n  return 0; }</pre></td></tr></table></figure>', "int main() {\n  return 0; }", ""),
    ],
)  # fmt: skip
def test_code_stays_as_it_was_written(markup: str, code: str, language: str) -> None:
    found = [block for block in article(markup).blocks if block.kind is BlockKind.CODE]
    assert [(block.text, block.language) for block in found] == [(code, language)]


@pytest.mark.fault(71)
def test_lists_are_kept_item_by_item() -> None:
    """trafilatura#431."""
    document = article(
        "<ul><li>First</li><li>Second <b>bold</b><ul><li>Nested one</li><li>Nested two<ol><li>Deep</li></ol></li></ul></li>"
        "<li><p>Third in a paragraph</p></li></ul><dl><dt>Term</dt><dd>What the term means</dd></dl>"
    )
    items = [text for kind, text in kinds(document) if kind is BlockKind.LIST_ITEM]
    assert items == [
        "- First",
        "- Second bold",
        "- Nested one",
        "- Nested two",
        "- Deep",
        "- Third in a paragraph",
        "Term",
    ]
    assert (BlockKind.PARAGRAPH, "What the term means") in kinds(document)


@pytest.mark.fault(71)
def test_absurd_spans_cost_nothing_and_tables_keep_rows_and_columns() -> None:
    """trafilatura#657."""
    document = article(
        '<table><caption>Bells</caption><tr><th>Place</th><th>Weight</th><th>Year</th></tr><tr><td colspan="1000000000">All on the coast</td></tr>'
        "<tr><td>Heron Point</td><td></td><td>1904</td></tr><tr><td>Cape | Long</td><td>420 kg</td><td>1911</td></tr></table>"
    )
    [table] = [block.text for block in document.blocks if block.kind is BlockKind.TABLE]
    assert (
        table == "Bells\nPlace | Weight | Year\nAll on the coast\nHeron Point |  | 1904\nCape \\| Long | 420 kg | 1911"
    )


def test_a_table_that_lays_out_the_page_is_read_as_text() -> None:
    document = read(f"<table><tr><td><h2>Morning</h2><p>{LONG}</p><p>{LONG}</p><p>{LONG}</p></td></tr></table>")
    assert BlockKind.TABLE not in {block.kind for block in document.blocks}
    assert LONG.strip() in document.text


def test_headings_keep_their_levels_and_the_title_heads_the_path_without_being_repeated() -> None:
    document = article(
        "<h2>Storms</h2><p>They come in autumn, mostly.</p><h4>Records</h4><p>The worst was in 1911.</p>",
        "<title>Weather book</title>",
    )
    assert document.title == "Weather book"
    assert "Weather book" not in document.text
    assert [(b.level, b.text) for b in document.blocks if b.kind is BlockKind.HEADING] == [
        (2, "Storms"),
        (4, "Records"),
    ]
    assert document.blocks[0].locator.headings == ("Weather book",)
    assert document.blocks[-1].locator.headings == ("Weather book", "Storms", "Records")


def test_quotes_and_soft_hyphens() -> None:
    document = article(
        "<blockquote><p>The first word of the quote.</p><p>The last of it.</p></blockquote><p>Wet\u00adter&shy;buch is one word.</p>"
    )
    assert (BlockKind.PARAGRAPH, "The last of it.") in kinds(document)
    assert "Wetterbuch is one word." in document.text


@pytest.mark.fault(71)
def test_no_text_comes_twice() -> None:
    """cognee#3154."""
    document = article(
        "<div><p>Only <span>once <b>in</b> the</span> page.</p></div><ul><li><p>Only <a href=/>here</a></p></li></ul>"
    )
    assert document.text.count("Only once in the page.") == 1
    assert document.text.count("Only here") == 1


def test_reading_is_deterministic_and_deep_pages_are_read() -> None:
    deep = "<div>" * 400 + f"<p>{LONG}</p>" * 4 + "</div>" * 400
    assert LONG.strip() in read(deep).text
    nested = "<ul><li>item" * 150 + "</li></ul>" * 150
    assert article(nested) == article(nested)


# --- what a page says of itself -----------------------------------------------------------------------

JSON_LD = {
    "@context": "https://schema.org",
    "@graph": [
        {"@type": "WebSite", "name": "Маяк"},
        {
            "@type": ["NewsArticle"],
            "headline": "Журнал погоды нашёлся",
            "datePublished": "2024-03-05T10:00:00+03:00",
            "dateModified": "2024-03-06T09:00:00+03:00",
            "author": [{"@type": "Person", "name": "Анна Иванова"}, {"@type": "Person", "name": "Пётр Ким"}],
            "publisher": {"@type": "Organization", "name": "Вестник маяка"},
        },
    ],
}


def test_json_ld_tells_title_authors_dates_and_publisher() -> None:
    document = article(
        f'<script type="application/ld+json">{json.dumps(JSON_LD)}</script>',
        '<link rel=canonical href="/b?x=1">',
        ДЛИННЫЙ,
    )
    about = document.metadata
    assert (about["date"], about["modified"]) == ("2024-03-05", "2024-03-06")
    assert "Анна Иванова" in about["author"]
    assert "Пётр Ким" in about["author"]
    assert about["canonical_url"] == "https://example.org/b?x=1"
    assert document.language == "ru"
    assert document.title


@pytest.mark.parametrize(
    "script", ["{", "[" * 100_000, '{"@type": "Article", "author": {"name": {"a": 1}}, "datePublished": 7, "headline": [null]}', "null", '"x"', "[[[[]]]]", '{"@graph": {"@graph": 1}}'],
)  # fmt: skip
def test_odd_json_ld_costs_only_itself(script: str) -> None:
    document = article(f'<script type="application/ld+json">{script}</script>', "<title>Weather book</title>")
    assert document.title == "Weather book"
    assert LONG.strip() in document.text


def test_meta_tags_tell_what_json_ld_does_not() -> None:
    head = (
        '<title>Weather book | The Beacon</title><meta name=author content="Jane Roe"><meta property="article:published_time" content="2023-01-02T03:04:05Z">'
        '<meta property="og:site_name" content="The Beacon"><meta name=description content="What the keeper saw."><link rel=canonical href="javascript:alert(1)">'
    )
    about = article("", head).metadata
    assert (about["author"], about["date"], about["sitename"], about["description"]) == (
        "Jane Roe",
        "2023-01-02",
        "The Beacon",
        "What the keeper saw.",
    )
    assert not about.get("canonical_url", "").startswith("javascript")


# --- walls --------------------------------------------------------------------------------------------

FOOT = "<footer><a href=/about>About</a> <a href=/terms>Terms</a> © 2026 Example</footer>"
WALLS = {
    "cloudflare": ("bot check", "<title>Just a moment...</title>", "<h1>example.org</h1><p>Verifying you are human. This may take a few seconds.</p><p>example.org needs to review the security of your connection before proceeding.</p><noscript>Enable JavaScript and cookies to continue</noscript>"),
    "cloudflare ban": ("bot check", "<title>Attention Required! | Cloudflare</title>", "<h1>Sorry, you have been blocked</h1><h2>You are unable to access example.org</h2><p>Why have I been blocked? This website is using a security service to protect itself from online attacks. The action you just performed triggered the security solution. There are several actions that could trigger this block including submitting a certain word or phrase, a SQL command or malformed data.</p><p>What can I do to resolve this? You can email the site owner to let them know you were blocked. Please include what you were doing when this page came up and the Cloudflare Ray ID found at the bottom of this page.</p>"),
    "ddos-guard": ("bot check", "<title>DDoS-Guard</title>", "<p>Checking your browser before accessing example.ru</p>"),
    "smart captcha": ("bot check", "<title>Вы не робот?</title>", "<p>Подтвердите, что запросы отправляли вы, а не робот</p><p>Нам очень жаль, но запросы с вашего устройства похожи на автоматические.</p>"),
    "denied": ("bot check", "<title>Access Denied</title>", "<h1>Access Denied</h1><p>You don't have permission to access \"http://example.org/\" on this server. Reference #18.2d1a</p>"),
    "ограничен": ("bot check", "<title>Доступ ограничен</title>", "<h1>Доступ к сайту временно ограничен</h1><p>С вашего IP-адреса зафиксирована подозрительная активность.</p>"),
    "google consent": ("consent", "<title>Before you continue to Search</title>", f"<p>Before you continue to Search</p><p>We use cookies and data to deliver and maintain services, track outages and protect against spam, fraud, and abuse, measure audience engagement and site statistics to understand how our services are used.</p><p>If you choose to Accept all, we will also use cookies and data to develop and improve new services, deliver and measure the effectiveness of ads, show personalized content, depending on your settings.</p><p>If you choose to Reject all, we will not use cookies for these additional purposes.</p><button>Accept all</button>{FOOT}"),
    "consent": ("consent", "<title>The Beacon</title>", f"<div><h2>We value your privacy</h2><p>We and our 842 partners store and/or access information on a device, such as cookies, and process personal data for personalised ads and content, ad and content measurement, and audience insights. With your permission we and our partners may use precise geolocation data.</p><p>You may change your choices or withdraw your consent at any time by clicking Manage preferences. Some partners do not ask for your consent but rely on their legitimate interest.</p><button>Accept all</button> <p>By clicking Accept all you consent to the use of all cookies.</p></div>{FOOT}"),
    "согласие": ("consent", "<title>Вестник</title>", "<p>Мы используем файлы cookie, чтобы сайт работал лучше. Продолжая пользоваться сайтом, вы соглашаетесь с обработкой персональных данных и политикой конфиденциальности.</p><button>Принять все</button>"),
    "age": ("consent", "<title>Подтвердите возраст</title>", "<p>Вам уже есть 18 лет?</p><button>Да</button><button>Нет</button>"),
    "login": ("login", "<title>Log in to The Beacon</title>", "<h1>Log in to continue</h1><form><input name=user><input type=password name=p><button>Log in</button></form><p>Forgot your password? Don't have an account? Sign up.</p>"),
    "вход": ("login", "<title>Вход | Форум</title>", "<form><p>Войдите на сайт, чтобы увидеть тему</p><input type=password></form><p>Забыли пароль? Нет аккаунта?</p>"),
    "members": ("login", "<title>Thread</title>", "<p>You must be logged in to view this content. Please log in or register.</p>"),
    "spa": ("script", "<title>App</title>", "<div id=root></div><noscript>You need to enable JavaScript to run this app.</noscript><script src=/main.js></script>"),
    "spa with footer": ("script", "<title>Личный кабинет</title>", f"<div id=app></div><div><p>Для работы сайта включите JavaScript в настройках браузера, а потом обновите страницу.</p></div>{FOOT}"),
    "shell": ("script", "<title>Shop</title>", "<div id=__next></div><div><p>Shop is the place for all you need at home, in the garden and on the road, every day of the week and at any time.</p></div>"),
    "soft 404": ("does not exist", "<title>Page not found - The Beacon</title>", f"<h1>Oops! That page can't be found.</h1><p>It looks like nothing was found at this location. Maybe try one of the links below or a search?</p>{FOOT}"),
    "404 with teasers": ("does not exist", "<title>404 | The Beacon</title>", "<h1>Page not found</h1><p>The page you are looking for does not exist.</p><h2>Popular now</h2>" + "".join(f"<p>Teaser {n} about the town and the sea and what the keeper said about the weather.</p>" for n in range(12))),
    "не найдена": ("does not exist", "<title>Ошибка 404: страница не найдена — Вестник</title>", f"<h1>Страница не найдена</h1><p>К сожалению, запрашиваемая вами страница не существует или была удалена.</p>{FOOT}"),
    "удалено": ("does not exist", "<title>Объявления</title>", "<h1>Объявление снято с публикации</h1><p>Это объявление снято с публикации. Посмотрите похожие.</p>"),
    "maintenance": ("error message", "<title>503 Service Temporarily Unavailable</title>", "<h1>The site is temporarily unavailable</h1><p>We are performing scheduled maintenance.</p>"),
    "работы": ("error message", "<title>Технические работы</title>", "<p>Сайт временно недоступен: ведутся технические работы. Зайдите позже.</p>"),
}  # fmt: skip


SHORT_WALLS = [
    ("bot check", "Robot Check", "Enter the characters you see below. Sorry, we just need to make sure you're not a robot."),
    ("bot check", "Bloomberg", "We've detected unusual activity from your computer network. To continue, please click the box below to let us know you're not a robot."),
    ("bot check", "example.org", "Request unsuccessful. Incapsula incident ID: 123-456"),
    ("bot check", "Making sure you're not a bot!", "Loading..."),
    ("script", "example.org", "Please enable JS and disable any ad blocker"),
    ("script", "App", "Loading…"),
    ("script", "Сервис", "Загрузка..."),
    ("script", "App", "We're sorry but app doesn't work properly without JavaScript enabled. Please enable it to continue."),
    ("login", "Sign In", "Sign in to view more content. Create your free account or sign in to continue your search."),
    ("login", "Группа", "Чтобы просматривать эту страницу, нужно зайти на сайт."),
    ("does not exist", "Instagram", "Sorry, this page isn't available. The link you followed may be broken, or the page may have been removed."),
    ("does not exist", "404 Not Found", "The requested URL was not found on this server. Apache/2.4.41 (Ubuntu) Server at example.org Port 80"),
    ("does not exist", "Сайт", "Кажется, что-то пошло не так! Страница, которую вы запрашиваете, не существует. Возможно, она устарела, была удалена, или был введён неверный адрес."),
    ("error message", "Welcome to nginx!", "If you see this page, the nginx web server is successfully installed and working. Further configuration is required."),
    ("not shown in this country", "451: Unavailable due to legal reasons", "We recognize you are attempting to access this website from a country belonging to the European Economic Area and therefore cannot grant you access at this time."),
    ("ad blockers", "Вестник", "Пожалуйста, отключите блокировщик рекламы, чтобы продолжить чтение."),
]  # fmt: skip


@pytest.mark.parametrize(("said", "title", "words"), SHORT_WALLS)
def test_a_few_words_in_place_of_content_are_refused(said: str, title: str, words: str) -> None:
    with pytest.raises(NoUsableText) as caught:
        read(f"<div><p>{words}</p></div><script src=x.js></script>", f"<title>{title}</title>")
    assert said in caught.value.message


@pytest.mark.parametrize("name", WALLS)
def test_a_page_that_is_no_content_is_refused_and_named(name: str) -> None:
    said, head, body = WALLS[name]
    with pytest.raises(NoUsableText) as caught:
        read(body, head)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("title", "words"),
    [
        (
            "What a cookie wall is",
            "We use cookies and our partners do too: so begin most sites. If you accept all, you consent to the use of your data. ",
        ),
        (
            "Page not found: a history of 404",
            "The page was not found, said the first server that ever answered error 404 to a reader. ",
        ),
        ("Как работает капча", "Сайт просит: подтвердите, что вы не робот, и проверка браузера начинается заново. "),
        (
            "How to enable JavaScript",
            "You need to enable JavaScript in the settings of your browser, and to reload the page. ",
        ),
        (
            "Access denied: censorship today",
            "Access to this page has been denied, the reader sees, and you have been blocked. ",
        ),
        ("Log in", "You must log in to continue, says the door, and the keeper logs in with his password. "),
    ],
)
def test_an_article_about_walls_is_an_article(title: str, words: str) -> None:
    document = read(
        f"<article><h1>{title}</h1>" + "".join(f"<p>{n}. {words * 5}{LONG}</p>" for n in range(5)) + "</article>",
        f"<title>{title} - The Beacon</title>",
    )
    assert words.strip() in document.text


def test_a_short_page_is_content() -> None:
    assert read(
        f"<h1>Opening hours</h1><p>{LONG[:190]}</p><form><input type=password></form><p>We found the bell.</p>"
        + "<a href=/>Menu of the site</a>" * 100
    )


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ('<script type="application/ld+json">{"@type":"NewsArticle","headline":"Bell","isAccessibleForFree":false,"hasPart":{"@type":"WebPageElement","isAccessibleForFree":"False","cssSelector":".paywall"}}</script>', ""),
        ('<script type="application/ld+json">{"@type":"NewsArticle","headline":"Bell","isAccessibleForFree":"http://schema.org/False"}</script>', ""),
        ('<meta property="article:content_tier" content="locked">', ""),
        ("", "<div class=pay><p>Subscribe to continue reading</p></div>"),
        ("", "<div><b>This article is for subscribers only.</b> <a>See offers</a></div>"),
        ("", "<div>To Read the Full Story, Subscribe or Sign In</div>"),
        ("", "<div><p>Материал доступен только подписчикам</p></div>"),
        ("", "<div>You’ve reached your limit of free articles this month.</div>"),
        ("", "<div><p>Подпишитесь, чтобы читать дальше</p></div>"),
        ("", "<aside>Полный текст статьи доступен по подписке</aside>"),
        ("", "<div>Чтобы прочитать целиком, купите подписку</div>"),
    ],
)  # fmt: skip
def test_what_a_paywall_lets_through_is_kept_and_marked(head: str, tail: str) -> None:
    document = read(f"<article><h1>Bell</h1><p>{LONG}</p></article>{tail}", head)
    assert LONG.strip() in document.text
    assert document.metadata["access"] == "paywall"
    assert any("paywall" in warning for warning in document.warnings)


def test_a_paywall_without_a_teaser_is_refused_and_free_pages_are_not_marked() -> None:
    with pytest.raises(NoUsableText, match="paywall"):
        read(
            "<h1>Bell</h1><p>To continue reading, please subscribe.</p><p>From 1 euro a month.</p>",
            "<title>Bell</title>",
        )
    free = '<script type="application/ld+json">{"@type":"NewsArticle","headline":"Bell","isAccessibleForFree":true}</script>'
    assert "access" not in article("<p>Subscribe to our newsletter.</p>", free).metadata
    whole = "".join(f"<p>{n}. {LONG}</p>" for n in range(12)) + "<p>Subscribe to continue reading</p>"
    assert "access" not in read(f"<article>{whole}</article>").metadata


def test_an_empty_page_and_a_page_of_pictures() -> None:
    for body in ("", "<img src=a.jpg>", "<script>x()</script>", "<div id=root></div>", "<p> </p>", "<!-- nothing -->"):
        with pytest.raises(NoUsableText):
            read(body)
    with pytest.raises(NoUsableText):
        read_text("<html>", DocumentKind.WEB)
