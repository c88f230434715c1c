# shellcheck shell=sh disable=SC2154 # api.sh is in front of it
# Takes the keys of a release away that was uninstalled.
for secret in "$SERVICES_SECRET" "$CLIENT_SECRET"; do
  status="$(api DELETE "$SECRETS/$secret")"
  case "$status" in 200 | 202 | 404) ;; *) refuse "cannot remove the Secret $secret" "$status" ;; esac
done
