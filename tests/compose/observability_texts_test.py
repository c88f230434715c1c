"""What dashboards, alerts, their tests and their runbooks say of each other, and of what there is."""

import os
import re
import shutil
import sys
import tempfile
import unittest

from engine import ROOT, run
from questions import CHART, RULE_TESTS, RUNBOOKS, alerts, dashboards, documented, metrics_of, queries, read

# Labels that a scrape configuration adds.
ADDED = {"lockstep_cluster", "namespace"}


class ObservabilityTextsTest(unittest.TestCase):
    engine = None  # set by run.py
    binaries = None
    image = None  # Prometheus, with promtool

    def test_the_dashboards_are_what_their_tables_say(self):
        run([sys.executable, "-B", os.path.join(ROOT, "tools/dashboards/generate.py"), "--check"])

    def test_every_panel_says_what_it_answers(self):
        uids = [dashboard["uid"] for dashboard in dashboards().values()]
        self.assertEqual(len(set(uids)), 7)
        for name, dashboard in dashboards().items():
            titles = [panel["title"] for panel in dashboard["panels"]]
            self.assertEqual(len(set(titles)), len(titles), name)
            self.assertTrue(8 <= len(titles) <= 15, name)
            for panel in dashboard["panels"]:
                where = f"{name}: {panel['title']}"
                self.assertTrue(panel["title"].endswith("?"), where)
                self.assertRegex(panel["description"], r"^[A-Z0-9`].*\.$", where)
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], where)
                self.assertEqual(panel["datasource"]["uid"], "${datasource}", where)

    def test_no_panel_covers_another(self):
        for name, dashboard in dashboards().items():
            taken = set()
            for panel in dashboard["panels"]:
                grid = panel["gridPos"]
                cells = {
                    (x, y)
                    for x in range(grid["x"], grid["x"] + grid["w"])
                    for y in range(grid["y"], grid["y"] + grid["h"])
                }
                self.assertLessEqual(grid["x"] + grid["w"], 24, f"{name}: {panel['title']}")
                self.assertFalse(taken & cells, f"{name}: {panel['title']}")
                taken |= cells

    def test_queries_and_rules_name_what_is_exported(self):
        known = documented()
        self.assertIn("lockstep_request_seconds_bucket", known)
        asked = queries(dashboards()) + [("alerts", name, text) for name, text in alerts().items()]
        for where, title, query in asked:
            if where != "alerts":
                self.assertTrue(metrics_of(query), f"{where}: {title}")
            for metric, labels in metrics_of(query):
                self.assertIn(metric, known, f"{where}: {title}")
                self.assertLessEqual(labels - ADDED, known[metric], f"{where}: {title}: {metric}")
            # Jobs are called differently wherever there is another scrape configuration.
            self.assertNotRegex(query, r"job\s*(=|!)", f"{where}: {title}")

    def test_every_query_is_one_clusters(self):
        for where, title, query in queries(dashboards()):
            for metric, labels in metrics_of(query):
                self.assertLessEqual(ADDED, labels, f"{where}: {title}: {metric}")

    def test_every_alert_says_how_bad_it_is_and_what_to_do(self):
        for name, text in alerts().items():
            self.assertRegex(text, r"severity: (critical|warning|info)\}", name)
            for annotation in ("summary", "description"):
                self.assertRegex(text, rf"(?m)^ +{annotation}: \S", name)
            self.assertIn(f"runbook_url: docs/runbooks/{name}.md\n", text)
        pages = {name.removesuffix(".md") for name in os.listdir(RUNBOOKS)}
        self.assertEqual(pages, {"README", *alerts()})
        listed = dict(re.findall(r"^\| \[(\w+)\]\(\w+\.md\) \| (\w+) \|", read("docs/runbooks/README.md"), re.M))
        self.assertEqual(
            listed, {name: re.search(r"severity: (\w+)", text).group(1) for name, text in alerts().items()}
        )

    def test_runbooks_name_panels_and_commands_that_there_are(self):
        titles = {panel["title"] for dashboard in dashboards().values() for panel in dashboard["panels"]}
        commands = set()
        for page in sorted(os.listdir(RUNBOOKS)):
            text = read("docs/runbooks", page)
            for title in re.findall(r"\*([A-Z][^*\n]*\?)\*", text):
                self.assertIn(title, titles, page)
            if page != "README.md":
                self.assertRegex(text, r"(?m)^Panels?: .*\?\*|In Prometheus:.*Panel: .*\?\*", page)
            for line in re.findall(r"(?m)^    .*$|`[^`\n]+`", text):
                commands |= set(re.findall(r"(?:^|[ `])lockstep ([a-z]+)(?: (--[a-z-]+))?", line))
        self.assertGreater(len(commands), 10)
        for command, option in sorted(commands):
            said = run([f"{self.binaries}/tools/cli/lockstep", command, "--help"]).stdout
            if option:
                self.assertRegex(said, rf"[ ,]{option}\b", command)

    def test_promtool_finds_the_rules_right_and_tested(self):
        """Every alert has a test that needs it, and one that needs its patience: without either, the tests fail."""
        with tempfile.TemporaryDirectory(prefix="lockstep-rules.") as folder:
            os.chmod(folder, 0o755)
            rules = read(CHART, "alerts/lockstep.yaml")
            variants = {"whole": rules}
            for name in alerts():
                before, line, after = rules.partition(f"- alert: {name}\n")
                variants[f"{name}-none"] = f"{before}- alert: No{name}\n{after}"
                this, next_, others = after.partition("- alert: ")
                if "for: " in this:
                    this = re.sub(r"for: \w+", "for: 0s", this)
                    variants[f"{name}-at-once"] = before + line + this + next_ + others
            for variant, text in variants.items():
                self.assertEqual(text == rules, variant == "whole", variant)
                os.makedirs(f"{folder}/{variant}/charts/lockstep/alerts")
                os.makedirs(f"{folder}/{variant}/tests/kubernetes/alerts")
                # What does not name the alert does not need it.
                for test in os.listdir(RULE_TESTS):
                    if variant == "whole" or variant.partition("-")[0] in read(RULE_TESTS, test):
                        shutil.copy(f"{RULE_TESTS}/{test}", f"{folder}/{variant}/tests/kubernetes/alerts")
                with open(f"{folder}/{variant}/charts/lockstep/alerts/lockstep.yaml", "w", encoding="utf-8") as file:
                    file.write(text)
            told = self.promtool(folder, "promtool check rules /given/whole/charts/lockstep/alerts/lockstep.yaml")
            self.assertIn(f"SUCCESS: {len(alerts())} rules found", told)
            self.promtool(folder, "promtool test rules /given/whole/tests/kubernetes/alerts/*.yaml")
            good = self.promtool(
                folder,
                # Some at a time: each has one thread's work to do, and there are two for each alert.
                "cd /given && ls | xargs -P $(nproc) -I EACH sh -c"
                " 'promtool test rules EACH/tests/kubernetes/alerts/*.yaml >/dev/null 2>&1 && echo EACH; true'",
            )
            self.assertEqual(good.split(), ["whole"], "these would not be missed")

    def promtool(self, folder, script):
        return self.engine.docker(
            *("run", "--rm", "--network", "none", "--volume", f"{folder}:/given:ro", "--entrypoint", "/bin/sh"),
            *(self.image, "-c", script),
        )
