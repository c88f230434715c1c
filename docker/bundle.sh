#!/bin/bash
# Puts the worker, its compiler of CUDA C++, and the command line that are installed here together with the libraries that
# they need, so that they run on another distribution, whose C and C++ libraries are as new or newer.
#
# usage: bundle.sh FOLDER
set -euo pipefail

readonly FOLDER="$1"
readonly PROGRAMS=(/usr/bin/lockstep-worker /usr/bin/lockstep-cuda-compiler /usr/bin/lockstep)
readonly LIBRARIES=/usr/lib/lockstep # where they look first
# These are used where the distribution has none: its own fit its drivers for InfiniBand, which NCCL asks for, too, and
# its own OpenSSL is set up and kept safe by it.
readonly FALLBACK="$LIBRARIES/fallback"
readonly RATHER_THEIRS='^lib(crypto|ibverbs|nl-3|nl-route-3)\.so'
# These are the distribution's: they belong to its kernel interface, its loader, and whatever else runs there.
readonly OF_THE_SYSTEM='^(linux-vdso|ld-linux-.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+))\.so'

main() {
  install -D -t "$FOLDER/usr/bin" "${PROGRAMS[@]}"
  install -D -m644 -t "$FOLDER$LIBRARIES" "$LIBRARIES/libtvm_ffi.so"
  local name path folder program
  local -a abseil
  # What modules may be linked with, as those of the examples are; the programs have their own inside.
  mapfile -t abseil < <(ldconfig -p | awk '$1 ~ /^libabsl_.*\.so\./ { print $NF }')
  # MPI is not among them: a job of MPI's brings its own.
  {
    for program in "${PROGRAMS[@]}" "${abseil[@]}"; do ldd "$program"; done
    for path in "${abseil[@]}"; do echo "$(basename "$path") => $path"; done
    # Loaded, and not linked, where workers encrypt.
    ldconfig -p | awk '$1 == "libcrypto.so.3" { print $1, "=>", $NF; exit }'
  } | awk '$2 == "=>" { print $1, $3 }' | sort -u |
    while read -r name path; do
      ! [[ $name =~ $OF_THE_SYSTEM ]] || continue
      folder="$LIBRARIES"
      ! [[ $name =~ $RATHER_THEIRS ]] || folder="$FALLBACK"
      install -D -m644 "$path" "$FOLDER$folder/$name"
    done
  # The last that the linker is told of: ldconfig reads these files in the order of their names.
  install -d "$FOLDER/etc/ld.so.conf.d"
  echo "$FALLBACK" >"$FOLDER/etc/ld.so.conf.d/zz-lockstep.conf"
  # RPATH, which also counts where one of these libraries looks for another (RUNPATH would not).
  for program in "${PROGRAMS[@]}"; do patchelf --force-rpath --set-rpath "$LIBRARIES" "$FOLDER$program"; done
  install -D -m644 -t "$FOLDER/usr/share/doc/lockstep-worker" /usr/share/doc/lockstep-worker/copyright
  # Which packages they are from, and their licences.
  {
    echo lockstep-worker
    find "$FOLDER$LIBRARIES" -name '*.so*' ! -name libtvm_ffi.so -printf '%f\n' | packages_of | sort -u
  } | while read -r name; do
    dpkg-query -W -f 'debian\t${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n' "$name"
    install -D -m644 "/usr/share/doc/${name%%:*}/copyright" \
      "$FOLDER/usr/share/doc/lockstep-worker/bundled/${name%%:*}"
  done >"$FOLDER/usr/share/doc/lockstep-worker/bundled.tsv"
}

packages_of() {
  local library
  while read -r library; do dpkg-query -S "*/$library" | cut -d: -f1 | head -n 1; done
}

main
