#!/usr/bin/env bash
# Installs the packages on a Debian 12 that has nothing, and uses them as a newcomer would.
#
# usage: check.sh FOLDER_OF_PACKAGES
#
# Needs root, debootstrap and lintian. What is installed, started and compiled is in a folder that is gone at the end.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
DEBIAN=""

main() {
  local packages
  packages="$(realpath "${1:?the folder of the packages}")"
  ask_lintian "$packages"
  look_at_units
  make_debian
  cp "$packages"/*.deb "$DEBIAN/tmp/"
  cp -r "$ROOT/packaging/client" "$DEBIAN/tmp/"
  inside 'apt-get install -y -q /tmp/*.deb >/dev/null'
  run_demo
  execute_fragment
  follow_tutorial
  build_clients
  remove_all
  echo "The packages are good."
}

ask_lintian() {
  lintian --fail-on error --suppress-tags no-manual-page "$1"/*.deb
}

# Anything above 4 is called exposed; workers share devices and memory with the host.
look_at_units() {
  systemd-analyze security --offline=true --threshold=20 --no-pager \
    "$ROOT/packaging/systemd/lockstep-controller.service" | tail -n 1
  # Of a template an instance is looked at.
  local folder
  folder="$(mktemp -d)"
  cp "$ROOT/packaging/systemd/lockstep-worker@.service" "$folder/lockstep-worker@0.service"
  systemd-analyze security --offline=true --threshold=40 --no-pager \
    "$folder/lockstep-worker@0.service" | tail -n 1
  rm -r "$folder"
}

make_debian() {
  DEBIAN="$(mktemp -d /tmp/lockstep-debian.XXXXXX)"
  trap clean_up EXIT
  chmod 755 "$DEBIAN" # it is the root of those who are not root, too
  debootstrap --variant=minbase bookworm "$DEBIAN" >/dev/null
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/apt/apt.conf.d/*proxy* /etc/apt/sources.list; do
    [[ ! -e $file ]] || cp "$file" "$DEBIAN$file"
  done
  mount --bind /dev "$DEBIAN/dev"
  mount -t tmpfs tmpfs "$DEBIAN/dev/shm"
  printf '%s\n' 'APT::Sandbox::User "root";' 'Dpkg::Use-Pty "0";' >"$DEBIAN/etc/apt/apt.conf.d/99check"
  inside 'apt-get update -q >/dev/null'
}

# What a shell of the new system says, with none of this one's settings. What it has started ends with it.
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C DEBIAN_FRONTEND=noninteractive \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
    unshare --pid --fork --kill-child --mount-proc="$DEBIAN/proc" chroot "$DEBIAN" /bin/bash -euc "$1"
}

# The trained network of `tools/dev demo`, and a program and a plan for the command line.
run_demo() {
  # shellcheck disable=SC2016 # for the shell there
  inside 'lockstep up --workers 4 --module-path /usr/lib/lockstep/examples/digits --detach
          trap "lockstep down" EXIT
          endpoint="$(lockstep status --output json | grep -o "\"endpoint\": *\"ipc:[^\"]*\"" | head -n 1 | cut -d\" -f4)"
          /usr/lib/lockstep/examples/digits/digits --quiet --connect "$endpoint"'
  inside 'lockstep run /usr/lib/lockstep/examples/programs/collectives.yaml --embedded'
  inside 'lockstep run /usr/lib/lockstep/examples/plans/gradients.yaml --embedded'
}

# A fragment, which the installed compiler compiles; without its package everything else works, and says what is missing.
# (Packages that were made without MLIR have none.)
execute_fragment() {
  local execute="lockstep execute /usr/lib/lockstep/examples/fragments/scores.mlir \
    --input 'x=f64[10,64]=1:rows' --input 'w=f64[64,10]=0.5'"
  if compgen -G "$DEBIAN/tmp/lockstep-fragments_*.deb" >/dev/null; then
    inside "lockstep doctor --set worker.arena_bytes=16MiB | grep '^good *fragments  */usr/bin/lockstep-compiler, '
            lockstep up --workers 4 --detach
            trap 'lockstep down' EXIT
            $execute --output y=/tmp/y.npy:rows
            lockstep workers >/dev/null
            $execute --output y:rows --embedded --workers 3 --compare /tmp/y.npy | grep 'y agrees with /tmp/y.npy'"
    follow_pages
    inside 'apt-get purge -y -q lockstep-fragments >/dev/null'
  fi
  inside "$execute --embedded 2>&1 | grep 'fragments are not available: cannot find the program lockstep-compiler'"
}

# What docs/fragments.md and docs/plans.md have readers write, compiled as the tutorial says, and on four workers.
follow_pages() {
  local page header
  # The first lines of C++ of the one, and those that begin with the header of calls in plans of the other.
  awk '/^```cpp/ { n++; next } /^```/ { if (n) exit } n' "$ROOT/docs/fragments.md" >"$DEBIAN/tmp/client/fragments_page.inc"
  awk '/^#include "runtime\/fragment\/plan_call.h"/ { on = 1 } /^```/ { on = 0 } on' "$ROOT/docs/plans.md" \
    >"$DEBIAN/tmp/client/plans_page.inc"
  for page in fragments plans; do [[ -s "$DEBIAN/tmp/client/${page}_page.inc" ]]; done
  # shellcheck disable=SC2016 # for the shell there
  inside 'apt-get install -y -q g++ pkgconf >/dev/null
          cd /tmp/client
          g++ -std=c++20 fragments.cc $(pkg-config --cflags --libs lockstep) -o fragments
          lockstep up --workers 4 --detach
          trap "lockstep down" EXIT
          export LOCKSTEP_ENDPOINT="$(lockstep status --output json | sed -n "s/.*\"endpoint\": \"\(.*\)\",/\1/p")"
          ./fragments >/tmp/printed
          grep -x "called: 0 0.5 1 1.5 2 2.5 3 3.5 4 4.5" /tmp/printed
          grep -x "in a plan: 0 0.5 1 1.5 2 2.5 3 3.5 4 4.5" /tmp/printed'
  # And whatever else the pages include.
  sed -n 's/^ *#include "\(.*\)"$/\1/p' "$ROOT"/docs/*.md "$ROOT/README.md" | sort -u >"$DEBIAN/tmp/included"
  while read -r header; do
    [[ -e "$DEBIAN/usr/include/lockstep/$header" ]] || {
      echo "check.sh: a page includes $header, which liblockstep-dev has not" >&2
      return 1
    }
  done <"$DEBIAN/tmp/included"
}

# docs/tutorial.md from its first command to its last, and the README's program.
follow_tutorial() {
  cp "$ROOT/docs/tutorial.md" "$ROOT/packaging/tutorial.py" "$ROOT/examples/hello/hello.cc" "$DEBIAN/tmp/"
  # shellcheck disable=SC2016 # for the shell there
  inside 'apt-get install -y -q python3-minimal >/dev/null
          python3 /tmp/tutorial.py /tmp/tutorial.md /tmp
          cd /tmp
          g++ -std=c++20 hello.cc $(pkg-config --cflags --libs lockstep-local) -o hello
          ./hello'
}

# The same program by pkg-config and by CMake, against services that the packages configure.
build_clients() {
  # shellcheck disable=SC2016 # for the shell there
  inside 'apt-get install -y -q g++ cmake pkgconf >/dev/null
          cd /tmp/client
          g++ -std=c++20 client.cc $(pkg-config --cflags --libs lockstep) -o by_pkg_config
          cmake -S . -B build >/dev/null && cmake --build build >/dev/null
          install -d -o lockstep -g lockstep -m 750 /run/lockstep
          as_lockstep=(setpriv --reuid lockstep --regid lockstep --clear-groups)
          "${as_lockstep[@]}" lockstep-controller --config /etc/lockstep/controller.yaml &
          controller=$!
          # A controller that ends sends its workers away.
          trap "kill $controller 2>/dev/null || true; wait" EXIT
          "${as_lockstep[@]}" lockstep-worker --config /etc/lockstep/worker.yaml --set rank=0 --set arena_bytes=64MiB &
          "${as_lockstep[@]}" ./by_pkg_config
          "${as_lockstep[@]}" ./build/client'
}

remove_all() {
  # shellcheck disable=SC2016 # for the shell there
  inside 'apt-get install -y -q --no-install-recommends systemd >/dev/null
          systemctl --quiet enable lockstep-controller lockstep-worker@0 lockstep-worker@1
          enabled() { find /etc/systemd -name "lockstep-*" | wc -l; }
          [ "$(enabled)" = 3 ]
          apt-get purge -y -q "lockstep*" liblockstep-dev >/dev/null
          [ "$(enabled)" = 0 ] && [ ! -e /etc/lockstep ] && [ ! -e /usr/lib/lockstep ]'
}

clean_up() {
  local place
  for place in dev/shm dev; do
    mountpoint -q "$DEBIAN/$place" && umount "$DEBIAN/$place"
  done
  # Not while anything of the host is mounted there.
  if ! grep -q " $DEBIAN/" /proc/mounts; then rm -rf "$DEBIAN"; fi
}

main "$@"
