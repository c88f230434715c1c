# shellcheck shell=sh disable=SC2154 # api.sh is in front of it
# Makes the keys of this release, unless they are in its two Secrets, which helm has made; and the list of who may come in, at every install, upgrade and
# rollback.
main() {
  case "$GENERATION" in
    '' | *[!0-9]*)
      echo "keys.generation: \"$GENERATION\" is no whole number" >&2
      exit 1
      ;;
  esac
  fetch "$CLIENT_SECRET" client
  fetch "$SERVICES_SECRET" services
  # A rollback to a smaller number keeps the keys: those from before it are gone.
  if [ ! -e services/controller.key ] || [ "$GENERATION" -gt "$(cat services.generation)" ]; then
    rm -rf services
    mkdir services
    for name in controller worker; do lockstep keys new "$name" --out "services/$name.key" >/dev/null; done
    lockstep keys show services/controller.key >services/controller.pub
    echo "$GENERATION" >services.generation
    # A client's key from before is let in no more.
    echo none >client.generation
    echo "New keys were made: generation $GENERATION."
  fi
  # Nor one that a former attempt has left, which came only half way.
  if [ ! -e client/client.key ] || [ "$(cat client.generation)" != "$(cat services.generation)" ]; then
    rm -rf client
    mkdir client
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
  echo 0 >"$2.generation"
  status="$(api GET "$SECRETS/$1")"
  case "$status" in
    404)
      echo "There is no Secret $1, which helm makes, empty, before this Job fills it: run helm upgrade." >&2
      exit 1
      ;;
    200) ;;
    *) refuse "cannot read the Secret $1" "$status" ;;
  esac
  owner="$(jq -r '.metadata.labels["app.kubernetes.io/instance"] // ""' answer.json)"
  if [ "$owner" != "$RELEASE" ]; then
    echo "The Secret $1 is not this release's (it is of \"$owner\"): name it keys.existingSecret, or give this release another name." >&2
    exit 1
  fi
  jq -r '.metadata.annotations["lockstep.dev/generation"] // 0 | tonumber | floor | tostring' answer.json >"$2.generation"
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

# store SECRET FOLDER: the whole folder, in the place of what was there. No key is on a command line.
store() {
  echo '{}' >data.json
  for file in "$2"/*; do
    jq --arg name "${file##*/}" --rawfile text "$file" '.[$name] = ($text | @base64)' data.json >next.json
    mv next.json data.json
  done
  jq --arg secret "$1" --argjson labels "$LABELS" --arg generation "$(cat services.generation)" '{
    apiVersion: "v1", kind: "Secret", type: "Opaque", data: .,
    metadata: {name: $secret, labels: $labels, annotations: {"lockstep.dev/generation": $generation}}}' data.json >secret.json
  status="$(api PUT "$SECRETS/$1" secret.json)"
  case "$status" in 200) ;; *) refuse "cannot write the Secret $1" "$status" ;; esac
}

main
