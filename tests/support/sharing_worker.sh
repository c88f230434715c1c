#!/bin/sh
# A worker that shares its GPU with others, where there are fewer than a test has workers: NCCL takes ranks with
# different names of their host for ranks on different hosts, and lets them have the same GPU.
gpus="$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l)"
if [ "$gpus" -lt 8 ]; then
  export NCCL_HOSTID="sharing-$$"
fi
exec "$(dirname "$0")/../../services/worker/lockstep-worker" "$@"
