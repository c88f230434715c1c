#!/bin/sh
# Installs packages of ours in an image, and nothing beside them but those of Debian's that are asked for.
#
# usage: [VERSION=...] [WITH="NAME..."] install.sh NAME...
set -eu

export DEBIAN_FRONTEND=noninteractive
apt-get update
for name; do
  # Without a version: the only one that is there.
  # shellcheck disable=SC2086  # a pattern
  set -- "$@" /packages/"$name"_${VERSION:-*}_*.deb
  shift
done
# shellcheck disable=SC2086  # several names
apt-get install -y --no-install-recommends "$@" ${WITH:-}
apt-get clean
# What differs from build to build, and what nobody reads here.
rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /tmp/* /usr/share/lintian /etc/*-
# The list of all packages stays: scanners read it.
rm -f /var/lib/dpkg/*-old
