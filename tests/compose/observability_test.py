"""The profile `observability` of docker/compose.yaml: a real Prometheus, and what the dashboards ask it."""

import glob
import json
import os
import sys
import urllib.parse

from cluster import Cluster
from engine import ROOT, eventually

GET = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


class ObservabilityTest(Cluster):
    prometheus = None  # set by run.py: an image

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.compose(
            *("--profile", "observability", "up", "--detach", "prometheus"),
            environment={"PROMETHEUS_IMAGE": cls.prometheus},
        )

    def ask(self, path, **parameters):
        url = f"http://127.0.0.1:9090/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        answer = self.engine.run_inside([sys.executable, "-c", GET, url], check=False)
        return json.loads(answer.stdout)["data"] if answer.returncode == 0 else None

    def test_every_service_is_scraped(self):
        def scraped():
            targets = (self.ask("targets") or {}).get("activeTargets", [])
            return [target["labels"]["job"] for target in targets if target["health"] == "up"]

        eventually(
            lambda: sorted(scraped()) == ["lockstep-controller"] + ["lockstep-worker"] * 4,
            lambda: f"the controller and four workers are scraped, not {scraped()}",
        )

    def test_every_query_of_every_panel_has_data(self):
        queries = {
            target["expr"]: panel["title"]
            for path in glob.glob(os.path.join(ROOT, "docker/observability/dashboards/*.json"))
            for panel in json.load(open(path, encoding="utf-8"))["panels"]
            for target in panel["targets"]
        }
        self.assertGreater(len(queries), 10)

        def without_data():
            self.digits()
            return {
                query: title
                for query, title in queries.items()
                if not (self.ask("query", query=query) or {}).get("result")
            }

        eventually(lambda: not without_data(), lambda: f"every panel has data; these have none: {without_data()}")

    def test_every_panel_says_what_it_answers(self):
        for path in glob.glob(os.path.join(ROOT, "docker/observability/dashboards/*.json")):
            dashboard = json.load(open(path, encoding="utf-8"))
            for panel in dashboard["panels"]:
                self.assertTrue(panel["title"].endswith("?"), panel["title"])
                self.assertTrue(panel["description"].endswith("."), panel["title"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
