"""Prometheus' own tool takes the rules and the scraping job, and its engine evaluates them as is meant."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.house.tree import ROOT

MONITORING = ROOT / "packaging" / "monitoring"
TABLE = next(
    panel for panel in json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"] if panel["id"] == 38
)
NEWER = 'digest="b",version="0.2.0"'
SERIES = {
    'up{job="cri-proxy",instance="worker-1"}': "1x30",
    'up{job="cri-proxy",instance="worker-2"}': "0x30",
    'up{job="scrapeConfig/kube-system/cri-proxy",instance="worker-3"}': "1x9 0x20",
    'up{job="kubelet",instance="worker-1"}': "0x30",
    'cri_proxy_ready{job="cri-proxy",instance="worker-1"}': "1x30",
    'cri_proxy_ready{job="scrapeConfig/kube-system/cri-proxy",instance="worker-3"}': "1x9 stale",
    'cri_proxy_config_info{job="cri-proxy",instance="worker-1",digest="a",version="0.1.0"}': "1x30",
    f'cri_proxy_config_info{{job="cri-proxy",instance="worker-2",{NEWER}}}': "1x30",
    f'cri_proxy_config_info{{job="cri-proxy",instance="worker-3",{NEWER}}}': "1x30",
}


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        reason = "promtool is not installed (apt install prometheus)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return str(found)


def passes(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_rules_of_prometheus(promtool: str) -> None:
    assert "SUCCESS" in passes(promtool, "check", "rules", "--lint-fatal", f"{MONITORING}/alerts.yaml")


def test_the_job_scrapes_our_port_of_each_node_under_its_name(promtool: str, tmp_path: Path) -> None:
    """Debian's tool is built without discovery by Kubernetes: a fixed target has the labels that this would give it."""
    config = yaml.safe_load((MONITORING / "scrape-config.yaml").read_text())
    (job,) = config["scrape_configs"]
    assert job.pop("kubernetes_sd_configs") == [{"role": "node"}]
    node = {"address_InternalIP": "10.0.0.7", "name": "worker-1", "label_cri_proxy_io_group": "realtime"}
    found = {f"__meta_kubernetes_node_{name}": value for name, value in node.items()}
    job["static_configs"] = [{"targets": ["10.0.0.7:10250"], "labels": found}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    passes(promtool, "check", "config", "--syntax-only", f"{tmp_path}/prometheus.yml")
    for name in ("ca_file", "credentials_file"):
        (tmp_path / name).touch()
    job["tls_config"], job["authorization"] = {"ca_file": "ca_file"}, {"credentials_file": "credentials_file"}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    said = passes(promtool, "check", "service-discovery", "--timeout=1s", f"{tmp_path}/prometheus.yml", "cri-proxy")
    (target,) = json.loads(said)
    labels = target["labels"]
    assert (labels["__address__"], labels["__scheme__"]) == ("10.0.0.7:8891", "https")
    assert (labels["instance"], labels["group"], labels["job"]) == ("worker-1", "realtime", "cri-proxy")


def test_the_operator_finds_the_same_targets() -> None:
    job = yaml.safe_load((MONITORING / "scrape-config.yaml").read_text())["scrape_configs"][0]
    by_nodes, by_pods = yaml.safe_load_all((MONITORING / "prometheus-operator.yaml").read_text())
    spelled = [{_camel(key): value for key, value in each.items()} for each in job["relabel_configs"]]
    assert by_nodes["spec"]["relabelings"] == spelled
    agent = yaml.safe_load((MONITORING.parent / "kubernetes" / "config-agent" / "daemonset.yaml").read_text())
    chosen = by_pods["spec"]["selector"]["matchLabels"].items()
    assert chosen <= agent["spec"]["template"]["metadata"]["labels"].items()


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(word.capitalize() for word in others)


def test_a_daemon_that_does_not_answer_is_an_alert_and_the_table_says_who_is_alone(
    promtool: str, tmp_path: Path
) -> None:
    """Of jobs with our name alone, whoever made them; of configurations the number of nodes that have each."""
    asked = {target["refId"]: target["expr"].replace("$instance", ".*") for target in TABLE["targets"]}
    labels = 'job="cri-proxy", instance="worker-{}", digest="{}", version="{}"'
    counts = [("1", "a", "0.1.0", 1), ("2", "b", "0.2.0", 2), ("3", "b", "0.2.0", 2)]
    down = ["worker-2", "worker-3"]
    firing = 'count by (instance) (ALERTS{alertname="CriProxyDown",alertstate="firing"})'
    expected = [
        (firing, time, [(f'{{instance="{name}"}}', 1) for name in down[:many]])
        for time, many in (("4m", 0), ("6m", 1), ("12m", 1), ("20m", 2))
    ]
    each_node = [(f"{{{labels.format(*count[:3])}}}", count[3]) for count in counts]
    expected.append((asked["alike"], "5m", each_node))
    third = 'job="scrapeConfig/kube-system/cri-proxy", instance="worker-3"'
    ready = [
        ('cri_proxy_ready{job="cri-proxy", instance="worker-1"}', 1),
        ('up{job="cri-proxy", instance="worker-2"}', 0),
    ]
    expected.append((asked["ready"], "5m", [*ready, (f"cri_proxy_ready{{{third}}}", 1)]))
    expected.append((asked["ready"], "12m", [*ready, (f"up{{{third}}}", 0)]))
    question = {
        "rule_files": [f"{MONITORING}/alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values} for series, values in SERIES.items()],
                "promql_expr_test": [_asked(*each) for each in expected],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(question))
    passes(promtool, "test", "rules", f"{tmp_path}/test.yaml")


def _asked(expression: str, time: str, samples: list[tuple[str, int]]) -> dict[str, object]:
    found = [{"labels": labels, "value": value} for labels, value in samples]
    return {"expr": expression, "eval_time": time, "exp_samples": found}
