"""Writes an image of one static program, as an archive that load_image.sh takes.

usage: image.py ARCHIVE NAME:TAG PROGRAM [LINK...]

The program lies in /bin and is the image's entrypoint. The only other files are LINKs to it, by which a busybox has
its commands: image.py busybox.tar docker.io/lockstep/busybox:1 /bin/busybox /bin/sh /bin/wget
"""

import hashlib
import io
import json
import os
import platform
import sys
import tarfile

# As Go, and so every registry, calls them.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def add_file(archive, name, data, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def layer_of(program, path, links):
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        with open(program, "rb") as file:
            add_file(archive, path.lstrip("/"), file.read(), 0o755)
        for link in links:
            info = tarfile.TarInfo(link.lstrip("/"))
            info.type, info.linkname = tarfile.SYMTYPE, path
            archive.addfile(info)
    return layer.getvalue()


def main(archive_path, name, program, *links):
    path = "/bin/" + os.path.basename(program)
    layer = layer_of(program, path, links)
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        # A user that `runAsNonRoot` accepts.
        "config": {"Entrypoint": [path], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    config = json.dumps(config).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive_path, "w") as archive:
        add_file(archive, config_name, config)
        add_file(archive, "layer.tar", layer)
        add_file(archive, "manifest.json", json.dumps(manifest).encode())


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
