# shellcheck shell=sh disable=SC2154 # api.sh is in front of it
# Makes the keys of this release, unless they are there; and the list of who may come in, at every install and upgrade.
main() {
  fetch "$SERVICES_SECRET" services
  fetch "$CLIENT_SECRET" client
  if [ ! -e services/controller.key ] || [ "$(cat generation 2>/dev/null || true)" != "$GENERATION" ]; then
    rm -rf services client
    mkdir services client
    for name in controller worker; do lockstep keys new "$name" --out "services/$name.key" >/dev/null; done
    lockstep keys show services/controller.key >services/controller.pub
    echo "New keys were made: generation $GENERATION."
  fi
  if [ ! -e client/client.key ]; then
    lockstep keys new client --out client/client.key >/dev/null
  fi
  cp services/controller.pub client/controller.pub
  make_list
  store "$SERVICES_SECRET" services
  store "$CLIENT_SECRET" client
}

# fetch SECRET FOLDER: what it holds, into files.
fetch() {
  mkdir -p "$2"
  status="$(api GET "$SECRETS/$1")"
  case "$status" in
    404) return 0 ;;
    200) ;;
    *) refuse "cannot read the Secret $1" "$status" ;;
  esac
  jq -r '.metadata.annotations["lockstep.dev/generation"] // ""' answer.json >generation
  jq -r '.data // {} | keys[]' answer.json | while read -r name; do
    jq -j --arg name "$name" '.data[$name] | @base64d' answer.json >"$2/$name"
  done
}

# The release's own keys, and those of the values.
make_list() {
  rm -f services/allowed_keys
  lockstep keys allow worker workers services/worker.key --file services/allowed_keys >/dev/null
  lockstep keys allow operator release client/client.key --file services/allowed_keys >/dev/null
  printf '%s' "$ALLOWED" | while read -r role key name; do
    [ -z "$role" ] || lockstep keys allow "$role" "$name" "$key" --file services/allowed_keys >/dev/null
  done
  rm -f services/allowed_keys.lock
}

# store SECRET FOLDER: the whole folder, in the place of what was there.
store() {
  data='{}'
  for file in "$2"/*; do
    data="$(jq --arg name "${file##*/}" --rawfile text "$file" '.[$name] = ($text | @base64)' <<DATA
$data
DATA
)"
  done
  jq -n --arg secret "$1" --arg release "$RELEASE" --arg generation "$GENERATION" --argjson data "$data" '{
    apiVersion: "v1", kind: "Secret", type: "Opaque", data: $data,
    metadata: {name: $secret,
               labels: {"app.kubernetes.io/instance": $release, "app.kubernetes.io/managed-by": "Helm"},
               annotations: {"lockstep.dev/generation": $generation}}}' >secret.json
  status="$(api PUT "$SECRETS/$1" secret.json)"
  [ "$status" != 404 ] || status="$(api POST "$SECRETS" secret.json)"
  case "$status" in 200 | 201) ;; *) refuse "cannot write the Secret $1" "$status" ;; esac
}

main
