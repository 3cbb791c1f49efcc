"""What `overlord doctor` and `overlord top` say of the hosts of a job."""

from __future__ import annotations

import io
from typing import Any

import pytest
from overlord._src.checkup.hosts import host_findings
from overlord._src.checkup.node import check_memory_group
from overlord._src.config.runtime_models import RuntimeConfig
from overlord._src.node.memory_group import GroupTree
from overlord.cli.top_view import host_table
from rich.console import Console

SPARE = "spare cores of hosts with ranks come first: 4 cores, loaders can use 6 cores"


def host(name: str, groups: int, **more: Any) -> dict[str, Any]:
    gives = {"cores": 4, "memory_bytes": 0, "memory_enforced": False, "lacks": [], "leads_at": ""}
    gives |= more.pop("gives", {})
    found = {"name": name, "ranks": not name, "gives": gives, "groups": groups, "lost": False}
    return {**found, **more}


def told(*hosts: dict[str, Any], groups: int = 3) -> dict[str, tuple[str, str]]:
    """Verdict and text by host, of a job whose lead has all loaders."""
    processes = [{"name": f"loaders-{n}", "host": "", "why": SPARE} for n in range(groups)]
    processes.append({"name": "constructors-0", "host": "", "why": ""})
    decoding = [{"source": "pairs", "packs": True, "why": "few bytes"}]
    status = {"job": "mix", "serving": True, "processes": processes, "hosts": list(hosts)}
    status |= {"term": 3, "decoding": decoding}
    return {item.what: (item.verdict, item.detail) for item in host_findings(status)}


def test_what_lives_where_and_why() -> None:
    found = told(host("", 3), host("joined-a@1", 0))
    verdict, text = found["job mix: lead"]
    assert verdict == "ok"
    assert "gives 4 cores; loaders-0, loaders-1, loaders-2: " + SPARE in text
    assert "constructors" not in text
    verdict, text = found["job mix: joined-a@1"]
    assert verdict == "warn"
    assert f"no ranks; no loaders: {SPARE}" in text


def test_who_decodes_and_why() -> None:
    found = told(host("", 3), host("joined-a@1", 0))
    assert found["job mix: media"] == ("ok", "pairs: constructors decode: few bytes")


def test_what_a_host_lacks() -> None:
    found = told(host("", 3), host("joined-a@1", 0, gives={"lacks": ["web"]}))
    assert "lacks" not in found["job mix: lead"][1]
    assert "no ranks, lacks files of web" in found["job mix: joined-a@1"][1]


def test_more_hosts_than_groups() -> None:
    verdict, text = told(host("", 1), host("joined-a@1", 0), groups=1)["job mix: joined-a@1"]
    assert verdict == "warn"
    assert "1 groups for 2 hosts, raise runtime.processes.loaders" in text


def test_a_lost_host() -> None:
    verdict, text = told(host("", 3), host("joined-a@1", 0, lost=True))["job mix: joined-a@1"]
    assert verdict == "warn"
    assert text.startswith("lost: ")


def test_who_leads_and_who_may_take_over() -> None:
    lead = host("", 3, gives={"leads_at": "a:7400"}, ranks=False)
    other = host("joined-b@1", 1, gives={"leads_at": "b:7400"})
    found = told(lead, other)
    assert "leads at a:7400 in term 3; " in found["job mix: lead"][1]
    assert "may take the lead over at b:7400" in found["job mix: joined-b@1"][1]
    verdict, text = told(lead, {**other, "lost": True})["job mix: lead"]
    assert verdict == "warn"
    assert "no other host stands by to take over" in text


def test_top_shows_who_leads_and_who_takes_over() -> None:
    lead = host("", 3, gives={"leads_at": "a:7400"}, ranks=False)
    other = host("joined-b@1", 1, gives={"leads_at": "b:7400"})

    def shown(*hosts: dict[str, Any]) -> str:
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(host_table(hosts))
        return console.export_text()

    text = shown(lead, other, host("joined-c@1", 1))
    assert "leads at a:7400" in text
    assert "takes over at b:7400" in text
    assert "the lead" not in shown(host("", 3), host("joined-c@1", 1))


@pytest.mark.parametrize(("enforced", "verdict"), [(True, "ok"), (False, "warn")])
def test_who_keeps_to_its_memory(enforced: bool, verdict: str) -> None:
    gives = {"memory_bytes": 2 << 30, "memory_enforced": enforced}
    found, text = told(host("", 2), host("joined-a@1", 1, gives=gives))["job mix: joined-a@1"]
    assert found == verdict
    assert "kept by " + ("a control group" if enforced else "budgets alone") in text


def test_a_share_that_would_not_be_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupTree, "obstacle", lambda self: "not delegated")
    assert check_memory_group(RuntimeConfig()) == []
    runtime = RuntimeConfig.model_validate(
        {"processes": {"memory_share": 0.5}, "wire": {"planner": "a:1", "joinable": True}}
    )
    (found,) = check_memory_group(runtime)
    assert found.verdict == "warn"
    assert "budgets alone: not delegated" in found.detail
    monkeypatch.setattr(GroupTree, "obstacle", lambda self: "")
    (found,) = check_memory_group(runtime)
    assert found.verdict == "ok"
