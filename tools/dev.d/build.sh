# shellcheck shell=bash
# tools/dev build and compdb, and how every other step calls Bazel.

# run_bazel COMMAND ARGUMENT...
run_bazel() {
  local -a startup=()
  [[ -z "${LOCKSTEP_OUTPUT_BASE:-}" ]] || startup=("--output_base=$LOCKSTEP_OUTPUT_BASE")
  # An exported JAVA_HOME would silently choose another JDK than the distribution's.
  env -u JAVA_HOME bazel "${startup[@]}" "$@"
}

# Bazel for the configurations that clang compiles (.bazelrc), in an output base of their own: another
# compiler would throw away what is known of the ordinary build.
sanitized_bazel() {
  local base
  base="$(run_bazel info output_base 2>/dev/null)" || die "bazel does not start"
  LOCKSTEP_OUTPUT_BASE="$base-sanitized" run_bazel "$@"
}

# The folder of the optimised binaries. Not the build/bin link: that is whichever build ran last.
binaries() { run_bazel info bazel-bin 2>/dev/null; }

cmd_build() {
  cmd_setup
  build_targets //... || exit 1
  refresh_compdb
}

build_targets() {
  prune_disk_cache
  step "Building" run_bazel build --keep_going -- "$@"
}

# Bazel never forgets what it has put into the disk cache (.bazelrc): when it takes more than
# LOCKSTEP_CACHE_GIB, the oldest goes. Programs first, which are most of it and are linked again in a
# second; without the objects, everything would be compiled again.
prune_disk_cache() {
  local cache="$HOME/.cache/lockstep/bazel" limit_gib="${LOCKSTEP_CACHE_GIB:-24}"
  [[ -d "$cache" ]] || return 0
  { find "$cache" -type f -size -8M -printf '%A@ %s %p\0' | sort -z -rn
    find "$cache" -type f -size +7M -printf '%A@ %s %p\0' | sort -z -rn; } |
    awk -v RS='\0' -v ORS='\0' -v limit="$limit_gib" \
      '{ sum += $2 } sum > limit * 2^30 { sub(/^[^ ]+ [^ ]+ /, ""); print }' |
    xargs -0 -r rm -f
}

cmd_compdb() {
  cmd_setup
  write_compdb
}

# Writes compile_commands.json again where a BUILD or .bzl file is newer than it.
refresh_compdb() {
  if [[ -f compile_commands.json ]]; then
    local newer
    newer="$(own_files BUILD.bazel '*.bzl' WORKSPACE .bazelrc |
      xargs -0 -r -I{} find {} -newer compile_commands.json)"
    [[ -n "$newer" ]] || return 0
  fi
  write_compdb
}

write_compdb() { step "Writing compile_commands.json" make_compdb; }

make_compdb() {
  local actions="$LOGS/actions.json"
  # Each source by itself: that is what an editor shows and clang-tidy reads.
  run_bazel aquery --config=file_by_file --output=jsonproto 'mnemonic("CppCompile", //...)' >"$actions" &&
    /usr/bin/python3 tools/dev.d/compdb.py \
      --actions "$actions" --workspace "$ROOT" \
      --execution_root "$(run_bazel info execution_root 2>/dev/null)" \
      --output compile_commands.json
}
