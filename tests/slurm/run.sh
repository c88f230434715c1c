#!/usr/bin/env bash
# Runs examples/slurm/lockstep.sbatch on a Slurm of one node, which it starts on loopback and ends.
#
# usage: run.sh BINARIES
#
# BINARIES: Bazel's folder of the optimised build. Needs root, and Debian's slurm-wlm and munge.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
PIDS=()

main() {
  BINARIES="$(realpath "${1:?the folder of the binaries}")"
  WORK="$(mktemp -d /tmp/lockstep-slurm.XXXXXX)"
  chmod 755 "$WORK" # for the daemons' users
  trap clean_up EXIT
  start_munge
  start_slurm
  the_job_trains_and_leaves_no_keys
  a_program_that_fails_fails_the_job
  a_killed_worker_leaves_the_others
  echo "The example for Slurm is good."
}

start_munge() {
  install -d -o munge -g munge -m 700 "$WORK/munge"
  install -d -o munge -g munge -m 755 "$WORK/munge-run"
  dd if=/dev/urandom of="$WORK/munge/key" bs=128 count=1 status=none
  chown munge "$WORK/munge/key" && chmod 400 "$WORK/munge/key"
  background munge setpriv --reuid munge --regid munge --clear-groups munged --foreground \
    --key-file="$WORK/munge/key" --socket="$WORK/munge-run/socket" --pid-file="$WORK/munge-run/pid" \
    --log-file="$WORK/munge/log" --seed-file="$WORK/munge/seed"
  wait_for "munge" test -S "$WORK/munge-run/socket"
}

start_slurm() {
  local node
  node="$(hostname -s)"
  install -d "$WORK/state" "$WORK/spool"
  cat >"$WORK/slurm.conf" <<CONF
ClusterName=lockstep
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$WORK/munge-run/socket
CredType=cred/munge
StateSaveLocation=$WORK/state
SlurmdSpoolDir=$WORK/spool
SlurmctldPidFile=$WORK/slurmctld.pid
SlurmdPidFile=$WORK/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
# A job begins when the one before it has ended, not at the next full minute.
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MinJobAge=10
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
# More tasks than this machine has cores: what is tried is which process starts what.
NodeName=$node NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF="$WORK/slurm.conf"
  background slurmctld slurmctld -D
  background slurmd slurmd -D
  wait_for "an idle node" node_is_idle
}

node_is_known() { sinfo >/dev/null 2>&1; }

node_is_idle() { [[ "$(sinfo --noheader --format=%T 2>/dev/null)" == idle* ]]; }

# job PROGRAM...: the example, with this program; its output is in $WORK/job/out. Returns whether the job completed.
job() {
  local id
  rm -rf "$WORK/job"
  mkdir -m 755 "$WORK/job"
  cd "$WORK/job"
  PATH="$BINARIES/tools/cli:$BINARIES/services/controller:$BINARIES/services/worker:$PATH" \
    sbatch --parsable --output=out --ntasks-per-node=4 --export=ALL \
    "$ROOT/examples/slurm/lockstep.sbatch" "$@" >"$WORK/sbatch" 2>&1 || fail "sbatch fails"
  id="$(cat "$WORK/sbatch")"
  # Not `sbatch --wait`, which looks less and less often.
  wait_for "end of job $id" has_ended "$id"
  [[ "$(state_of "$id")" == COMPLETED ]]
}

state_of() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }

has_ended() { [[ ! "$(state_of "$1")" =~ ^(PENDING|CONFIGURING|RUNNING|COMPLETING)$ ]]; }

the_job_trains_and_leaves_no_keys() {
  export LOCKSTEP_WORKER_OPTIONS="--set arena_bytes=256MiB"
  job lockstep run "$ROOT/examples/programs/collectives.yaml" || fail "the job fails"
  expect 'on 4 workers.*14 of 14 expectations met' "$WORK/job/out"
  local left
  left="$(find "$WORK/job" -name '*.key' -o -name '*.lock')"
  [[ -z $left ]] || fail "left: $left"
  compgen -G "$WORK/job/lockstep-*/worker-3.log" >/dev/null || fail "there is no log of rank 3"
}

a_program_that_fails_fails_the_job() {
  job bash -c 'echo "here it fails"; exit 3' && fail "a job whose program fails does not"
  expect 'here it fails' "$WORK/job/out"
  job lockstep run /nonexistent.yaml && fail "a job whose program fails does not"
  expect nonexistent "$WORK/job/out"
}

# The step goes on, so that the program hears which rank is lost; it decides what becomes of the job.
a_killed_worker_leaves_the_others() {
  cat >"$WORK/kill.sh" <<'SH'
#!/bin/bash
until lockstep status --output json >status.json && grep -q '"ready": true' status.json; do sleep 0.1; done
kill -KILL "$(python3 -c 'import json; print(json.load(open("status.json"))["workers"][2]["pid"])')"
until lockstep status | tee status.txt | grep lost; do sleep 0.1; done
lockstep why
SH
  chmod 755 "$WORK/kill.sh"
  job "$WORK/kill.sh" || fail "the job fails with a worker of its"
  expect '^ *2 +lost' "$WORK/job/out"
  expect "submit the job again .nothing in job $(cat "$WORK/sbatch") starts" "$WORK/job/out"
}

# expect PATTERN FILE
expect() {
  grep -qE "$1" "$2" || fail "there is no \"$1\" in its output"
}

# background NAME COMMAND...
background() {
  local name="$1"
  shift
  "$@" >"$WORK/$name.log" 2>&1 </dev/null &
  PIDS+=($!)
}

# wait_for WHAT COMMAND...
wait_for() {
  local what="$1" tries=0
  shift
  until "$@"; do
    ((++tries < 600)) || fail "there is no $what after a minute"
    sleep 0.1
  done
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

fail() {
  {
    echo "tests/slurm: $*"
    tail -n 20 "$WORK"/*.log "$WORK/sbatch" "$WORK/job/out" "$WORK"/job/lockstep-*/*.log 2>/dev/null
  } >&2
  exit 1
}

clean_up() {
  local i tries=0
  # Daemons that end leave their jobs running.
  if node_is_known; then
    scancel --full --user=root 2>/dev/null || true
    while [[ -n "$(squeue --noheader 2>/dev/null)" ]] && ((++tries < 300)); do sleep 0.1; done
  fi
  for ((i = ${#PIDS[@]} - 1; i >= 0; --i)); do
    kill "${PIDS[i]}" 2>/dev/null || true
    wait "${PIDS[i]}" 2>/dev/null || true
  done
  rm -rf "$WORK"
}

main "$@"
