"""A web page over ledgers, heartbeats and dead letters: `changefeed monitor`.

Rule 1. **Everything comes from files** in the pipelines' folders, as for `changefeed status`. No run has to be alive, no source
        is asked, Spark is not started.
Rule 2. **A page and its `.json` twin have one content**: a function of `views.py` returns it as plain values, a template shows
        these, and the twin is their JSON.
Rule 3. **A request reads what it shows.** Entries and pages of a ledger never change, so what was read of them is kept. A ledger
        with 100 000 steps costs as much as one with a hundred.
Rule 4. **A pipeline that cannot be read shows its error**; the others are shown as if it were not there.
Rule 5. **Texts from outside are escaped** by the templates, secrets are redacted, and the browser runs no script and no style
        but the two files of `static`.

`finding.py` lists the pipelines, `reading.py` reads one of them and `steps.py` its steps, `views.py` has the contents of the
pages, `charts.py` and `dumps.py` draw them, `security.py` decides who may see them, `app.py` answers requests, `serving.py`
opens the port.
"""
