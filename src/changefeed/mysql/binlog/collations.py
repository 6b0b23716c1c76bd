"""Collation ids of MySQL and MariaDB: the character set of each, and the bytes of its longest character.

Table maps and query events name a character set by the id of a collation. The ranges are those of
`information_schema.collations` of MySQL 8.0 and 9.7, and of `collation_character_set_applicability` of MariaDB 10.11 and 11.8.
The two servers agree wherever both define an id. MariaDB adds 1024 to an id for its variant without padding.
"""

from __future__ import annotations

from changefeed.mysql import charsets

BINARY_ID = 63

# Character set -> bytes of its longest character, and ids: single ones, and first and last of a range.
_IDS: dict[str, tuple[int, tuple[int | tuple[int, int], ...]]] = {
    "big5": (2, (1, 84, 1025, 1108)),
    "latin2": (1, (2, 9, 21, 27, 77, 1033, 1101)),
    "dec8": (1, (3, 69, 1027, 1093)),
    "cp850": (1, (4, 80, 1028, 1104)),
    "latin1": (1, (5, 8, 15, 31, (47, 49), 94, 1032, 1071)),
    "hp8": (1, (6, 72, 1030, 1096)),
    "koi8r": (1, (7, 74, 1031, 1098)),
    "swe7": (1, (10, 82, 1034, 1106)),
    "ascii": (1, (11, 65, 1035, 1089)),
    "ujis": (3, (12, 91, 1036, 1115)),
    "sjis": (2, (13, 88, 1037, 1112)),
    "cp1251": (1, (14, 23, (50, 52), 1074, 1075)),
    "hebrew": (1, (16, 71, 1040, 1095)),
    "tis620": (1, (18, 89, 1042, 1113)),
    "euckr": (2, (19, 85, 1043, 1109)),
    "latin7": (1, (20, 41, 42, 79, 1065, 1103)),
    "koi8u": (1, (22, 75, 1046, 1099)),
    "gb2312": (2, (24, 86, 1048, 1110)),
    "greek": (1, (25, 70, 1049, 1094)),
    "cp1250": (1, (26, 34, 44, 66, 99, 1050, 1090)),
    "gbk": (2, (28, 87, 1052, 1111)),
    "cp1257": (1, (29, 58, 59, 1082, 1083)),
    "latin5": (1, (30, 78, 1054, 1102)),
    "armscii8": (1, (32, 64, 1056, 1088)),
    "utf8mb3": (3, (33, 76, 83, (192, 223), (576, 579), 1057, 1107, (1216, 1238), (2048, 2247))),
    "ucs2": (2, (35, 90, (128, 159), (640, 642), 1059, 1114, (1152, 1174), (2560, 2759))),
    "cp866": (1, (36, 68, 1060, 1092)),
    "keybcs2": (1, (37, 73, 1061, 1097)),
    "macce": (1, (38, 43, 1062, 1067)),
    "macroman": (1, (39, 53, 1063, 1077)),
    "cp852": (1, (40, 81, 1064, 1105)),
    "utf8mb4": (4, (45, 46, (224, 247), (255, 323), (608, 611), 1069, 1070, (1248, 1270), (2304, 2503))),
    "utf16": (4, (54, 55, (101, 124), (672, 674), 1078, 1079, (1125, 1147), (2816, 3015))),
    "utf16le": (4, (56, 62, 1080, 1086)),
    "cp1256": (1, (57, 67, 1081, 1091)),
    "utf32": (4, (60, 61, (160, 183), (736, 738), 1084, 1085, (1184, 1206), (3072, 3271))),
    charsets.BINARY: (1, (BINARY_ID,)),
    "geostd8": (1, (92, 93, 1116, 1117)),
    "cp932": (2, (95, 96, 1119, 1120)),
    "eucjpms": (3, (97, 98, 1121, 1122)),
    "gb18030": (4, ((248, 250),)),
}
CHARSETS = frozenset(_IDS)
"""The names of all character sets."""
_CHARSETS = {
    number: charset
    for charset, (_, ids) in _IDS.items()
    for entry in ids
    for number in (range(entry[0], entry[1] + 1) if isinstance(entry, tuple) else (entry,))
}


def charset(collation: int) -> str | None:
    """The character set of a collation id; None if the id is unknown."""
    return _CHARSETS.get(collation)


def longest(name: str) -> int:
    """Number of bytes of the longest character of a character set that `charset` returns."""
    return _IDS[name][0]
