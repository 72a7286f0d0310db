"""Words that stand for each other: the only ones that may replace one another between copies."""

from __future__ import annotations

SYNONYMS = """
погибших жертв | заявил сообщил объявил заявила сообщила объявила | россия россии россиян рф | китай китае кнр |
германия фрг | сша америка | глава главы главе главу главой руководитель | автомобиль машина авто |
профессор проф | выбрали избрали выбран избран | взял взяла получил получила завоевал завоевала | врачи медики |
ребенок дети детей детям | полиция полицейские | купил купила купили приобрел приобрела приобрели | продажа торговля |
страница страничка | расстреляли застрелили расстреляны застрелены | возрожден возродили | смерть гибель |
метро подземка | стройка строительство | увеличился вырос возрос повысился |
увеличилась выросла возросла повысилась | увеличил повысил увеличила повысила увеличили повысили |
снизил понизил уменьшил сократил снизила понизила уменьшила сократила снизили понизили уменьшили сократили |
снизился понизился уменьшился сократился снизилась понизилась уменьшилась сократилась |
нашел нашла нашли обнаружил обнаружила обнаружили | найден обнаружен найдена обнаружена найдены обнаружены |
скончался скончалась умер умерла | использование применение | использует применяет |
закончил завершил закончили завершили | закончился завершился закончилась завершилась |
запретил запретила запретили | разрешил позволил разрешили позволили | пожар возгорание | самолет авиалайнер |
мэр градоначальник | ввоз импорт | вывоз экспорт | цена стоимость | сотрудник работник | авария дтп |
школьник ученик | выдворил депортировал | выдворили депортировали | затопило залило | сообщник подельник |
премьер премьер-министр | начался стартовал началась стартовала | вертолет геликоптер | здание строение |
отправил направил отправили направили | помощник ассистент | попросил попросили просит просят |
make produce | makes produces | made produced | acquire purchase buy | acquires purchases buys |
acquired purchased bought | use employ utilize | uses employs utilizes | used employed utilized | show demonstrate |
shows demonstrates | showed demonstrated | begin start commence | begins starts commences | began started commenced |
end finish | ends finishes | ended finished | car automobile | film movie | people persons | help assist |
helps assists | helped assisted | rise increase grow | rises increases grows | rose increased grew |
decrease decline | decreases declines | decreased declined | centre center | colour color | theatre theater |
fibre fiber | harbour harbor | honour honor | favour favor | labour labor | grey gray | though although |
located situated | founded established | buried interred | sick ill | stressed emphasized | ruled governed |
allegedly supposedly | commonly frequently | attempted tried | rapidly quickly | error mistake | children kids |
programme program | defence defense | catalogue catalog | jewellery jewelry | travelled traveled |
travelling traveling | cancelled canceled | doctor dr | professor prof
"""
"""Groups of words of one sense and one tense; a Russian word stands for all its inflections."""
