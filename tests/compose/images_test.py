"""The images by themselves: what is in them, and how they run."""

import json
import os
import unittest

from engine import BASE, DOCKER, ROOT, eventually, run

SERVICES = ("controller", "worker", "worker-fragments", "worker-cuda")
# As an orchestrator with strict policies runs them.
HARDENED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true", "--pids-limit=512")
# No shell, whatever is called.
WITHOUT_A_SHELL = ("--volume=/dev/null:/bin/sh:ro", "--volume=/dev/null:/bin/bash:ro", "--volume=/dev/null:/bin/dash:ro")
MIB = 1 << 20


class ImagesTest(unittest.TestCase):
    engine = None  # set by run.py
    version = None

    def image(self, name):
        return f"localhost/lockstep/{name}:{self.version}"

    def start(self, *arguments):
        container = self.engine.docker("run", "--detach", *arguments).strip().splitlines()[-1]
        self.addCleanup(self.engine.docker, "rm", "--force", "--volumes", container)
        return container

    def expect_healthy(self, container):
        def look():
            state = self.engine.inspect(container)["State"]
            if state["Status"] != "running":
                self.fail(f"it has ended: {self.engine.docker('logs', container)}")
            return state["Health"]["Status"] == "healthy"

        eventually(look, lambda: f"healthy; it says {self.engine.inspect(container)['State']['Health']}")

    def stop(self, container):
        self.engine.docker("stop", "--time", "20", container)
        return self.engine.inspect(container)["State"]["ExitCode"]

    def test_they_add_little_to_their_base(self):
        base = self.engine.inspect(BASE)["Size"]
        for name, most in (("controller", 150), ("worker", 150), ("worker-fragments", 450), ("cli", 200), ("worker-cuda", 150)):
            added = self.engine.inspect(self.image(name))["Size"] - base
            print(f"    {name}: {added / MIB:.1f} MiB above {BASE}")
            self.assertLess(added, most * MIB, name)

    def test_nobody_is_root_in_them(self):
        for name in (*SERVICES, "cli"):
            config = self.engine.inspect(self.image(name))["Config"]
            self.assertEqual(config["User"], "65532:65532", name)
            self.assertEqual(len(config["Entrypoint"]), 1, f"{name}: the program itself, no shell")

    def test_labels_say_what_they_are(self):
        for name in (*SERVICES, "cli"):
            labels = self.engine.inspect(self.image(name))["Config"]["Labels"]
            for label in ("title", "description", "version", "revision", "created", "licenses", "base.name"):
                self.assertTrue(labels.get(f"org.opencontainers.image.{label}"), f"{name}: {label}")
            self.assertEqual(labels["org.opencontainers.image.version"], self.version)

    def test_nothing_is_in_them_to_build_with(self):
        for name in (*SERVICES, "cli"):
            found = self.engine.docker(
                *("run", "--rm", "--network=none", "--entrypoint=find", self.image(name)),
                *("/usr/bin", "/usr/sbin", "/usr/local", "-name", "gcc*", "-o", "-name", "g++*", "-o", "-name", "ld"),
            )
            self.assertEqual(found, "", name)

    def test_all_have_the_command_line(self):
        for name in (*SERVICES, "cli"):
            said = self.engine.docker(
                "run", "--rm", "--network=none", "--entrypoint=lockstep", self.image(name), "version"
            )
            self.assertIn(self.version, said, name)

    def test_nothing_of_ours_can_be_written_to(self):
        for name in (*SERVICES, "cli"):
            found = self.engine.docker(
                *("run", "--rm", "--network=none", "--entrypoint=find", self.image(name)),
                *("/usr", "/etc", "-writable", "-not", "-type", "l"),
            )
            self.assertEqual(found, "", name)

    def test_the_bill_of_materials_names_every_package(self):
        for name in (*SERVICES, "cli"):
            with open(os.path.join(ROOT, "build", "images", f"{name}.spdx.json"), encoding="utf-8") as file:
                bill = json.load(file)
            self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
            listed = {package["name"] for package in bill["packages"]}
            installed = self.engine.docker(
                "run", "--rm", "--network=none", "--entrypoint=dpkg-query", self.image(name), "-W", "-f", "${Package}\n"
            ).split()
            self.assertLessEqual(set(installed), listed, name)
            wanted = {"controller": "lockstep-controller", "cli": "lockstep"}.get(name, "lockstep-worker")
            self.assertIn(wanted, listed)
            self.assertIn("libzmq5", listed, f"{name}: also what it has taken along")
            digest = self.engine.inspect(self.image(name))["Id"].removeprefix("sha256:")
            self.assertEqual(bill["packages"][0]["checksums"][0]["checksumValue"], digest)

    def test_services_need_no_shell_no_rights_and_no_disk(self):
        head = self.start("--network=none", *HARDENED, *WITHOUT_A_SHELL, self.image("controller"))
        self.expect_healthy(head)
        for name in ("worker", "worker-fragments", "worker-cuda"):
            with self.subTest(name):
                worker = self.start(
                    *(f"--network=container:{head}", "--shm-size=256m", *HARDENED, *WITHOUT_A_SHELL),
                    *(self.image(name), "--config", "/etc/lockstep/worker.yaml"),
                    *("--set=arena_bytes=64MiB", "--set=device=cpu"),
                )
                try:
                    self.expect_healthy(worker)
                    self.expect_program_runs(head)
                    self.expect_fragment(head, name == "worker-fragments")
                finally:
                    # The next one takes its rank, and its port.
                    code = self.stop(worker)
                self.assertEqual(code, 0, self.engine.docker("logs", worker))
        self.assertEqual(self.stop(head), 0, self.engine.docker("logs", head))

    def expect_program_runs(self, head):
        answer = self.engine.docker(
            *("run", "--rm", "--interactive", f"--network=container:{head}", *HARDENED, self.image("cli")),
            *("run", "/usr/lib/lockstep/examples/programs/hello.yaml", "--connect", "tcp://127.0.0.1:7400"),
        )
        self.assertIn("1 of 1 expectation met", answer)

    def expect_fragment(self, head, has_compiler):
        result = run(
            [
                *(DOCKER, "run", "--rm", f"--network=container:{head}", *HARDENED, self.image("cli"), "execute"),
                *("/usr/lib/lockstep/examples/fragments/scores.mlir", "--connect", "tcp://127.0.0.1:7400"),
                *("--input", "x=f64[2,64]=1:rows", "--input", "w=f64[64,10]=0.5", "--output", "y:rows"),
            ],
            env=self.engine.environment,
            check=False,
        )
        if has_compiler:
            self.assertIn("float64 [2, 10] {{32, 32,", result.stdout)
        else:
            self.assertIn("fragments are not available: cannot find the program lockstep-compiler", result.stdout)

    def test_the_one_for_gpus_has_what_compiles_kernels(self):
        result = run(
            [
                *(DOCKER, "run", "--rm", "--network=none", *HARDENED, "--entrypoint=lockstep-cuda-compiler"),
                *(self.image("worker-cuda"), "--gpu=sm_90", "--describe"),
            ],
            env=self.engine.environment,
            check=False,
        )
        # Its version, or, on a base without it, where it was looked for.
        self.assertIn("NVRTC", result.stdout)

    def test_the_one_for_gpus_looks_for_them(self):
        result = run(
            [*(DOCKER, "run", "--rm", "--network=none", "--shm-size=256m"), self.image("worker-cuda")],
            env=self.engine.environment,
            check=False,
        )
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("libcuda.so.1", result.stdout, "the driver's, which NVIDIA's container toolkit brings")

    def test_a_controller_that_does_not_answer_is_unhealthy(self):
        container = self.start(
            *("--network=none", "--health-interval=200ms", "--health-retries=2", "--health-start-period=0s"),
            *(self.image("controller"), "--config", "/etc/lockstep/controller.yaml"),
            # Elsewhere than the image's health check asks.
            "--set=metrics_endpoint=http://127.0.0.1:9499",
        )
        eventually(lambda: self.engine.health(container) == "unhealthy", "unhealthy")
        said = self.engine.inspect(container)["State"]["Health"]["Log"][-1]["Output"]
        self.assertIn("no answer from http://127.0.0.1:9400/healthz", said)

    def test_a_wrong_configuration_ends_it_with_the_reason(self):
        result = run(
            [DOCKER, "run", "--rm", "--network=none", self.image("worker"), "--set", "rnak=1"],
            env=self.engine.environment,
            check=False,
        )
        self.assertEqual(result.returncode, 2)
        self.assertIn('did you mean "rank"?', result.stdout)
