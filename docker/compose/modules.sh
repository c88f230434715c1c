#!/bin/sh
# Makes /modules, from where workers load, what is in the images' examples and in /given, the host's folder: as copies
# that only root can change, for workers load no others.
#
# Runs as root in a container of its own that has nothing to lose, once at every `up`. Links are passed over: a module
# is a file.
set -eu

main() {
  umask 022
  chmod 755 /modules
  rm -rf /modules/.new
  mkdir /modules/.new
  for module in /usr/lib/lockstep/examples/*/*.so /given/*.so; do
    if [ -f "$module" ] && [ ! -L "$module" ]; then
      cp "$module" "/modules/.new/"
    elif [ -L "$module" ]; then
      echo "$module is a link, and passed over: put the file itself there" >&2
    fi
  done
  chmod 644 /modules/.new/*
  for module in /modules/*.so; do
    [ -e "/modules/.new/$(basename "$module")" ] || rm -f "$module"
  done
  # One at a time, and each whole: a worker may be loading it.
  for module in /modules/.new/*; do mv "$module" /modules/; done
  rmdir /modules/.new
}

main
