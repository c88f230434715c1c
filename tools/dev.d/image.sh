# shellcheck shell=bash
# tools/dev image: the container images, and the bill of materials of each.

IMAGES=(controller worker worker-fragments cli worker-cuda)
readonly IMAGES
# How the images are called: PREFIX/controller:VERSION. A name without a registry would be one of a public registry's,
# where it may be a stranger's.
IMAGE_PREFIX="${LOCKSTEP_IMAGE_PREFIX:-localhost/lockstep}"
readonly IMAGE_PREFIX

cmd_image() {
  local compile=0 version
  local -a targets=() arguments=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --compile) compile=1 ;;
      --)
        shift
        arguments=("$@")
        break
        ;;
      -*) usage_error "image: unknown option: $1" ;;
      *)
        [[ " ${IMAGES[*]} " == *" $1 "* ]] || usage_error "image: there is no image $1; there are: ${IMAGES[*]}"
        targets+=("$1")
        ;;
    esac
    shift
  done
  # The one for GPUs stands on a large image, which takes long to fetch, and that for fragments on large libraries.
  [[ ${#targets[@]} -gt 0 ]] || targets=(controller worker cli)
  needs_docker
  version="$(lockstep_version)"
  if [[ $compile == 0 ]] && is_on_the_images_release; then
    [[ " ${targets[*]} " != *" worker-cuda "* ]] || cmd_setup --cuda
    [[ " ${targets[*]} " != *" worker-fragments "* ]] || cmd_setup --fragments
    make_packages || exit 1
    arguments+=(--build-arg PACKAGES=given)
  fi
  mkdir -p build/images
  local target
  for target in "${targets[@]}"; do
    step "Building $IMAGE_PREFIX/$target:$version" \
      build_image "$target" "$version" "${arguments[@]}" || exit 1
    step "Listing what is in it" write_sbom "$target" "$version" || exit 1
  done
  docker images --filter "reference=$IMAGE_PREFIX/*:$version" \
    --format 'table {{.Repository}}:{{.Tag}}\t{{.ID}}\t{{.Size}}'
  note "Bills of materials: build/images/*.spdx.json"
}

# A client of one's choice: LOCKSTEP_DOCKER.
docker() { command "${LOCKSTEP_DOCKER:-docker}" "$@"; }

lockstep_version() { sed -n 's/.*kBuildVersion\[\] = "\(.*\)".*/\1/p' runtime/base/version.h; }

needs_docker() {
  command -v "${LOCKSTEP_DOCKER:-docker}" >/dev/null ||
    die "image needs docker (Debian: docker.io), which is not installed"
  docker version --format '{{.Server.Version}}' >/dev/null 2>"$LOGS/docker" ||
    die "image needs a Docker engine that runs: $(tail -n 1 "$LOGS/docker")"
}

# Packages that are made here fit into the images only if this is the release that those stand on.
is_on_the_images_release() {
  # shellcheck source=/dev/null
  [[ "$(source /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")" == bookworm ]]
}

# build_image TARGET VERSION ARGUMENT...
build_image() {
  local target="$1" version="$2" revision created
  shift 2
  revision="$(git_here rev-parse HEAD 2>/dev/null || printf unknown)"
  created="$(commit_date)"
  DOCKER_BUILDKIT=1 docker build --file docker/Dockerfile --target "$target" \
    --tag "$IMAGE_PREFIX/$target:$version" --build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
    --build-arg "CREATED=$created" --build-arg "SOURCE_DATE_EPOCH=$(date -d "$created" +%s)" "$@" .
}

# Of the same commit, so that the same sources give the same labels.
commit_date() {
  TZ=UTC git_here log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null ||
    date -u -r CHANGELOG.md +%Y-%m-%dT%H:%M:%SZ
}

# write_sbom TARGET VERSION
write_sbom() {
  local image="$IMAGE_PREFIX/$1:$2" distribution wheel
  # Each step says if it fails: this is run where the shell does not end by itself.
  in_image "$image" cat /etc/os-release >"$LOGS/os-release" || return
  distribution="$(sed -n 's/^ID=//p' "$LOGS/os-release")"
  # shellcheck disable=SC2016  # the fields are dpkg-query's to fill in
  in_image "$image" dpkg-query -W \
    -f "$distribution\t"'${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n' \
    >"$LOGS/packages" || return
  if [[ $1 == worker-cuda ]]; then
    in_image "$image" cat /usr/share/doc/lockstep-worker/bundled.tsv >>"$LOGS/packages" || return
  fi
  # The one library of the worker's that is no Debian package.
  if [[ $1 != controller ]]; then
    wheel="$(pinned_version tvm_ffi)"
    printf 'pypi\tapache-tvm-ffi\t%s\tall\tapache-tvm-ffi\t%s\n' "$wheel" "$wheel" >>"$LOGS/packages"
  fi
  /usr/bin/python3 docker/sbom.py "$image" "$(docker image inspect --format '{{.Id}}' "$image")" \
    "$(commit_date)" "$2" <"$LOGS/packages" >"build/images/$1.spdx.json"
}

# in_image IMAGE PROGRAM ARGUMENT...: what a program of the image prints.
in_image() {
  local image="$1" program="$2"
  shift 2
  docker run --rm --network none --entrypoint "$program" "$image" "$@"
}
