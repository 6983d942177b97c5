"""The JSON lines that every `zonda-load` command prints (LOAD-CONTRACT.md)."""

import json
from typing import Any

from zonda_lab.errors import LabError
from zonda_lab.load.latency_histogram import LatencyHistogram
from zonda_lab.load.result import LoadResult


def events(output: str) -> list[dict[str, Any]]:
    """The JSON objects printed so far; ignores an incomplete last line."""
    return [json.loads(line) for line in output[: output.rfind("\n") + 1].splitlines() if line.startswith("{")]


def read_summary(output: str) -> LoadResult:
    """The `stats_sum` object of any `zonda-load` command."""
    sums = [found for found in events(output) if found.get("type") == "stats_sum"]
    if not sums:
        raise LabError(
            "the load generator printed no result", detail=f"its output ends: {output[-400:].strip() or '(empty)'}"
        )
    total, own = sums[-1], sums[-1].get("zonda", {})
    connections = total.get("conn_info", {})
    handshake = connections.get("conn_latency", {}).get("handshake", {})
    headers = [found.get("zonda", {}) for found in events(output) if found.get("type") == "header"]
    intended = own.get("latency_intended", "")
    return LoadResult(
        sent=total.get("queries", 0),
        answered=own.get("responses_in_window", total.get("responses", 0)),
        late_answers=own.get("responses_after_window", 0),
        busy=own.get("busy"),
        receive_drops=own.get("receive_drops", 0),
        sending=headers[0].get("sending", {}) if headers else {},
        timeouts=total.get("timeouts", 0),
        seconds=(total["until"] - total["since"]) / 1e9,
        scheduled=own.get("scheduled"),
        missed=own.get("missed"),
        wrong=own.get("wrong", 0),
        wrong_examples=own.get("wrong_examples", []),
        rcodes=total.get("response_rcodes", {}),
        latency_mean_us=LatencyHistogram(intended).mean if intended else None,
        latency_intended=intended,
        latency_actual=own.get("latency_actual", ""),
        schedule_error_p99_us=own["schedule_error"]["p99"] / 1000 if "schedule_error" in own else None,
        connect_mean_us=handshake["avg"] / 1000 if handshake else None,
        handshakes=connections.get("handshakes", 0),
        invalid=own.get("invalid_because", []),
        more=own,
    )
