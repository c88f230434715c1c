"""The dashboard of GPUs, and GpuXid: workers on the fake driver of tests/fakes, and a real Prometheus.

The workers are processes beside the engine, for the images have no fakes; Prometheus is a container in their network.
"""

import json
import os
import shutil
import tempfile
import unittest

from engine import eventually, run
from prometheus import Prometheus
from questions import CHART, as_asked, queries

PORT = 9091
# Of real ones, out of memory for instance; the fake NVML reports it once for each worker.
XID = "94"
CONFIGURATION = """
global: {{scrape_interval: 1s}}
rule_files: [/rules/lockstep.yaml]
scrape_configs:
  - job_name: lockstep
    static_configs: [{{targets: {targets}}}]
"""


class ObservabilityGpuTest(unittest.TestCase):
    engine = None  # set by run.py
    binaries = None
    image = None

    @classmethod
    def setUpClass(cls):
        fakes = [f"{cls.binaries}/tests/fakes/{name}" for name in ("cuda", "nccl", "nvml")]
        if not os.path.exists(f"{fakes[0]}/example_kernels.so"):
            raise unittest.SkipTest("this build has no CUDA, and so no fakes of it (tools/dev setup --cuda)")
        cls.folder = tempfile.mkdtemp(prefix="lockstep-gpus.")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(fakes),
            "FAKE_CUDA_KERNELS": f"{fakes[0]}/example_kernels.so",
            "FAKE_NVML_XID": XID,
        }
        os.mkdir(f"{cls.folder}/run", 0o700)
        cls.lockstep(
            *("up", "--name", "gpus", "--workers", "2", "--detach", "--run-dir", f"{cls.folder}/run"),
            *("--module-path", f"{cls.binaries}/examples/digits"),
            *("--set", "controller.metrics_endpoint=http://127.0.0.1:9400"),
            *("--set", "worker.metrics_endpoint=http://127.0.0.1:*", "--set", "worker.device=cuda"),
            *("--set", "worker.device_memory_bytes=64MiB", "--set", "worker.arena_bytes=256MiB"),
        )
        cls.addClassCleanup(cls.lockstep, "down", "gpus")
        cls.start_prometheus()

    @classmethod
    def lockstep(cls, *arguments):
        command = [f"{cls.binaries}/tools/cli/lockstep", *arguments]
        return cls.engine.run_inside(command, env=cls.environment).stdout

    @classmethod
    def start_prometheus(cls):
        status = json.loads(cls.lockstep("status", "--name", "gpus", "--output", "json"))
        metrics = [status["metrics"], *(worker["metrics"] for worker in status["workers"])]
        os.mkdir(f"{cls.folder}/prometheus")
        with open(f"{cls.folder}/prometheus/prometheus.yaml", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(targets=json.dumps([each.removeprefix("http://") for each in metrics])))
        # For the container's user.
        os.chmod(cls.folder, 0o755)
        container = cls.engine.docker(
            *("run", "--detach", "--network", "host", "--volume", f"{cls.folder}/prometheus:/given:ro"),
            *("--volume", f"{CHART}/alerts:/rules:ro", cls.image, "--config.file=/given/prometheus.yaml"),
            *("--storage.tsdb.path=/prometheus", f"--web.listen-address=127.0.0.1:{PORT}"),
        ).strip()
        cls.addClassCleanup(cls.engine.docker, "rm", "--force", "--volumes", container)
        cls.prometheus = Prometheus(cls.engine, PORT)

    def work(self):
        program = [f"{self.binaries}/examples/digits/digits", "--quiet"]
        program += ["--connect", f"ipc://{self.folder}/run/client.sock"]
        self.assertIn("held-out accuracy 0.97", run(self.engine.inside(program), timeout=120).stdout)

    def test_every_query_of_the_panels_about_gpus_has_data(self):
        asked = queries(["gpu.json"])
        self.assertGreater(len(asked), 10)

        def without_data():
            self.work()
            return [
                (title, query)
                for _, title, query in asked
                if not self.prometheus.query(as_asked(query, rank=0, cluster=".*"))
            ]

        eventually(lambda: not without_data(), lambda: f"every panel has data; these have none: {without_data()}")

    def test_the_first_xid_is_told_of(self):
        def told():
            return {
                (alert["labels"]["alertname"], alert["labels"].get("rank"), alert["labels"].get("xid"))
                for alert in self.prometheus.firing()
            }

        eventually(
            lambda: told() == {("GpuXid", "0", XID), ("GpuXid", "1", XID)},
            lambda: f"GpuXid fires for both ranks, and nothing else: {told()}",
        )
