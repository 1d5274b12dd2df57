#!/usr/bin/env bash
# A real Slurm of two nodes on one machine: munged, slurmctld, two slurmd, no systemd, no cgroups.
#
#   cluster.sh up DIR     start it, with its configuration, state and logs below DIR
#   cluster.sh stop-controller DIR | start-controller DIR
#   cluster.sh down DIR   stop it
#
# Whoever sets SLURM_CONF=DIR/etc/slurm.conf uses it. Nothing outside DIR is touched and ports are
# free ones, so it lives beside others and beside a Slurm that the machine has anyway. DIR should be
# short: it holds sockets. Needs root and Debian's packages slurm-wlm and munge. The nodes have 32
# CPUs and 4 GPUs each, in name only: the devices are copies of /dev/null, so jobs see
# CUDA_VISIBLE_DEVICES and no GPU.
set -euo pipefail
action=$1 dir=$(realpath -m "$2")
export SLURM_CONF="$dir/etc/slurm.conf"

free_ports() {  # free_ports N: all taken at once, so that they differ
  python3 -c 'import socket, sys
probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(probe.getsockname()[1] for probe in probes))' "$1"
}

configure() {
  mkdir -p "$dir"/{dev,etc,log,munge,spool/node1,spool/node2,state}
  for gpu in 0 1 2 3; do
    # Not every container may make devices; a plain file is counted, jobs lack the variable then.
    [ -e "$dir/dev/nvidia$gpu" ] || mknod "$dir/dev/nvidia$gpu" c 1 3 || touch "$dir/dev/nvidia$gpu"
  done
  echo "NodeName=node[1-2] Name=gpu File=$dir/dev/nvidia[0-3]" >"$dir/etc/gres.conf"
  read -r controller first second <<<"$(free_ports 3)"
  # cred_expire: a requeued job waits for the old credential to expire, two minutes unless told
  # otherwise. DefMemPerCPU: else a job without --mem fills a node. config_overrides: a node may
  # have more CPUs than the machine. MinJobAge: how long squeue remembers a job.
  cat >"$SLURM_CONF" <<CONF
ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$controller
AuthType=auth/munge
AuthInfo=cred_expire=5,socket=$dir/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/state/slurmctld.pid
SlurmdPidFile=$dir/state/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
MinJobAge=3600
KillWait=10
GresTypes=gpu
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$first CPUs=32 RealMemory=256000 Gres=gpu:4
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$second CPUs=32 RealMemory=256000 Gres=gpu:4
PartitionName=gpu Nodes=node[1-2] Default=YES MaxTime=1-0 State=UP
CONF
}

start_munged() {  # one of our own, with a key of its own
  (umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
  # --force: it dislikes temporary folders that others may not enter.
  munged --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
    --pid-file="$dir/state/munged.pid" --seed-file="$dir/munge/seed" \
    --log-file="$dir/log/munged.log" 2>>"$dir/log/munged.log"
}

stop() {  # stop NAME...: by their own process ids, and wait until they are gone
  local name processes=()
  for name in "$@"; do
    [ ! -s "$dir/state/$name.pid" ] || processes+=("$(cat "$dir/state/$name.pid")")
  done
  [ ${#processes[@]} -gt 0 ] || return 0
  kill "${processes[@]}" 2>/dev/null || return 0
  # kill succeeds as long as one of them is there.
  for _ in $(seq 400); do kill -0 "${processes[@]}" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "${processes[@]}" 2>/dev/null || true
}

await_nodes() {
  for _ in $(seq 300); do
    [ "$(sinfo -h -N -t idle,alloc,mix -o %N 2>/dev/null | wc -l)" = 2 ] && return 0
    sleep 0.1
  done
  echo "the nodes did not come up:" >&2
  tail -n 20 "$dir"/log/*.log >&2
  exit 1
}

case $action in
up)
  configure
  start_munged
  slurmctld
  for node in node1 node2; do slurmd -N $node; done
  await_nodes
  ;;
stop-controller) stop slurmctld ;;
start-controller) slurmctld ;;
down)
  timeout 20 scancel --user="$(id -un)" 2>/dev/null || true
  stop slurmd-node1 slurmd-node2 slurmctld munged
  ;;
*)
  echo "no such action: $action" >&2
  exit 2
  ;;
esac
