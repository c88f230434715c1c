"""docker/compose.yaml on a real engine, as one uses it after cloning the repository."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

from cluster import Cluster
from engine import DOCKER, ROOT, eventually, run


class ComposeTest(Cluster):
    def container(self, service):
        return self.compose("ps", "--quiet", service).split()[0]

    def of_rank(self, rank):
        """The container of a rank: its host's name is the container's."""
        return self.status()["workers"][rank]["host"]

    def kill_processes_of(self, *containers):
        # As a fault would: after `docker kill` the engine does not start it again.
        processes = [self.engine.inspect(container)["State"]["Pid"] for container in containers]
        # At once: a worker that is started again meanwhile would find those that have yet to go.
        for process in processes:
            os.kill(process, signal.SIGKILL)

    def test_all_are_healthy_and_share_memory(self):
        for service, count in (("controller", 1), ("worker-0", 1), ("worker", 3)):
            containers = self.compose("ps", "--quiet", service).split()
            self.assertEqual(len(containers), count, service)
            for container in containers:
                eventually(lambda: self.engine.health(container) == "healthy", f"{container} of {service} is healthy")
        status = self.wait_until_whole(4)
        self.assertEqual({worker["backend"] for worker in status["workers"]}, {"shm"})

    def test_they_have_no_rights_and_limited_memory(self):
        for service in ("controller", "worker-0", "worker"):
            host = self.engine.inspect(self.container(service))["HostConfig"]
            self.assertTrue(host["ReadonlyRootfs"], service)
            self.assertEqual(host["CapDrop"], ["ALL"], service)
            self.assertIn("no-new-privileges:true", host["SecurityOpt"], service)
            self.assertGreater(host["Memory"], 0, service)
            self.assertGreater(host["PidsLimit"], 0, service)

    def test_the_host_trains_with_its_key_and_nobody_without(self):
        self.digits()
        stranger = f"{self.folder}/docker/keys/stranger.key"
        run([f"{self.binaries}/tools/cli/lockstep", "keys", "new", "stranger", "--out", stranger])
        self.addCleanup(os.remove, stranger)
        refused = self.lockstep("status", "--timeout", "2", key="stranger.key", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("key", refused.stdout)

    def test_the_client_key_belongs_to_the_folders_owner(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            os.chown(folder, 1234, 1234)
            environment = {"LOCKSTEP_CLIENT_KEYS": folder}
            said = self.compose("run", "--rm", "keys", environment=environment)
            self.assertIn("allowed", said)
            key = os.stat(f"{folder}/client.key")
            self.assertEqual((key.st_uid, stat.S_IMODE(key.st_mode)), (1234, 0o600))
            before = open(f"{folder}/client.key", encoding="utf-8").read()
            # Once more changes nothing.
            self.assertNotIn("allowed", self.compose("run", "--rm", "keys", environment=environment))
            self.assertEqual(open(f"{folder}/client.key", encoding="utf-8").read(), before)

    def test_a_key_of_the_users_own_stays(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            os.chown(folder, 1234, 1234)
            key, public = f"{folder}/client.key", f"{folder}/client.pub"
            said = run([f"{self.binaries}/tools/cli/lockstep", "keys", "new", "mine", "--out", key]).stdout
            os.chown(key, 1234, 1234)
            before = open(key, encoding="utf-8").read()
            self.compose("run", "--rm", "keys", environment={"LOCKSTEP_CLIENT_KEYS": folder})
            self.assertEqual(open(key, encoding="utf-8").read(), before)
            self.assertIn(open(public, encoding="utf-8").read().strip(), said)
            # So does the one of a service that has lost its public part.
            volume = self.engine.docker("volume", "inspect", "--format", "{{.Mountpoint}}", "lockstep_worker-keys").strip()
            before = open(f"{volume}/worker.key", encoding="utf-8").read()
            told = open(f"{volume}/worker.pub", encoding="utf-8").read()
            os.remove(f"{volume}/worker.pub")
            self.compose("run", "--rm", "keys", environment={"LOCKSTEP_CLIENT_KEYS": folder})
            self.assertEqual(open(f"{volume}/worker.key", encoding="utf-8").read(), before)
            self.assertEqual(open(f"{volume}/worker.pub", encoding="utf-8").read(), told)

    def test_links_in_the_hosts_folder_lead_nowhere(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            os.chown(folder, 1234, 1234)
            for name, target in (
                ("controller.pub", "/controller/controller.key"),
                ("controller.pub.new", "/controller/controller.key"),
                ("client.pub", "/controller/controller.key"),
                ("client.key", "/worker"),
            ):
                os.symlink(target, f"{folder}/{name}")
            before = self.engine.docker("exec", self.container("controller"), "sha256sum", "/keys/controller.key")
            self.compose("run", "--rm", "keys", environment={"LOCKSTEP_CLIENT_KEYS": folder})
            self.assertEqual(
                self.engine.docker("exec", self.container("controller"), "sha256sum", "/keys/controller.key"), before
            )
            for name in ("controller.pub", "client.pub", "client.key"):
                self.assertFalse(os.path.islink(f"{folder}/{name}"), name)
                self.assertEqual(os.stat(f"{folder}/{name}").st_uid, 1234, name)

    def test_services_see_their_own_secrets_alone(self):
        for service, mine, not_mine in (
            ("controller", {"controller.key", "allowed_keys"}, "worker.key"),
            ("worker-0", {"worker.key", "controller.pub"}, "controller.key"),
        ):
            files = set(self.engine.docker("exec", self.container(service), "ls", "/keys").split())
            self.assertLessEqual(mine, files)
            self.assertNotIn(not_mine, files)

    def test_the_command_line_runs_inside_too(self):
        said = self.compose("run", "--rm", "cli", "run", "/usr/lib/lockstep/examples/programs/collectives.yaml")
        self.assertIn("14 of 14 expectations met", said)

    def test_a_killed_worker_is_replaced_by_itself(self):
        for rank in (2, 0):
            with self.subTest(rank=rank):
                before = self.wait_until_whole(4)
                container = self.of_rank(rank) if rank else self.container("worker-0")
                started = self.engine.inspect(container)["State"]["StartedAt"]
                self.kill_processes_of(container)
                eventually(lambda: self.status().get("epoch") not in (None, before["epoch"]), "a new world")
                self.wait_until_whole(4)
                self.assertNotEqual(self.engine.inspect(container)["State"]["StartedAt"], started)
                self.digits()

    def test_a_removed_worker_is_replaced_by_up(self):
        before = self.wait_until_whole(4)
        self.engine.docker("rm", "--force", self.of_rank(3))
        eventually(lambda: not self.status()["ready"], "it is missed")
        self.compose("up", "--detach")
        self.assertNotEqual(self.wait_until_whole(4)["epoch"], before["epoch"])
        self.digits()

    def test_a_worker_that_is_cut_off_is_missed_and_comes_back(self):
        self.wait_until_whole(4)
        container = self.of_rank(1)
        self.engine.docker("network", "disconnect", "lockstep_default", container)
        mend = [DOCKER, "network", "connect", "--alias", "worker", "lockstep_default", container]
        self.addCleanup(run, mend, env=self.engine.environment, check=False)
        status = eventually(lambda: (s := self.status())["workers"] and s["workers"][1]["state"] == "lost" and s, "rank 1 is lost")
        self.assertFalse(status["ready"])
        self.assertIn("no heartbeat", status["workers"][1]["reason"])
        # A call now fails at once, and says which rank is missing.
        refused = self.lockstep("run", os.path.join(ROOT, "examples/programs/hello.yaml"), check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("rank 1", refused.stdout)
        run(mend, env=self.engine.environment)
        self.wait_until_whole(4)
        self.digits()

    def test_a_controller_that_is_killed_comes_back_with_its_workers(self):
        self.wait_until_whole(4)
        workers = {worker["host"] for worker in self.status()["workers"]}
        controller = self.container("controller")
        started = self.engine.inspect(controller)["State"]["StartedAt"]
        self.kill_processes_of(controller)
        eventually(lambda: self.engine.inspect(controller)["State"]["StartedAt"] != started, "it is started again")
        status = self.wait_until_whole(4)
        self.assertEqual({worker["host"] for worker in status["workers"]}, workers)
        self.digits()

    def test_a_controller_that_is_restarted_in_order_comes_back(self):
        self.wait_until_whole(4)
        self.compose("restart", "controller")
        self.wait_until_whole(4)
        self.digits()

    def test_all_killed_at_once_come_back(self):
        before = self.wait_until_whole(4)
        self.kill_processes_of(*self.compose("ps", "--quiet", "controller", "worker-0", "worker").split())
        eventually(lambda: self.status().get("epoch") not in (None, before["epoch"]), "a new world")
        self.wait_until_whole(4)
        self.digits()

    def test_all_restarted_in_order_come_back(self):
        before = self.wait_until_whole(4)
        self.compose("restart")
        self.assertNotEqual(self.wait_until_whole(4)["epoch"], before["epoch"])
        self.digits()

    def test_clients_of_other_hosts_come_by_the_published_ports(self):
        address = self.engine.add_neighbour("client")
        self.addCleanup(self.engine.remove_neighbour, "client")
        self.compose("up", "--detach", environment={"LOCKSTEP_ADDRESS": address})
        self.addCleanup(self.wait_until_whole, 4)
        self.addCleanup(self.compose, "up", "--detach")
        # From there the containers' own addresses are out of reach: what is sent to them is dropped.
        self.digits(f"tcp://{address}:7400", "client")

    def test_more_workers_by_scale(self):
        larger = {"LOCKSTEP_WORKERS": "6"}
        self.compose("up", "--detach", "--scale", "worker=5", environment=larger)
        self.addCleanup(self.wait_until_whole, 4)
        self.addCleanup(self.compose, "up", "--detach")
        self.wait_until_whole(6)
        self.digits()

    def test_modules_of_the_host_are_loaded(self):
        given = f"{self.folder}/docker/modules"
        shutil.copy(f"{self.binaries}/examples/digits/digits_module.so", f"{given}/mine.so")
        self.compose("run", "--rm", "modules")
        program = f"{self.folder}/mine.yaml"
        with open(program, "w", encoding="utf-8") as file:
            file.write("steps:\n  - {load: mine.so, as: mine}\n")
        said = self.lockstep("run", program).stdout
        self.assertIn("1 step on 4 workers", said)
        # Links may lead anywhere, and what is given no more is there no more.
        os.remove(f"{given}/mine.so")
        os.symlink("/etc/passwd", f"{given}/linked.so")
        self.addCleanup(os.remove, f"{given}/linked.so")
        self.assertIn("linked.so is a link, and passed over", self.compose("run", "--rm", "modules"))
        there = self.engine.docker("exec", self.container("worker-0"), "ls", "-a", "/modules").split()
        self.assertEqual(sorted(there), [".", "..", "digits_module.so"])

    def test_no_image_of_ours_is_one_that_a_public_registry_may_have(self):
        images = re.findall(r"^ +image: \"?(\S*lockstep\S*?)\"?$", self.compose("config"), re.M)
        self.assertTrue(images)
        for image in images:
            self.assertTrue(image.startswith("localhost/lockstep/"), image)

    def test_workers_on_gpus_may_pin_memory_and_have_room_for_cuda(self):
        said = self.compose("--env-file", f"{self.folder}/docker/gpu.env", "config")
        workers = re.findall(r"^  (worker-gpu\S*):\n((?:    .*\n|\n)*)", said, re.M)
        self.assertEqual([name for name, _ in workers], ["worker-gpu", "worker-gpu-0"])
        for name, service in workers:
            self.assertRegex(service, r"memlock:\n +hard: -1\n +soft: -1\n", name)
            self.assertRegex(service, r"mem_limit: \"?(6g|6442450944)", name)

    def test_wrong_settings_end_with_a_sentence(self):
        result = subprocess.run(
            [
                *(DOCKER, "run", "--rm", "--network=none", "--volume", f"{self.folder}/docker/compose/controller.yaml:/c.yaml:ro"),
                *(self.engine.inspect(self.container("controller"))["Config"]["Image"], "--config", "/c.yaml"),
            ],
            env=self.engine.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("/keys/", result.stderr)
