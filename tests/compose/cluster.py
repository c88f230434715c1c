"""A cluster that docker/compose.yaml describes, and the client on this machine."""

import json
import os
import shutil
import tempfile
import unittest

from engine import COMPOSE, ROOT, eventually, run

ENDPOINT = "tcp://127.0.0.1:7400"


class Cluster(unittest.TestCase):
    """The services of docker/compose.yaml, started once for all tests of a class."""

    engine = None  # set by run.py
    binaries = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lockstep-compose.")
        # What is in the keys' folder of a working tree is not ours.
        shutil.copytree(
            os.path.join(ROOT, "docker"), f"{cls.folder}/docker", ignore=shutil.ignore_patterns("*.key", "*.pub", "*.so")
        )
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # Of which the profile `observability` takes dashboards and alerts.
        shutil.copytree(os.path.join(ROOT, "charts", "lockstep"), f"{cls.folder}/charts/lockstep")
        cls.before = cls.everything()
        cls.addClassCleanup(cls.take_down)
        cls.compose("up", "--detach")
        cls.wait_until_whole(4)

    @classmethod
    def take_down(cls):
        cls.compose("--profile", "observability", "--profile", "tools", "down", "--volumes")
        left = cls.everything()
        if left != cls.before:
            raise AssertionError(f"`down` has left {left}, where there was {cls.before}")

    @classmethod
    def compose(cls, *arguments, environment=None, check=True):
        return run(
            [COMPOSE, "--file", f"{cls.folder}/docker/compose.yaml", *arguments],
            env={**cls.engine.environment, **(environment or {})},
            check=check,
        ).stdout

    @classmethod
    def everything(cls):
        """All that an engine can have too much of."""
        return {
            what: sorted(cls.engine.docker(*command).split())
            for what, command in {
                "containers": ("ps", "--all", "--quiet"),
                "volumes": ("volume", "ls", "--quiet"),
                "networks": ("network", "ls", "--quiet"),
            }.items()
        }

    @classmethod
    def lockstep(cls, *arguments, key="client.key", check=True):
        """The command line of this machine, as a client from outside of the containers."""
        keys = f"{cls.folder}/docker/keys"
        environment = {
            **os.environ,
            "LOCKSTEP_ENDPOINT": ENDPOINT,
            "LOCKSTEP_KEY": f"{keys}/{key}",
            "LOCKSTEP_CONTROLLER_KEY": f"{keys}/controller.pub",
        }
        return cls.engine.run_inside(
            [f"{cls.binaries}/tools/cli/lockstep", *arguments], env=environment, check=check
        )

    @classmethod
    def status(cls):
        answer = cls.lockstep("status", "--output", "json", check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else {"ready": False, "workers": [], "error": answer.stdout}

    @classmethod
    def wait_until_whole(cls, workers):
        def whole():
            status = cls.status()
            return status["ready"] and len(status["workers"]) == workers and status

        try:
            return eventually(whole, f"{workers} workers are ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{cls.status()}\n{cls.compose('logs', '--tail=20')}") from error

    def digits(self, endpoint=ENDPOINT, neighbour=""):
        """The example, by this machine's program or a neighbour's: its gradients are in the containers."""
        keys = f"{self.folder}/docker/keys"
        program = [
            *(f"{self.binaries}/examples/digits/digits", "--quiet", "--connect", endpoint),
            *("--key", f"{keys}/client.key", "--controller-key", f"{keys}/controller.pub"),
        ]
        self.assertIn("held-out accuracy 0.97", run(self.engine.inside(program, neighbour), timeout=120).stdout)
