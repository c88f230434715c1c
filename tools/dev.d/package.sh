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
    build_targets //services/... //tools/cli/... //examples/... //packaging/... || return
  # Who checks packages and then makes images, which consist of them, does it once.
  local made="$ROOT/build/packages/made" of
  of="$(packages_are_made_of)" || return
  [[ "$(cat "$made" 2>/dev/null)" != "$of $(digest_of_packages)" ]] || return 0
  step "Packing" "$ROOT/packaging/debs.sh" "$(binaries)" "$ROOT/build/packages" || return
  printf '%s %s\n' "$of" "$(digest_of_packages)" >"$made"
}

# A digest of all that goes into them: our files, what is built, the distribution's packages, whose packages they are.
packages_are_made_of() {
  local built
  built="$(binaries)" || return
  {
    own_files '*' | xargs -0 sha256sum &&
      (cd "$built" && find services tools/cli examples packaging schemas -type f ! -name '*.o' -print0 | LC_ALL=C sort -z |
        xargs -0 sha256sum) &&
      dpkg-query -W -f '${Package} ${Version}\n' &&
      printf '%s\n' "${SOURCE_DATE_EPOCH:-$(commit_date)}" "${DEBFULLNAME:-}" "${DEBEMAIL:-}"
  } >"$LOGS/made_of" || return
  sha256sum <"$LOGS/made_of" | cut -d ' ' -f 1
}

# Of the packages that are there.
digest_of_packages() {
  find "$ROOT/build/packages" -name '*.deb' -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 cat | sha256sum | cut -d ' ' -f 1
}
