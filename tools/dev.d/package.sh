# shellcheck shell=bash
# tools/dev package: Debian packages of the optimised build, and the proof that they are good.

cmd_package() {
  local check=0
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --check) check=1 ;;
      *) usage_error "package: unknown argument: $1" ;;
    esac
    shift
  done
  make_packages || exit 1
  [[ $check == 1 ]] || return 0
  install_packages "$ROOT/tools/dev.d/packages/packaging-check.txt"
  check_packages
}

check_packages() {
  step "Trying the packages on an empty Debian 12" "$ROOT/packaging/check.sh" "$ROOT/build/packages"
}

make_packages() {
  cmd_setup && install_packages "$ROOT/tools/dev.d/packages/packaging.txt" &&
    build_targets //services/... //tools/cli/... //examples/... //packaging/... &&
    step "Packing" "$ROOT/packaging/debs.sh" "$(binaries)" "$ROOT/build/packages"
}
