#!/bin/sh
# What has to be there before the services start: keys, for whom there are none yet.
#
# Runs as root in a container of its own, once at every `up`. Folders: /controller and /worker become the services'
# /keys, /cli the command line's; /client is the host's. What lies there is its owner's, who may be anybody and may put
# links there: it is neither trusted nor written to in place.
set -eu

SERVICE=65532 # the user of all images

main() {
  umask 077
  key controller /controller/controller.key
  key worker /worker/worker.key
  key cli /cli/client.key
  client_key
  allow worker workers /worker/worker.pub
  allow operator cli /cli/client.pub
  allow client host /tmp/client.pub
  replace /worker/controller.pub cat /controller/controller.pub
  replace /cli/controller.pub cat /controller/controller.pub
  hand_over 644 /controller/controller.pub
  # Root's, so that no service changes them. From here on root's own `lockstep` would not read them.
  chgrp "$SERVICE" /controller/controller.key /worker/worker.key /cli/client.key
  chmod 640 /controller/controller.key /worker/worker.key /cli/client.key
  chmod 644 /controller/allowed_keys
}

# key NAME FILE: a new key, and its public part beside it, if they are not there.
key() {
  public="${2%.key}.pub"
  [ -e "$2" ] || lockstep keys new "$1" --out "$2" >/dev/null
  [ -e "$public" ] || replace "$public" public_part "$2"
}

# public_part FILE: of a key that is somebody else's, which root's own `lockstep` would not read.
public_part() {
  head -c 4096 "$1" >/tmp/shown.key
  lockstep keys show /tmp/shown.key
  rm /tmp/shown.key
}

# The host's key, unless it is there; its public part is in /tmp/client.pub either way. A key that is there is never
# replaced: it may be somebody's only one.
client_key() {
  if is_file /client/client.key && is_file /client/client.pub; then
    head -c 100 /client/client.pub >/tmp/client.pub
  elif is_file /client/client.key; then
    public_part /client/client.key >/tmp/client.pub
    hand_over 644 /tmp/client.pub
  else
    key client /tmp/client.key
    hand_over 600 /tmp/client.key
    hand_over 644 /tmp/client.pub
  fi
}

is_file() { [ -f "$1" ] && [ ! -L "$1" ]; }

# hand_over MODE FILE: puts a copy into the host's folder, in the place of whatever has its name there; it belongs to
# whoever the folder belongs to.
hand_over() {
  install -T -o "$(stat -c %u /client)" -g "$(stat -c %g /client)" -m "$1" "$2" "/client/$(basename "$2")"
}

# allow ROLE NAME PUBLIC_KEY_FILE
allow() {
  allowed=/controller/allowed_keys
  ! grep -qF " $(cat "$3") " "$allowed" 2>/dev/null || return 0
  lockstep keys allow "$1" "$2" "$(cat "$3")" --file "$allowed"
}

# replace FILE COMMAND...: what the command prints, whole or not at all.
replace() {
  file="$1"
  shift
  "$@" >"$file.new"
  chmod 644 "$file.new"
  mv "$file.new" "$file"
}

main
