# shellcheck shell=bash
# shellcheck disable=SC2153 # ROOT is set by tools/dev
# tools/dev mutate: mutations of the sources, in a copy of this checkout. What it does is in mutate/.

cmd_mutate() {
  local argument
  for argument in "$@"; do
    [[ "$argument" == -h || "$argument" == --help ]] || continue
    mutate --help
    return
  done
  cmd_setup
  own_files '*' >"$LOGS/files"
  local status=0
  in_process_namespace mutate "$@" || status=$?
  exit "$status"
}

# The copy and its outputs stay for the next time, and are this checkout's own.
mutate() {
  PYTHONPATH="$ROOT/tools/dev.d" /usr/bin/python3 -B -m mutate "$@" --files "$LOGS/files" \
    --folder "$HOME/.cache/lockstep/mutate/$(printf '%s' "$ROOT" | sha256sum | head -c 12)"
}

# in_process_namespace FUNCTION ARGUMENT...: whatever is started there sees no process from outside, so a mutant may
# signal any that it sees; and nothing of it is left when the function returns, or this is killed.
in_process_namespace() {
  local -a namespace=(unshare --pid --fork --kill-child --mount-proc)
  [[ "$(id -u)" -eq 0 ]] || namespace+=(--user --map-current-user)
  "${namespace[@]}" true 2>"$LOGS/namespace" ||
    die "a mutant could signal any process of yours, and there is no namespace to keep it in:" \
      "$(cat "$LOGS/namespace"); run this as root, or where users may make namespaces"
  export ROOT LOGS
  export -f mutate
  # The shell stays process 1, which takes in what lost its parent.
  # shellcheck disable=SC2016 # it expands there
  nice -n 10 "${namespace[@]}" bash -c '"$@"; exit' mutate "$@"
}
