"""Alert rules and dashboard: of metrics that there are, and alerts that fire when they should and not otherwise."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from changefeed.pipeline.monitoring.metrics import METRICS
from tests.deploy.files import RULES
from tests.services.database import needed

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "changefeed.json"
GUIDE = DEPLOY.parent / "docs" / "guides" / "monitoring.md"

SHOWN = {metric.shown: metric for metric in METRICS}
RUN = '{pipeline="p"}'


def _rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def _metrics(expression: str) -> set[str]:
    return set(re.findall(r"\bcdc_[a-z_]+", expression))


def test_alerts_are_of_metrics_that_there_are_and_are_in_the_guide() -> None:
    guide = GUIDE.read_text()
    for rule in _rules():
        assert _metrics(rule["expr"]) <= SHOWN.keys()
        assert rule["annotations"].keys() == {"summary", "action"}
        assert f"`{rule['alert']}`" in guide


def test_the_dashboard_shows_every_metric_except_details() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    shown = set[str]()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            used = _metrics(target["expr"])
            assert used <= SHOWN.keys()
            shown |= used
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"pipeline"}
            assert all(labels <= set(SHOWN[name].labels) for name in used)
    details = {
        "cdc_run_info",
        "cdc_run_started_timestamp_seconds",
        "cdc_tables",
        "cdc_records_read_total",
        "cdc_data_files_total",
    }
    assert shown == SHOWN.keys() - details
    places = [tuple(panel["gridPos"][name] for name in "xy") for panel in dashboard["panels"]]
    assert len({*places}) == len(places)
    assert [panel["id"] for panel in dashboard["panels"]] == [*range(1, len(places) + 1)]


def test_promtool_accepts_the_rules() -> None:
    needed("promtool", "prometheus")
    checked = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr


HEALTHY = {
    'up{job="changefeed"}': "1x30", f"cdc_source_up{RUN}": "1x30", f"cdc_held_seconds{RUN}": "0x30",
    'cdc_holders{kind="table", pipeline="p"}': "0x30", f"cdc_applied_lag_seconds{RUN}": "2x30",
    f"cdc_behind_records{RUN}": "50x30", f"cdc_steps_total{RUN}": "0+60x30", f"cdc_retries_total{RUN}": "0x30",
    f"cdc_waiting_dead_letters{RUN}": "0x30", f"cdc_behind_bytes{RUN}": "_x30",
}  # fmt: skip

CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "healthy": ({}, set()),
    "idle": ({f"cdc_behind_records{RUN}": "0x30", f"cdc_steps_total{RUN}": "5x30",
              f"cdc_applied_lag_seconds{RUN}": "2+60x30"}, set()),
    "down": ({'up{job="changefeed"}': "0x30"}, {"ChangefeedDown"}),
    "the brokers are gone": (
        {f"cdc_source_up{RUN}": "0x30", f"cdc_steps_total{RUN}": "9x30"}, {"ChangefeedSourceDown"},
    ),
    "a partition is silent": ({f"cdc_held_seconds{RUN}": "0+60x30", f"cdc_behind_records{RUN}": "0x30",
                               f"cdc_applied_lag_seconds{RUN}": "2+60x30"}, {"ChangefeedCutHeld"}),
    "a table is held": ({'cdc_holders{kind="table", pipeline="p"}': "1x30"}, {"ChangefeedTableHeld"}),
    "too slow": ({f"cdc_applied_lag_seconds{RUN}": "0+60x30"}, {"ChangefeedBehind"}),
    "stuck in a log": ({f"cdc_steps_total{RUN}": "9x30", f"cdc_behind_records{RUN}": "_x30",
                        f"cdc_behind_bytes{RUN}": "4096x30"}, {"ChangefeedNoSteps"}),
    "stuck": ({f"cdc_steps_total{RUN}": "9x30"}, {"ChangefeedNoSteps"}),
    "the storage fails": ({f"cdc_retries_total{RUN}": "0+1x30"}, {"ChangefeedRetries"}),
    "a record cannot be decoded": ({f"cdc_waiting_dead_letters{RUN}": "3x30"}, {"ChangefeedDeadLetters"}),
    "a broker was away for half a minute": ({f"cdc_source_up{RUN}": "1x28 0 1 1"}, set()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_alert_fires_when_it_should_and_no_other(case: str, tmp_path: Path) -> None:
    needed("promtool", "prometheus")
    changed, firing = CASES[case]
    assert changed.keys() <= HEALTHY.keys()
    series = [{"series": name, "values": values if set("+ _") & set(values) else values.replace("x", "+0x")}
              for name, values in (HEALTHY | changed).items()]  # fmt: skip
    labels = {rule["alert"]: rule["labels"] for rule in _rules()}
    # whether it fires is looked up by the series ALERTS, so that values in the texts do not matter
    expected = [
        {"expr": f'ALERTS{{alertname="{name}", alertstate="firing"}} * 0 or vector(1)', "eval_time": "30m",
         "exp_samples": _samples(name, labels[name], name in firing)}
        for name in labels
    ]  # fmt: skip
    tests = {"rule_files": [str(RULES)], "evaluation_interval": "1m",
             "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": expected}]}  # fmt: skip
    file = tmp_path / "test.yml"
    file.write_text(json.dumps(tests))
    tested = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert tested.returncode == 0, tested.stderr + tested.stdout


def _samples(name: str, labels: dict[str, str], fires: bool) -> list[dict[str, Any]]:
    """The value of `ALERTS * 0 or vector(1)`: the alert's series with 0 if it fires, and in any case the vector."""
    if not fires:
        return [{"labels": "{}", "value": 1}]
    own = {"ChangefeedDown": {"job": "changefeed"}, "ChangefeedTableHeld": {"kind": "table", "pipeline": "p"}}
    shown = {"alertname": name, "alertstate": "firing", **labels, **own.get(name, {"pipeline": "p"})}
    text = ", ".join(f'{key}="{value}"' for key, value in sorted(shown.items()))
    return [{"labels": f"{{{text}}}", "value": 0}, {"labels": "{}", "value": 1}]
