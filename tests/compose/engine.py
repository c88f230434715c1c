"""A Docker engine of the tests' own, which leaves nothing behind on this machine.

It runs in a network namespace that it makes, so that its bridges, its packet filter and the ports that it publishes are
not this machine's; what it keeps is a base image and layers to build on, in ~/.cache/lockstep/docker. (Docker makes some
empty folders besides: /run/docker, /opt/containerd.)
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(os.path.expanduser("~"), ".cache", "lockstep", "docker")
BASE = "debian:bookworm-slim"
# By which a base that was made like today's is told from an older one.
BASE_LABEL = "lockstep.test.base=slim"
# What the official image leaves out, and has left out of all packages that are installed in it.
SLIM = """path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/lintian/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
"""
# Not the first on PATH: a newer client wants a plugin to build with.
DOCKER = "/usr/bin/docker"
# Either generation: LOCKSTEP_COMPOSE names another one, such as the plugin of `docker compose`.
COMPOSE = os.environ.get("LOCKSTEP_COMPOSE", "/usr/bin/docker-compose")
DAEMON = "/usr/sbin/dockerd"


class Unavailable(Exception):
    """There can be no engine here; says why."""


def check():
    if os.geteuid() != 0:
        raise Unavailable("a Docker engine of the tests' own needs root")
    for program in (DOCKER, COMPOSE, DAEMON, "/usr/sbin/debootstrap"):
        if not os.path.exists(program):
            raise Unavailable(f"{program} is not installed (tools/dev setup --deployments)")


class Engine:
    """Runs while it is entered. `network`: whether containers may be built with what is out there; else they are in
    networks of the namespace alone."""

    def __init__(self, network):
        self._namespace = None if network else f"lockstep-engine-{os.getpid()}"
        self._folder = None
        self._daemon = None
        self.environment = dict(os.environ)

    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="lockstep-engine.")
        # Nothing of what this machine's own engine is told.
        with open(f"{self._folder}/daemon.json", "w", encoding="utf-8") as file:
            file.write("{}")
        socket = f"unix://{self._folder}/docker.sock"
        self.environment.update(DOCKER_HOST=socket, LOCKSTEP_DOCKER=DOCKER)
        command = [DAEMON, "--data-root", CACHE, "--exec-root", f"{self._folder}/exec", "--host", socket]
        command += ["--pidfile", f"{self._folder}/pid", "--config-file", f"{self._folder}/daemon.json"]
        if self._namespace is None:
            # Containers have this machine's network or none, and its packet filter is left alone.
            command += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
        else:
            subprocess.run(["ip", "netns", "add", self._namespace], check=True)
            self.run_inside(["ip", "link", "set", "lo", "up"])
            command = self.inside(command)
        try:
            with open(f"{self._folder}/log", "wb") as log:
                self._daemon = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            self._wait_until_it_answers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _wait_until_it_answers(self):
        def last_words():
            with open(f"{self._folder}/log", encoding="utf-8", errors="replace") as log:
                return "".join(log.readlines()[-3:]).strip()

        def answers():
            if self._daemon.poll() is not None:
                raise RuntimeError(f"the Docker engine does not start: {last_words()}")
            return run([DOCKER, "version"], env=self.environment, check=False, timeout=60).returncode == 0

        eventually(answers, lambda: f"the Docker engine answers; it says: {last_words()}")

    def __exit__(self, *_):
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._daemon.wait(30)
            if self._daemon.poll() is None:
                self._daemon.kill()
                self._daemon.wait()
        if self._namespace is not None:
            subprocess.run(["ip", "netns", "delete", self._namespace], check=False)
        # Which the engine leaves mounted.
        subprocess.run(["umount", f"{self._folder}/exec/netns/default"], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def inside(self, command, neighbour=""):
        """The command, as one that runs where the engine's ports are, or on a neighbour."""
        # Not `ip netns exec`, which hides the control groups.
        return ["nsenter", f"--net=/run/netns/{self._namespace}{neighbour}", "--", *command]

    def add_neighbour(self, name):
        """Another host, as far as networks go, which has the engine's as its router. Returns the engine's address."""
        there = f"{self._namespace}{name}"
        subprocess.run(["ip", "netns", "add", there], check=True)
        self.run_inside(["ip", "link", "add", "engine-side", "type", "veth", "peer", "name", "wire", "netns", there])
        self.run_inside(["ip", "address", "add", "10.77.0.1/24", "dev", "engine-side"])
        self.run_inside(["ip", "link", "set", "engine-side", "up"])
        for command in (
            ("link", "set", "lo", "up"),
            ("address", "add", "10.77.0.2/24", "dev", "wire"),
            ("link", "set", "wire", "up"),
            ("route", "add", "default", "via", "10.77.0.1"),
        ):
            run(self.inside(["ip", *command], name))
        return "10.77.0.1"

    def remove_neighbour(self, name):
        # Its end of the wire goes with it, and so does the other one.
        run(["ip", "netns", "delete", f"{self._namespace}{name}"])

    def run_inside(self, command, **options):
        return run(self.inside(command), **options)

    def docker(self, *arguments, **options):
        return run([DOCKER, *arguments], env=self.environment, **options).stdout

    def inspect(self, what):
        return json.loads(self.docker("inspect", what))[0]

    def health(self, container):
        return self.inspect(container)["State"]["Health"]["Status"]

    def make_base(self):
        """The base image under its official name, from the distribution's packages."""
        if self.docker("images", "--quiet", "--filter", f"label={BASE_LABEL}", BASE).strip():
            return
        with tempfile.TemporaryDirectory(prefix="lockstep-base.") as folder:
            run(["debootstrap", "--variant=minbase", "bookworm", folder])
            for file in ("/etc/apt/sources.list", "/etc/apt/apt.conf.d"):
                if os.path.isfile(file):
                    shutil.copy(file, folder + file)
            with open(f"{folder}/etc/dpkg/dpkg.cfg.d/docker", "w", encoding="utf-8") as file:
                file.write(SLIM)
            for left_out in ("info", "lintian", "locale", "man"):
                shutil.rmtree(f"{folder}/usr/share/{left_out}", ignore_errors=True)
            # A base is as old as its packages; an image of a registry has none either.
            run(["chroot", folder, "apt-get", "clean"])
            shutil.rmtree(f"{folder}/var/lib/apt/lists", ignore_errors=True)
            with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar:
                run([DOCKER, "import", "--change", f"LABEL {BASE_LABEL}", "-", BASE], env=self.environment, stdin=tar.stdout)
                if tar.wait() != 0:
                    raise RuntimeError("tar has failed")


def run(command, *, timeout=300, check=True, env=None, stdin=subprocess.DEVNULL, cwd=None):
    """What the command prints, errors included, as text. Raises with all of it if the command fails."""
    result = subprocess.run(
        command,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(command)} exits with {result.returncode}:\n{result.stdout}")
    return result


def eventually(condition, what, seconds=60):
    """Waits until the condition holds; what it said at last is in the error. `what`: a text, or a function that has one."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            told = what() if callable(what) else what
            raise AssertionError(f"not within {seconds} s: {told}; at last: {value!r}")
        time.sleep(0.1)
