# shellcheck shell=bash
# shellcheck disable=SC2153 # ROOT is set by tools/dev
# tools/dev setup: the distribution's packages, the wheels of tvm-ffi and clang-tidy, a digest for Bazel of what is
# compiled with; with --cuda, a CUDA toolkit; with --fragments, MLIR; with --rivals, Dask and TVM Disco; with --deployments, what
# packages, images and jobs are tried with; with --kubernetes, what the chart is tried with (kubernetes.sh).
# Everything is pinned, and everything that is already there is left alone.

DEPS="${LOCKSTEP_DEPS:-$HOME/.cache/lockstep/deps}"
readonly DEPS

cmd_setup() {
  local packages cuda=no fragments=no rivals=no deployments=no kubernetes=no
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --cuda) cuda=yes ;;
      --fragments) fragments=yes ;;
      --rivals) rivals=yes ;;
      --deployments) deployments=yes ;;
      --kubernetes) kubernetes=yes ;;
      *) usage_error "setup: unknown argument: $1" ;;
    esac
    shift
  done
  packages="$(package_list)"
  install_packages "$packages"
  # LOCKSTEP_MLIR=no does without.
  [[ "$fragments" == no || "${LOCKSTEP_MLIR:-}" == no ]] ||
    install_packages "$ROOT/tools/dev.d/packages/fragments.txt"
  if [[ "$deployments" == yes ]]; then
    install_packages "$ROOT/tools/dev.d/packages/packaging-check.txt"
    install_packages "$ROOT/tools/dev.d/packages/deployments.txt"
  fi
  install_wheel tvm_ffi
  install_wheel clang_tidy
  [[ "$cuda" == no ]] || install_cuda
  [[ "$rivals" == no ]] || install_rivals
  [[ "$kubernetes" == no ]] || install_kubernetes
  write_bazel_settings "$packages"
}

# The path of this distribution's list of packages.
package_list() {
  local codename list
  # shellcheck source=/dev/null
  codename="$(source /etc/os-release && printf '%s' "${VERSION_CODENAME:-unknown}")"
  list="$ROOT/tools/dev.d/packages/$codename.txt"
  [[ -f "$list" ]] || die "no list of packages for '$codename' in tools/dev.d/packages/;" \
    "Debian 12 (bookworm) and Ubuntu 24.04 (noble) have one"
  printf '%s' "$list"
}

# Prints the package=version lines of a list, without comments.
pins() { grep -vE '^\s*(#|$)' "$1"; }

# Prints "package version" of every installed package that the list names.
installed_versions() {
  local -a names
  mapfile -t names < <(pins "$1" | cut -d= -f1)
  # Exit status 1 only says that some are not installed.
  dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' "${names[@]}" 2>/dev/null |
    sed -n 's/^installed //p' | LC_ALL=C sort -u || true
}

# Prints the pins that the machine does not satisfy.
unmet_pins() {
  local pin name
  local -A installed=()
  while read -r name version; do installed["$name"]="$version"; done < <(installed_versions "$1")
  while read -r pin; do
    name="${pin%%=*}"
    # The right side is a glob on purpose: that is how the pins are written.
    # shellcheck disable=SC2053
    if [[ -z "${installed[$name]:-}" ]]; then
      printf '%s\n' "$pin"
    elif [[ "${LOCKSTEP_UNPINNED:-}" != 1 && "${installed[$name]}" != ${pin#*=} ]]; then
      printf '%s\n' "$pin"
    fi
  done < <(pins "$1")
}

install_packages() {
  local -a missing root=()
  mapfile -t missing < <(unmet_pins "$1")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ "$(id -u)" -ne 0 ]]; then
    command -v sudo >/dev/null ||
      die "these packages are missing, and neither root nor sudo is there: ${missing[*]}"
    root=(sudo)
  fi
  note "Installing with apt: ${missing[*]%%=*}"
  [[ "${LOCKSTEP_UNPINNED:-}" != 1 ]] || missing=("${missing[@]%%=*}")
  local -a apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
    -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
  step "Reading the package lists" "${apt[@]}" update || die "apt-get update failed"
  step "Installing ${#missing[@]} packages" \
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
    die "apt could not install the versions listed in $1." \
      "LOCKSTEP_UNPINNED=1 accepts the ones your archive has"
}

# pinned_version NAME: the version that tools/dev.d/NAME.txt pins.
pinned_version() { sed -n 's/^[a-z-]*==\([^ ]*\).*/\1/p' "$ROOT/tools/dev.d/$1.txt"; }

# wheel_folder NAME: where the wheel that tools/dev.d/NAME.txt pins is unpacked.
wheel_folder() { printf '%s' "$DEPS/$1-$(pinned_version "$1")"; }

install_wheel() {
  [[ ! -d "$(wheel_folder "$1")" ]] || return 0
  step "Fetching $1 $(pinned_version "$1")" unpack_wheels "$ROOT/tools/dev.d/$1.txt" "$(wheel_folder "$1")" ||
    die "$1 could not be fetched"
}

# The toolkit for compiling, where the machine has none of its own (//third_party/cuda:cuda.bzl).
install_cuda() {
  local requirements="$ROOT/tools/dev.d/cuda.txt" target="$DEPS/cuda" home
  # Another one is named, or none is wanted.
  [[ -z "${LOCKSTEP_CUDA:-}" ]] || return 0
  if home="$(cuda_of_this_machine)"; then
    note "There is a CUDA toolkit in $home."
    return 0
  fi
  cmp -s "$requirements" "$target/wheels.txt" && return 0
  step "Fetching a CUDA toolkit (400 MB)" unpack_wheels "$requirements" "$target" ||
    die "the CUDA toolkit could not be fetched (LOCKSTEP_CUDA=no does without, and skips the tests on fake GPUs)"
}

# Dask beside NumPy, which is among the packages of fragments; Disco with a NumPy of its own.
install_rivals() {
  install_rival dask "Dask (5 MB)"
  install_rival disco "TVM Disco (130 MB)"
}

# install_rival NAME WHAT: WHAT is NAME.txt's wheels.
install_rival() {
  local requirements="$ROOT/tools/dev.d/$1.txt" target="$DEPS/$1"
  cmp -s "$requirements" "$target/wheels.txt" && return 0
  step "Fetching $2" unpack_wheels "$requirements" "$target" || die "$2 could not be fetched"
}

# Prints the directory of a toolkit that was not unpacked by us; fails if there is none.
cuda_of_this_machine() {
  local home
  for home in "${CUDA_HOME:-}" /usr/local/cuda; do
    [[ -n "$home" && -x "$home/bin/nvcc" ]] || continue
    printf '%s' "$home"
    return 0
  done
  return 1
}

# unpack_wheels REQUIREMENTS DIRECTORY: downloads wheels by their hashes and unpacks them. The directory
# appears whole or not at all; its wheels.txt says what is in it.
unpack_wheels() {
  local requirements="$1" target="$2" work libc
  local -a platforms=()
  # As old a libc as any of them names; pip does not take one for another.
  for libc in manylinux2014 manylinux_2_{17,18,27,28}; do platforms+=(--platform "${libc}_$(uname -m)"); done
  mkdir -p "$DEPS"
  work="$(mktemp -d "$DEPS/fetch.XXXXXX")"
  if /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --require-hashes --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 \
    "${platforms[@]}" --dest "$work" --requirement "$requirements" &&
    unpack_all "$work/unpacked" "$work"/*.whl && cp "$requirements" "$work/unpacked/wheels.txt" &&
    rm -rf "$target" && mv "$work/unpacked" "$target"; then
    rm -rf "$work"
  else
    rm -rf "$work"
    return 1
  fi
}

# unpack_all DIRECTORY WHEEL...: Python's zipfile forgets which files may be run.
unpack_all() {
  local target="$1" wheel
  shift
  for wheel in "$@"; do /usr/bin/python3 -m zipfile -e "$wheel" "$target" || return 1; done
  find "$target" -path '*/bin/*' -type f -exec chmod +x {} +
}

# Bazel does not see changes in /usr. A digest of the installed versions is part of every action's
# key instead, so that an upgraded library or compiler rebuilds what may depend on it.
write_bazel_settings() {
  local digest settings cuda mlir
  digest="$({ installed_versions "$1" && cat "$ROOT/tools/dev.d/tvm_ffi.txt"; } | sha256sum)"
  digest="${digest:0:16}"
  cuda="$(sha256sum 2>/dev/null <"$DEPS/cuda/wheels.txt" || true)"
  mlir="$(installed_versions "$ROOT/tools/dev.d/packages/fragments.txt" | sha256sum)"
  settings="$(printf '%s\n' '# Written by tools/dev setup; see tools/dev.d/setup.sh.' \
    "build --repo_env=LOCKSTEP_SYSTEM=$digest --action_env=LOCKSTEP_SYSTEM=$digest" \
    "build --repo_env=LOCKSTEP_CUDA_UNPACKED=${cuda:0:16}" \
    "build --repo_env=LOCKSTEP_MLIR_INSTALLED=${mlir:0:16}")"
  [[ "$settings" == "$(cat "$ROOT/.bazelrc.local" 2>/dev/null)" ]] ||
    printf '%s\n' "$settings" >"$ROOT/.bazelrc.local"
}
