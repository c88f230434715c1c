"""Builds the images and saves them for another container runtime.

usage: save_images.py FOLDER

FOLDER/images.tar: an archive of `docker save` of controller, worker, cli and prometheus, with what they share in it
once. Ours are in it under two tags, for tests that change from one to the other: the version, and the version with
"-again" behind it. Prints the version.
"""

import os
import sys

from engine import Engine, Unavailable
from images import PROMETHEUS, alone, build, version


def main():
    (folder,) = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    try:
        with alone():
            build()
            save(folder)
    except Unavailable as reason:
        sys.exit(str(reason))
    print(version())


def save(folder):
    with Engine(network=False) as engine:
        images = [PROMETHEUS]
        for name in ("controller", "worker", "cli"):
            image = f"localhost/lockstep/{name}:{version()}"
            engine.docker("tag", image, f"{image}-again")
            images += [image, f"{image}-again"]
        engine.docker("save", "--output", f"{folder}/images.tar", *images)


if __name__ == "__main__":
    main()
