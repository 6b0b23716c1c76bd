r"""Statements of sessions with other modes of SQL."""

from __future__ import annotations

import pytest

from changefeed.mysql.ddl.modes import cuts_other_fractions, without_modes
from changefeed.mysql.ddl.tokens import Tokens

REAL, ANSI, NO_BACKSLASH = 1, 4, 1 << 20


@pytest.mark.parametrize(
    "modes, text, plain",
    [
        (0, r"""'a\'b' "x" REAL""", r"""'a\'b' "x" REAL"""),
        (None, "REAL", "REAL"),
        (NO_BACKSLASH, r"'a\b' '\' 'it''s'", r"'a\\b' '\\' 'it''s'"),
        (NO_BACKSLASH, r"""_utf8'\' N'\' "\" `\` -- '\' """, r"""_utf8'\\' N'\\' "\\" `\` -- '\' """),
        (NO_BACKSLASH, "/* it's \\ */ '\\' /*!40101 '\\' */ # '\\", "/* it's \\ */ '\\\\' /*!40101 '\\\\' */ # '\\"),
        (ANSI, '"a""b`c" DEFAULT \'say "x"\'', '`a"b``c` DEFAULT \'say "x"\''),
        (ANSI, r""""a\" 'it\'s "' "b" """, r"""`a\` 'it\'s "' `b` """),
        (ANSI | NO_BACKSLASH, r""""a\" '\' "b" """, r"""`a\` '\\' `b` """),
        (REAL, "ADD a real, ADD `real` REAL(7,3) DEFAULT 'REAL', b AS (t.real + @REAL + REALM)",
         "ADD a FLOAT, ADD `real` FLOAT(7,3) DEFAULT 'REAL', b AS (t.real + @REAL + REALM)"),
        (REAL, "'not closed REAL", "'not closed FLOAT"),
    ],
)  # fmt: skip
def test_a_statement_without_the_modes_of_its_session(modes: int | None, text: str, plain: str) -> None:
    assert without_modes(text, modes) == plain


def test_texts_have_the_value_that_the_server_reads() -> None:
    tokens = Tokens(without_modes(r"'a\tb' '\' 'c'", NO_BACKSLASH))
    assert [tokens.take().value for _ in range(3)] == [r"a\tb", "\\", "c"]


def test_a_session_that_cuts_or_rounds_unlike_its_server() -> None:
    assert cuts_other_fractions(1 << 32, "mysql")
    assert cuts_other_fractions(1 << 34, "mariadb")
    assert not cuts_other_fractions(1 << 34, "mysql")
    assert not cuts_other_fractions(None, "mariadb")
