# shellcheck shell=sh disable=SC2034,SC2153 # for the scripts behind it; Kubernetes sets the variables
# What a Job of this chart's asks Kubernetes, as its service account.
ACCOUNT=/var/run/secrets/kubernetes.io/serviceaccount
case "$KUBERNETES_SERVICE_HOST" in *:*) KUBERNETES_SERVICE_HOST="[$KUBERNETES_SERVICE_HOST]" ;; esac
SECRETS="https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$NAMESPACE/secrets"
umask 077
# In memory, and nobody else's: keys are not read where others could put another file in their place.
mkdir -m 700 /dev/shm/keys
cd /dev/shm/keys || exit

# api METHOD URL [FILE]: prints the status; the answer is in answer.json, or in the log if it is an error.
api() {
  curl --silent --show-error --retry 5 --retry-all-errors --max-time 30 --cacert "$ACCOUNT/ca.crt" \
    --header "Authorization: Bearer $(cat "$ACCOUNT/token")" --header "Content-Type: application/json" \
    --request "$1" ${3:+--data-binary "@$3"} --output answer.json --write-out '%{http_code}' "$2"
}

# refuse WHAT STATUS
refuse() {
  echo "$1: Kubernetes answers $2: $(head -c 500 answer.json)" >&2
  exit 1
}
