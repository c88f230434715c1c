#!/bin/sh
# shellcheck disable=SC2034 # what mint.sh reads
# The script that mints keys (charts/lockstep/files/mint.sh), with a Kubernetes of two files and a `lockstep` of echoes.
# Needs jq.
#
# usage: mint_test.sh
set -eu

MINT="$(cd "$(dirname "$0")/../.." && pwd)/charts/lockstep/files/mint.sh"
WORK="$(mktemp -d)"
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"
mkdir store

# What the script finds. $BROKEN: a Secret that cannot be written.
cat >stubs.sh <<'STUBS'
SECRETS=secrets SERVICES_SECRET=services-secret CLIENT_SECRET=client-secret ALLOWED="reader lpk_A ada
"
LABELS='{"app.kubernetes.io/instance": "demo"}'
api() {
  secret="$WORK/store/${2##*/}"
  case "$1" in
    GET) if [ -e "$secret" ]; then cp "$secret" answer.json && printf 200; else printf 404; fi ;;
    PUT)
      if [ ! -e "$secret" ]; then
        printf 404
      elif [ "${2##*/}" = "${BROKEN:-}" ]; then
        printf 500
      else
        cp "$3" "$secret" && printf 200
      fi
      ;;
    # It has no right to do anything else.
    *) printf 403 ;;
  esac
}
refuse() { exit 1; }
lockstep() {
  case "$1 $2" in
    "keys new") printf '%s-%s\n' "$3" "$(od -An -N8 -tx1 /dev/urandom | tr -d ' ')" >"$5" ;;
    "keys show") sed 's/^/public-/' "$3" ;;
    "keys allow") echo "$3 $4 $(cat "$5" 2>/dev/null || echo "$5")" >>"$7" ;;
  esac
}
STUBS

# mint GENERATION: as a Job of its own, as the chart runs it.
mint() {
  rm -rf job
  mkdir job
  (cd job && GENERATION="$1" RELEASE="${RELEASE:-demo}" WORK="$WORK" sh -euc ". ../stubs.sh; . '$MINT'") >log 2>&1
}

# helm_makes SECRET: as the chart has it made before the Job, unless it is there.
helm_makes() { [ -e "store/$1" ] || echo '{"metadata": {"labels": {"app.kubernetes.io/instance": "demo"}}}' >"store/$1"; }

# of SECRET NAME: a file of a Secret.
of() { jq -j --arg name "$2" '.data[$name] | @base64d' "store/$1"; }
generations() { jq -r '.metadata.annotations["lockstep.dev/generation"]' store/services-secret store/client-secret | paste -sd ' '; }

# mints GENERATION [KEPT]: and what holds then. KEPT: the generation that stays.
mints() {
  mint "$1" || fail "it does not succeed"
  must_fit "${2:-$1}"
}

must_fit() {
  [ "$(generations)" = "$1 $1" ] || fail "the generations are $(generations), not $1"
  of services-secret allowed_keys | grep -qxF "operator release $(of client-secret client.key)" || fail "the client's own key is not let in"
  of services-secret allowed_keys | grep -qxF "reader ada lpk_A" || fail "whom the values name is not let in"
  [ "$(of client-secret controller.pub)" = "public-$(of services-secret controller.key)" ] || fail "the client knows another controller"
}

# must_keep, must_change: the keys, compared to those of the last time.
keys() { of services-secret controller.key && of services-secret worker.key && of client-secret client.key; }
must_keep() { keys | diff - last >/dev/null || fail "there are other keys"; }
must_change() {
  ! keys | grep -qxFf last || fail "a key is one from before"
  keys >last
}

fail() {
  echo "tests/kubernetes/mint_test.sh: $STEP: $1" >&2
  cat log >&2
  exit 1
}

STEP="the first time"
helm_makes services-secret
helm_makes client-secret
mints 1
keys >last
STEP="an upgrade"
mints 1
must_keep
STEP="another generation"
mints 2
must_change
STEP="a generation that comes only half way, and once more"
export BROKEN=client-secret
! mint 3 || fail "it is said to have succeeded"
export BROKEN=""
mints 3
must_change
STEP="a rollback"
mints 1 3
must_keep
STEP="without the services' Secret"
rm store/services-secret
! mint 4 || fail "it is said to have succeeded"
grep -q "There is no Secret services-secret, .* run helm upgrade" log || fail "it does not say what to do"
helm_makes services-secret
mints 4
must_change
STEP="a generation as YAML writes large numbers"
jq '.metadata.annotations["lockstep.dev/generation"] = "2.0260115e+07"' store/services-secret >changed
mv changed store/services-secret
mints 20260116
must_change
STEP="what is no generation"
! mint 2.0260117e+07 || fail "it is said to have succeeded"
STEP="another release's Secret"
! RELEASE=other mint 20260118 || fail "it is said to have succeeded"
must_keep
