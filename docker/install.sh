#!/bin/sh
# Installs packages in an image, and nothing beside them.
#
# usage: install.sh PACKAGE.deb...
set -eu

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "$@"
apt-get clean
# What differs from build to build, and what nobody reads here.
rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /tmp/* /usr/share/man /usr/share/lintian /etc/*-
# The list of all packages stays: scanners read it.
rm -f /var/lib/dpkg/*-old
