# shellcheck shell=bash
# tools/dev lint and fmt. Each check is one step; `tools/dev test` counts each as one test.

LINT_CHECKS=(check_format check_tidy check_shell check_layers check_links check_pins check_units)
readonly LINT_CHECKS

cmd_lint() {
  cmd_build
  local check failed=0
  for check in "${LINT_CHECKS[@]}"; do "$check" || failed=1; done
  exit "$failed"
}

cmd_fmt() {
  cmd_setup
  step "Formatting" with_files clang-format-14 -i
}

check_format() { step "Checking the format" with_files clang-format-14 --dry-run -Werror; }

# Reads compile_commands.json, hence after a build; files that passed before are not read again.
check_tidy() {
  step "Checking with clang-tidy" /usr/bin/python3 tools/dev.d/tidy.py \
    --program "$(wheel_folder clang_tidy)/clang_tidy/data/bin/clang-tidy" --cache "$HOME/.cache/lockstep/tidy"
}

check_shell() { step "Checking the scripts" shellcheck_scripts; }

check_layers() { step "Checking the layers" /usr/bin/python3 tools/dev.d/check_layers.py; }

check_links() { step "Checking the documents' links" links; }

check_pins() { step "Checking the pins" compare_pins; }

# with_files COMMAND...: the command with every C and C++ source of ours as arguments.
with_files() { own_files '*.h' '*.c' '*.cc' | xargs -0 -r "$@"; }

links() { own_files '*.md' | xargs -0 -r /usr/bin/python3 tools/dev.d/check_links.py; }

shellcheck_scripts() {
  own_files '*' | xargs -0 -r grep -lIZE --max-count=1 '^(#!.*\b(ba)?sh|# shellcheck shell=)' |
    xargs -0 -r shellcheck --external-sources
}

check_units() { step "Checking the units" compare_units; }

# Every source is compiled, and with the same options, in units and by itself (tools/bazel/cc.bzl).
compare_units() {
  local mode
  for mode in yes no; do
    run_bazel aquery --output=jsonproto "--define=file_by_file=$mode" 'mnemonic("CppCompile", //...)' \
      >"$LOGS/file_by_file_$mode.json" || return
  done
  /usr/bin/python3 tools/dev.d/check_units.py "$LOGS/file_by_file_yes.json" "$LOGS/file_by_file_no.json"
}

# The version of tvm-ffi stands in two places, because Bazel's language cannot read the other one.
compare_pins() {
  local installed built
  installed="$(pinned_version tvm_ffi)"
  built="$(sed -n 's/^TVM_FFI_VERSION = "\(.*\)"/\1/p' third_party/tvm_ffi/tvm_ffi.bzl)"
  [[ -n "$installed" && "$installed" == "$built" ]] ||
    die "tvm_ffi.txt pins '$installed', third_party/tvm_ffi/tvm_ffi.bzl '$built'"
}
