"""Checks that sources include only what their layer may.

Bazel's visibility says the same of direct dependencies; g++ has no layering check, so a header that
is reached through another target would slip through. This reads the #include lines themselves.
"""

import os
import re
import sys

INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"//.*")
TOP_LEVEL = ("schemas", "runtime", "services", "tools", "examples", "tests", "third_party")

CLIENT_SIDE = {"schemas", "runtime/base", "runtime/control", "runtime/control/keys", "runtime/trace"}
WORKER_SIDE = {"runtime/base", "runtime/tensor"}
WORKER_SERVICE = (
    CLIENT_SIDE
    | WORKER_SIDE
    | {
        "runtime/fragment",
        "runtime/plan",
        "runtime/registers",
        "runtime/module",
        "runtime/module/builtins.h",
        "runtime/collective",
        "runtime/collective/device.h",
        "runtime/collective/shm",
        "runtime/collective/gloo",
        "runtime/collective/tcp",
        "runtime/collective/message",
        "runtime/collective/mpi",
        "runtime/collective/two_level",
    }
)
PROGRAM = {"services/config", "services/process"}

# layer -> the layers that it may include, besides itself. A file belongs to the longest match;
# a layer may be a single file, or a header with its source. None: any.
LAYERS = {
    "schemas": set(),
    "runtime/base": set(),
    "runtime/control": {"schemas", "runtime/base", "runtime/control/keys"},
    # Sends nothing, so configurations may name keys, too.
    "runtime/control/keys": {"runtime/base"},
    "runtime/trace": {"schemas", "runtime/base", "runtime/control"},
    "runtime/client": CLIENT_SIDE | {"runtime/fragment", "runtime/plan"},
    "runtime/tensor": {"runtime/base"},
    # Pure: no sockets, no devices; of tensors, only what elements of each dtype are.
    "runtime/plan": {"schemas", "runtime/base", "runtime/tensor"},
    # The same; and it starts the compiler, a program of its own.
    "runtime/fragment": {"schemas", "runtime/base", "runtime/plan", "runtime/tensor"},
    # The device interface is in runtime/collective, whose implementation for GPUs is made of this.
    "runtime/cuda": WORKER_SIDE | {"runtime/cuda/kernels", "runtime/collective/device.h"},
    # What includes CUDA's headers.
    "runtime/cuda/nvml": {"runtime/base", "runtime/cuda", "runtime/collective/device.h"},
    "runtime/cuda/driver": {
        "runtime/base",
        "runtime/cuda",
        "runtime/cuda/kernels",
        "runtime/collective/device.h",
    },
    "runtime/cuda/kernels": WORKER_SIDE,
    # A register carries the layout of what is in it.
    "runtime/registers": WORKER_SIDE | {"runtime/plan"},
    "runtime/module": WORKER_SIDE | {"runtime/registers", "runtime/module/builtins.h"},
    # What is known of built-in functions, without a worker.
    "runtime/module/builtins.h": WORKER_SIDE | {"runtime/registers", "runtime/module"},
    # What modules are written with. They are loaded anywhere, so it finds libcuda by itself.
    "runtime/module/kit": {"runtime/base", "runtime/cuda/driver"},
    "runtime/collective": WORKER_SIDE | {"runtime/collective/device.h"},
    # What a worker needs of an accelerator.
    "runtime/collective/device.h": WORKER_SIDE,
    # A backend is known to the worker and its tests alone.
    "runtime/collective/shm": WORKER_SIDE | {"runtime/collective"},
    "runtime/collective/message": WORKER_SIDE | {"runtime/collective"},
    "runtime/collective/tcp": WORKER_SIDE | {"runtime/collective", "runtime/collective/message"},
    "runtime/collective/gloo": WORKER_SIDE | {"runtime/collective", "runtime/collective/message"},
    "runtime/collective/mpi": WORKER_SIDE | {"runtime/collective", "runtime/collective/message"},
    "runtime/collective/two_level": WORKER_SIDE | {"runtime/collective", "runtime/collective/message"},
    "runtime/collective/nccl": WORKER_SIDE
    | {"runtime/collective", "runtime/collective/device.h", "runtime/cuda"},
    # LLVM is in the compiler alone.
    "runtime/fragment/mlir": {"runtime/base", "runtime/fragment"},
    # Knows no service: the tables of settings are beside the options that they fill in.
    "services/config": {"runtime/base", "runtime/control/keys"},
    "services/metrics": {"runtime/base"},
    "services/compiler": {"schemas", "runtime/base", "runtime/fragment", "runtime/fragment/mlir"},
    # Of a fragment it knows no more than how large one may be.
    "services/controller": CLIENT_SIDE | {"runtime/fragment", "services/metrics"},
    "services/worker": WORKER_SERVICE | {"services/metrics"},
    # The list of backends.
    "services/worker/backends.cc": WORKER_SERVICE | {"runtime/collective/nccl", "services/worker"},
    "services/controller/settings": {"runtime/base", "services/config", "services/controller"},
    "services/worker/settings": {"runtime/base", "services/config", "services/worker"},
    # What the two programs share, and the programs themselves: they read configuration files.
    "services/process": CLIENT_SIDE | {"services/config", "services/metrics"},
    "services/controller/main.cc": CLIENT_SIDE
    | PROGRAM
    | {"services/controller", "services/controller/settings"},
    "services/worker/main.cc": WORKER_SERVICE
    | PROGRAM
    | {"services/worker", "services/worker/settings"},
    "services/local": CLIENT_SIDE
    | WORKER_SIDE
    | {
        "runtime/client",
        "services/config",
        "services/controller",
        "services/controller/settings",
        "services/worker",
        "services/worker/settings",
    },
    "services/remote": {"runtime/base", "services/local", "services/process"},
    # What the tools print with.
    "tools/text": {"runtime/base"},
    "tools/cli": CLIENT_SIDE
    | {
        "tools/cli/plan",
        "runtime/fragment",
        "runtime/plan",
        "runtime/tensor",
        "runtime/client",
        "services/config",
        "services/local",
        "tools/text",
    },
    # Explains what is pure, without a cluster.
    "tools/cli/plan": CLIENT_SIDE
    | {
        "runtime/fragment",
        "runtime/module/builtins.h",
        "runtime/plan",
        "services/config",
        "tools/cli",
        "tools/text",
    },
    "examples": {
        "runtime/base",
        "runtime/client",
        "runtime/module/kit",
        "runtime/plan",
        "services/local",
    },
    "tests": None,  # tests any layer
}
# Measures any layer; the command line it starts as a program.
LAYERS["tools/bench"] = set(LAYERS) - {"tools/cli", "examples", "tests"}

# Words that only some layers may say: where, and why.
CUDA_LAYERS = {
    "runtime/cuda",
    "runtime/cuda/nvml",
    "runtime/cuda/driver",
    "runtime/cuda/kernels",
    "runtime/collective/nccl",
    "runtime/module/kit",
    "services/worker/backends.cc",
    "tools/bench",
    "tests",
}
GUARDED_NAMES = re.compile(r"\b(?:cuda|nccl)::\w+")
WHY_GUARDED = (
    "a worker knows accelerators by runtime/collective/device.h alone, so that another kind of them is one folder "
    "and one entry in services/worker/backends.cc"
)


def layer_of(path):
    matches = [layer for layer in LAYERS if path == layer or path.startswith((layer + "/", layer + "."))]
    return max(matches, key=len) if matches else None


def complaints(path):
    layer = layer_of(path)
    if layer is None:
        if not path.startswith("third_party/"):
            yield f"{path}: in no layer: add its folder to {sys.argv[0]}"
        return
    with open(path, encoding="utf-8") as file:
        text = file.read()
    included = INCLUDE.findall(text)
    allowed = LAYERS[layer]
    if layer not in CUDA_LAYERS:
        for name in sorted(set(GUARDED_NAMES.findall(COMMENT.sub("", text)))):
            yield f"{path}: names {name}: {WHY_GUARDED}"
    for name in included:
        if not name.startswith(tuple(top + "/" for top in TOP_LEVEL)):
            if os.path.exists(os.path.join(os.path.dirname(path), name)):
                yield f'{path}: "{name}": include it by its path from the repository\'s root'
            continue
        target = layer_of(name)
        if allowed is not None and target != layer and target not in allowed:
            why = f": {WHY_GUARDED}" if target in CUDA_LAYERS and layer.startswith("services") else ""
            yield f'{path}: {layer} must not include "{name}" ({target}){why}'


def main():
    found = []
    checked = 0
    for top in TOP_LEVEL:
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith((".h", ".cc", ".cu")):
                    checked += 1
                    found += complaints(os.path.join(folder, name))
    print("\n".join(sorted(found)))
    print(f"{checked} files, {len(found)} complaints")
    raise SystemExit(1 if found or not checked else 0)


if __name__ == "__main__":
    main()
