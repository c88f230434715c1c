#!/usr/bin/env bash
# Makes the Debian packages of what is built, in the folder that is named.
#
# usage: debs.sh BINARIES TARGET
#
# The packages depend on the versions of the distribution's libraries that the programs are linked with: they are
# for the release on which they were built.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
readonly PACKAGING="$ROOT/packaging"
readonly PRIVATE=usr/lib/lockstep # libraries that only Lockstep uses
readonly MPI_LIBRARY=liblockstep_mpi.so
readonly COMPILER=services/compiler/lockstep-compiler # where MLIR was

main() {
  [[ $# == 2 ]] || {
    echo "usage: debs.sh BINARIES TARGET" >&2
    exit 2
  }
  BINARIES="$(realpath "$1")"
  mkdir -p "$2"
  rm -f "$2"/*.deb # of other versions, too
  TARGET="$(realpath "$2")"
  WORK="$(mktemp -d)"
  trap 'rm -rf "$WORK"' EXIT
  VERSION="$(sed -n 's/.*kBuildVersion\[\] = "\(.*\)".*/\1/p' "$ROOT/runtime/base/version.h")"
  TRIPLET="$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
  # The same files from the same commit, or from the same sources without git.
  SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -c "safe.directory=$ROOT" -C "$ROOT" log -1 --format=%ct 2>/dev/null ||
    stat -c %Y "$ROOT/CHANGELOG.md")}"
  export SOURCE_DATE_EPOCH
  # Packagers who make packages for others say who they are, as for any Debian package.
  MAINTAINER="${DEBFULLNAME:-Lockstep} <${DEBEMAIL:-packages@lockstep.invalid}>"
  COMPRESSING=()

  # The largest first: packages are compressed side by side.
  make_library
  make_worker
  make_controller
  [[ ! -e "$BINARIES/$COMPILER" ]] || make_fragments
  make_cli
  make_examples
  wait_for_packages
}

make_controller() {
  local to="$WORK/lockstep-controller"
  program "$to" services/controller/lockstep-controller
  install -Dm644 -t "$to/lib/systemd/system" "$PACKAGING/systemd/lockstep-controller.service"
  install -Dm640 -t "$to/etc/lockstep" "$PACKAGING/etc/controller.yaml"
  service_scripts "$to" lockstep-controller.service controller.yaml
  pack lockstep-controller "controller of a Lockstep cluster" "adduser" "" \
    "Orders the commands of all clients, and sends them to the workers."
}

make_worker() {
  local to="$WORK/lockstep-worker"
  program "$to" services/worker/lockstep-worker
  # Small, and of no use without a GPU and NVRTC, which it loads while it runs.
  program "$to" services/compiler/cuda/lockstep-cuda-compiler
  install -Dm644 -t "$to/$PRIVATE" "$(ffi_library)"
  if [[ -e "$BINARIES/services/worker/$MPI_LIBRARY" ]]; then
    install -Dm644 -t "$to/$PRIVATE" "$BINARIES/services/worker/$MPI_LIBRARY"
  fi
  install -Dm644 -t "$to/lib/systemd/system" "$PACKAGING/systemd/lockstep-worker@.service"
  install -Dm640 -t "$to/etc/lockstep" "$PACKAGING/etc/worker.yaml"
  service_scripts "$to" "" worker.yaml
  # MPI is loaded where a cluster is set to it, fragments are compiled where a program sends some; what is left out then
  # is large.
  local -a recommends=()
  [[ ! -e "$to/$PRIVATE/$MPI_LIBRARY" ]] ||
    recommends+=("$(linked_packages "$to/$PRIVATE/$MPI_LIBRARY" | grep -o 'libopenmpi[^,]*')")
  [[ ! -e "$BINARIES/$COMPILER" ]] || recommends+=("lockstep-fragments (= $VERSION)")
  # libssl3 has libcrypto, which is loaded where data between ranks is encrypted.
  # Modules are linked with abseil, as those of the examples are; the programs have their own inside.
  local abseil
  abseil="$(linked_packages "$BINARIES/examples/digits/digits_module.so" | grep -o 'libabsl[^,]*')"
  RECOMMENDS="$(list "${recommends[@]}")" pack lockstep-worker "worker of a Lockstep cluster" "adduser, $abseil, libssl3" "" \
    "Executes the commands of a cluster's clients on its own part of their data, on CPUs or on a GPU."
}

# The compiler of fragments. Its MLIR and LLVM are large, and in folders of their own, where its run path leads.
make_fragments() {
  local to="$WORK/lockstep-fragments"
  install -Dm755 -t "$to/usr/bin" "$BINARIES/$COMPILER"
  strip "$to/usr/bin/$(basename "$COMPILER")"
  # Workers load OpenBLAS for products of matrices, which a fragment's own loops are slower at.
  RECOMMENDS="libopenblas0-pthread | libopenblas0" pack lockstep-fragments "compiler of fragments for Lockstep" "libllvm19" "" \
    "Compiles pieces of programs, which clients send as MLIR, for the processor of a worker's host. Workers find it where it \
is installed; without it they do everything else."
}

make_cli() {
  local to="$WORK/lockstep"
  program "$to" tools/cli/lockstep
  pack lockstep "command line of Lockstep" \
    "lockstep-controller (= $VERSION), lockstep-worker (= $VERSION)" "" \
    "Starts clusters on one host or several, runs programs on them, and shows what they do."
}

make_examples() {
  local to="$WORK/lockstep-examples"
  local digits="$to/$PRIVATE/examples/digits"
  install -d "$digits"
  install -m755 -t "$digits" "$BINARIES/examples/digits/digits"
  install -m644 -t "$digits" "$BINARIES/examples/digits/digits_module.so" \
    "$ROOT/examples/digits/data/optdigits.csv"
  strip --strip-debug "$digits/digits" "$digits/digits_module.so"
  patchelf --set-rpath "/$PRIVATE" "$digits/digits"
  patchelf --set-rpath "/$PRIVATE" "$digits/digits_module.so"
  install -Dm644 -t "$to/$PRIVATE/examples/programs" "$ROOT"/examples/programs/*.yaml
  install -Dm644 -t "$to/$PRIVATE/examples/plans" "$ROOT"/examples/plans/*.yaml
  install -Dm644 -t "$to/$PRIVATE/examples/fragments" "$ROOT"/examples/fragments/*.mlir
  pack lockstep-examples "examples of Lockstep" "lockstep (= $VERSION)" "" \
    "A network that is trained on real data by all workers of a cluster, and programs, plans and fragments for its command line."
}

make_library() {
  local to="$WORK/liblockstep-dev" archives archive template
  archives="$to/usr/lib/$TRIPLET"
  for archive in liblockstep.a liblockstep_local.a; do
    install -Dm644 -t "$archives" "$BINARIES/packaging/$archive"
    chmod u+w "$archives/$archive"
    strip --strip-debug --enable-deterministic-archives "$archives/$archive"
  done
  # Clients, clusters inside a program, and modules; tvm-ffi's headers beside them, which modules are written with.
  python3 "$PACKAGING/headers.py" "$ROOT:$BINARIES:$(dirname "$(ffi_library)")/../include" "$to/usr/include/lockstep" \
    runtime/client/session.h runtime/client/admin.h runtime/client/failure.h runtime/fragment/plan_call.h \
    services/local/local_cluster.h runtime/module/kit/ffi_export.h >/dev/null
  for template in lockstep lockstep-local lockstep-module; do
    fill "$PACKAGING/$template.pc.in" "$archives/pkgconfig/$template.pc"
  done
  fill "$PACKAGING/LockstepConfig.cmake.in" "$archives/cmake/Lockstep/LockstepConfig.cmake"
  pack liblockstep-dev "client library of Lockstep, headers and archives" \
    "lockstep-worker (= $VERSION), libabsl-dev, libcapnp-dev, libfmt-dev, libgloo-dev, \
libsodium-dev, libspdlog-dev, libxxhash-dev, libyaml-cpp-dev, libzmq3-dev, prometheus-cpp-dev" "libdevel" \
    "For programs of one's own that drive a Lockstep cluster or start one, and for modules with functions of one's own."
}

# program STAGE PATH: a program, which finds the private libraries. Its symbols stay: the stacks that
# `lockstep why` shows are made of them.
program() {
  local to
  to="$1/usr/bin/$(basename "$2")"
  install -Dm755 "$BINARIES/$2" "$to"
  strip --strip-debug "$to"
  if readelf -d "$to" | grep -q RUNPATH; then patchelf --set-rpath "/$PRIVATE" "$to"; fi
}

# list PART...: "one, two"
list() {
  local all
  all="$(printf ', %s' "$@")"
  printf '%s' "${all#, }"
}

ffi_library() {
  local found
  found="$(ldd "$BINARIES/services/worker/lockstep-worker" | awk '$1 == "libtvm_ffi.so" { print $3 }')"
  realpath "$found"
}

# service_scripts STAGE UNIT CONFIGURATION: what happens when it is installed and removed. An empty unit: its
# instances are the administrator's to enable.
service_scripts() {
  local to="$1/DEBIAN" unit="$2" configuration="$3"
  install -d "$to"
  echo "/etc/lockstep/$configuration" >"$to/conffiles"
  cat >"$to/postinst" <<SCRIPT
#!/bin/sh
set -e
if [ "\$1" = configure ]; then
  # A user that the administrator has made, with another number, is as good.
  getent passwd lockstep >/dev/null ||
    adduser --system --group --quiet --home /nonexistent --no-create-home lockstep
  chown root:lockstep /etc/lockstep
  chmod 750 /etc/lockstep
  # A file that the administrator has removed stays away; on upgrades, its owner stays as it is.
  if [ -z "\$2" ] && [ -e "/etc/lockstep/$configuration" ]; then
    chown root:lockstep "/etc/lockstep/$configuration"
    chmod 640 "/etc/lockstep/$configuration"
  fi
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ -n "$unit" ] && [ -n "\$2" ]; then systemctl try-restart "$unit"; fi
  fi
fi
SCRIPT
  cat >"$to/prerm" <<SCRIPT
#!/bin/sh
set -e
if [ "\$1" = remove ] && command -v systemctl >/dev/null; then
  if [ -d /run/systemd/system ]; then systemctl stop "${unit:-lockstep-worker@*.service}"; fi
  # All instances, where there are some.
  systemctl --quiet disable "${unit:-lockstep-worker@.service}"
fi
SCRIPT
  cat >"$to/postrm" <<SCRIPT
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
# What the service's unit has made: compiled fragments.
if [ "\$1" = purge ] && [ -z "$unit" ]; then rm -rf /var/cache/lockstep; fi
SCRIPT
  chmod 755 "$to/postinst" "$to/prerm" "$to/postrm"
}

# fill TEMPLATE FILE
fill() {
  local client local_cluster
  client="$(cat "$BINARIES/packaging/liblockstep.flags")"
  # Its library is in no place that linkers know.
  local_cluster="$(cat "$BINARIES/packaging/liblockstep_local.flags") -L/$PRIVATE -ltvm_ffi -Wl,-rpath,/$PRIVATE"
  install -d "$(dirname "$2")"
  sed -e "s|@TRIPLET@|$TRIPLET|; s|@VERSION@|$VERSION|; s|@FLAGS@|$client|; s|@CMAKE_FLAGS@|${client// /;}|" \
    -e "s|@LOCAL_FLAGS@|$local_cluster|; s|@CMAKE_LOCAL_FLAGS@|${local_cluster// /;}|" "$1" >"$2"
}

# pack NAME SUMMARY DEPENDS SECTION DESCRIPTION: makes the package of the stage of that name, which recommends
# $RECOMMENDS.
pack() {
  local name="$1" summary="$2" depends="$3" section="${4:-net}" description="$5" stage="$WORK/$1" shared document relations
  document="$stage/usr/share/doc/$name"
  install -Dm644 -t "$document" "$PACKAGING/copyright"
  if [[ $name == lockstep-* ]]; then
    install -Dm644 -t "$document" "$ROOT"/docs/{configuration,operations,security}.md
  elif [[ $name == lockstep || $name == *-dev ]]; then
    # All of it, for a machine that reaches nothing else.
    install -Dm644 -t "$document" "$ROOT"/docs/*.{md,svg}
    install -Dm644 -t "$document/runbooks" "$ROOT"/docs/runbooks/*.md
  fi
  # As dpkg's changelogs are written; what changes is told in the project's own.
  install -Dm644 -t "$document" "$ROOT/CHANGELOG.md"
  printf 'lockstep (%s) unstable; urgency=medium\n\n  * What has changed is told in CHANGELOG.md beside this file.\n\n -- %s  %s\n' "$VERSION" \
    "$MAINTAINER" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" |
    gzip -9n >"$document/changelog.gz"
  overrides "$name" "$stage"
  shared="$(shared_libraries "$stage")"
  # Each once: dpkg-shlibdeps leaves out by turns what another one of them depends on, too.
  relations="Depends: $(tr ',' '\n' <<<"$shared, $depends" | sed 's/^ *//; /^$/d' | LC_ALL=C sort -u | paste -sd, | sed 's/,/, /g')"
  [[ -z "${RECOMMENDS:-}" ]] || relations+=$'\n'"Recommends: $RECOMMENDS"
  install -d "$stage/DEBIAN"
  cat >"$stage/DEBIAN/control" <<CONTROL
Package: $name
Version: $VERSION
Architecture: $(dpkg --print-architecture)
Maintainer: $MAINTAINER
Section: $section
Priority: optional
$relations
Installed-Size: $(du -sk --exclude=DEBIAN "$stage" | cut -f1)
Description: $summary
$(fold -s -w 78 <<<"$description" | sed 's/^/ /; s/ *$//')
 .
 Lockstep drives many workers, one for each GPU or CPU rank, as one machine.
CONTROL
  find "$stage" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  compress "$stage" "$TARGET/${name}_${VERSION}_$(dpkg --print-architecture).deb" &
  COMPRESSING+=("$!")
}

# One thread each, and most of the time that packing takes.
compress() {
  dpkg-deb --root-owner-group --build "$1" "$2" >/dev/null && echo "$2"
}

wait_for_packages() {
  local pid
  for pid in "${COMPRESSING[@]}"; do wait "$pid"; done
}

# The distribution's packages that a stage's programs and libraries cannot do without.
shared_libraries() {
  local -a files=()
  mapfile -t files < <(find "$1" -type f ! -name "$MPI_LIBRARY" \
    \( -path '*/usr/bin/*' -o -name '*.so' -o -name digits \))
  [[ ${#files[@]} -eq 0 ]] || linked_packages "${files[@]}"
}

# linked_packages FILE...: the packages of the libraries that the files are linked with.
linked_packages() {
  local control="$WORK/shlibdeps"
  mkdir -p "$control/debian"
  printf 'Source: lockstep\n\nPackage: lockstep\nArchitecture: any\n' >"$control/debian/control"
  (cd "$control" && dpkg-shlibdeps -O --ignore-missing-info -l"$WORK/lockstep-worker/$PRIVATE" "$@" 2>/dev/null) |
    sed 's/^shlibs:Depends=//'
}

# What lintian is told.
overrides() {
  local name="$1" stage="$2" file
  file="$stage/usr/share/lintian/overrides/$name"
  [[ -d "$stage/usr/bin" || -d "$stage/$PRIVATE/examples" ]] || return 0
  install -d "$(dirname "$file")"
  cat >"$file" <<TEXT
# The stacks that "lockstep why" shows are made of the symbols.
$name: unstripped-binary-or-object *
# Private libraries, which the programs share.
$name: custom-library-search-path *
TEXT
}

main "$@"
