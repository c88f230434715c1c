"""The profile `observability` of docker/compose.yaml: a real Prometheus, what the dashboards ask it, and its alerts."""

import os

from cluster import Cluster
from engine import ROOT, eventually
from prometheus import Prometheus
from questions import alerts, as_asked, dashboards, queries

WORKERS = 4
# That of GPUs: observability_gpu_test.py.
DASHBOARDS = sorted(name for name in dashboards() if name != "gpu.json")


class ObservabilityTest(Cluster):
    image = None  # set by run.py: Prometheus

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.compose(
            *("--profile", "observability", "up", "--detach", "prometheus"),
            environment={"PROMETHEUS_IMAGE": cls.image},
        )
        cls.prometheus = Prometheus(cls.engine, 9090)

    def work(self):
        self.digits()
        self.lockstep("run", os.path.join(ROOT, "examples/programs/collectives.yaml"))

    def make_rank_2_fail(self):
        said = self.lockstep("call", "lockstep.fail", '"for the test"', "2", check=False)
        self.assertIn("rank 2, command 2, lockstep.fail: for the test", said.stdout)

    def alert(self, name):
        """Those of this name that fire."""
        return [alert for alert in self.prometheus.firing() if alert["labels"]["alertname"] == name]

    def test_every_service_is_scraped(self):
        eventually(
            lambda: self.prometheus.jobs() == ["lockstep-controller"] + ["lockstep-worker"] * WORKERS,
            lambda: f"the controller and {WORKERS} workers are scraped, not {self.prometheus.jobs()}",
        )

    def test_every_query_of_every_panel_has_data(self):
        asked = queries(DASHBOARDS)
        self.assertEqual(len({name for name, _, _ in asked}), 6)

        def without_data():
            self.work()
            return [
                (name, title, text)
                for name, title, query in asked
                for text in {
                    as_asked(query, rank=rank, cluster=cluster)
                    for rank in range(WORKERS)
                    for cluster in (".*", "lockstep")
                }
                if not self.prometheus.query(text)
            ]

        eventually(lambda: not without_data(), lambda: f"every panel has data; these have none: {without_data()}", 120)
        # Another cluster's dashboards show nothing of this one.
        for name, title, query in asked:
            self.assertFalse(self.prometheus.query(as_asked(query, rank=0, cluster="another")), f"{name}: {title}")

    def test_panels_show_what_has_happened(self):
        def seen(name, title):
            """The largest value that a panel shows."""
            asked = [query for _, called, query in queries([name]) if called == title]
            self.assertTrue(asked, title)
            found = [self.prometheus.query(as_asked(query, rank=2, cluster="lockstep")) for query in asked]
            return max((float(series["value"][1]) for series in sum(found, [])), default=0)

        for name, title in (
            ("cluster.json", "By what do sessions fail?"),
            ("worker.json", "Do commands fail on it?"),
            ("control.json", "What became of sessions?"),
        ):

            def shown():
                self.make_rank_2_fail()
                return seen(name, title) > 0

            eventually(shown, f"{name}: {title}")

        def told():
            return [(alert["labels"]["rank"], alert["labels"]["code"]) for alert in self.alert("CommandErrors")]

        eventually(lambda: told() == [("2", "INTERNAL")], lambda: f"CommandErrors fires for rank 2 alone: {told()}")

    def test_the_rules_are_loaded_and_can_be_evaluated(self):
        def evaluated():
            rules = self.prometheus.rules()
            return rules and all(rule["health"] != "unknown" for rule in rules) and rules

        rules = eventually(evaluated, "all rules were evaluated once")
        self.assertEqual(sorted(rule["name"] for rule in rules), sorted(alerts()))
        self.assertEqual({rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"}, {})

    def test_a_worker_that_is_killed_and_kept_away_is_told_of(self):
        serious = [a for a in self.prometheus.firing() if a["labels"]["severity"] != "info"]
        self.assertEqual(serious, [], "of a cluster that is well")
        rank = WORKERS - 1
        container = self.status()["workers"][rank]["host"]
        # It is not started again.
        self.engine.docker("kill", container)
        self.addCleanup(self.wait_until_whole, WORKERS)
        self.addCleanup(self.engine.docker, "start", container)
        told = eventually(lambda: self.alert("WorkerLost"), "WorkerLost fires", 45)
        self.assertEqual([alert["labels"]["rank"] for alert in told], [str(rank)])
        self.assertEqual(told[0]["labels"]["lockstep_cluster"], "lockstep")
        self.assertIn(f"Rank {rank} has no worker", told[0]["annotations"]["description"])
        self.assertEqual(self.prometheus.value('sum(lockstep_workers{state="lost"})'), 1)
        # It goes on to what says so for any reason, and is over when the worker is back.
        eventually(lambda: self.alert("ClusterNotReady"), "ClusterNotReady fires", 90)
        self.engine.docker("start", container)
        eventually(
            lambda: not self.alert("WorkerLost") and not self.alert("ClusterNotReady"),
            lambda: f"nothing is told of any more: {self.prometheus.firing()}",
        )
