r"""The canonical text of events, one JSON object per line: the output of `decode --json` and the input of `encode`.

    {"kind":"shape","shape":"1f…","database":"shop","table":"orders","columns":[…],"wire":…}
    {"kind":"row","op":"insert","database":"shop","table":"orders","shape":"1f…","keys":["id"],"before":null,"after":{…},…}
    {"kind":"schema","type":"add_column",…}
    {"kind":"resolved","commit_ts":463267589883154927,…}

Rule 1. `lines(parse(text)) == text` for every text that `lines` has written: the text contains everything that the
        protocol sent, and `encode` writes the same bytes from the text as from the columns.
Rule 2. The keys of a line have a fixed order for each kind; there are no spaces, and numbers are as Python prints them.
Rule 3. A shape line comes before the first row that names it. Images have the columns that their row carries, so one
        shape line serves rows with full and with partial images. The `keys` of a row are in the order of the key.
Rule 4. A value that its type cannot hold is `null` in the image and kept in `irregular`: bytes, shown as UTF-8; a byte that
        is not UTF-8 is shown as `\udc80` … `\udcff`.
Rule 5. Text written by hand may leave out unknown details, and the shape: types are then inferred from the values.
"""

from changefeed.model.text.describe import describe
from changefeed.model.text.read import parse
from changefeed.model.text.write import event_line, lines

__all__ = ["describe", "event_line", "lines", "parse"]
