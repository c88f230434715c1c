#!/bin/sh
# The user that the services run as, and the folder that is theirs while they run.
set -eu

groupadd --gid 65532 lockstep
useradd --uid 65532 --gid lockstep --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin lockstep
install -d -o lockstep -g lockstep -m 700 /run/lockstep
# What these leave behind.
rm -f /var/log/lastlog /var/log/faillog /etc/*-
