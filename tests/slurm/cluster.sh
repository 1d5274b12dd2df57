#!/usr/bin/env bash
# A real Slurm of two nodes on one machine: munged, slurmctld, two slurmd, no systemd, no cgroups.
#
#   cluster.sh up DIR     start it, with its state and logs below DIR
#   cluster.sh stop-controller DIR | start-controller DIR
#   cluster.sh down DIR   stop it and take its configuration out of /etc/slurm again
#
# Needs root and Debian's packages slurm-wlm and munge. The nodes have 32 CPUs and 4 GPUs each, in
# name only: the devices are copies of /dev/null, so jobs see CUDA_VISIBLE_DEVICES and no GPU.
set -euo pipefail
action=$1 dir=$(realpath -m "$2")

configure() {
  if [ -e /etc/slurm/slurm.conf ] && [ ! -L /etc/slurm/slurm.conf ]; then
    echo "this machine has a Slurm of its own (/etc/slurm/slurm.conf): not touched" >&2
    exit 1
  fi
  mkdir -p "$dir"/{dev,etc,log,spool/node1,spool/node2,state} /etc/slurm
  for gpu in 0 1 2 3; do
    [ -c "$dir/dev/nvidia$gpu" ] || mknod "$dir/dev/nvidia$gpu" c 1 3
  done
  echo "NodeName=node[1-2] Name=gpu File=$dir/dev/nvidia[0-3]" >"$dir/etc/gres.conf"
  # AuthInfo: a requeued job waits for the old credential to expire, two minutes unless told
  # otherwise. DefMemPerCPU: else a job without --mem fills a node. config_overrides: a node may
  # have more CPUs than the machine. MinJobAge: how long squeue remembers a job.
  cat >"$dir/etc/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=26817
AuthType=auth/munge
AuthInfo=cred_expire=5
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
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=27001 CPUs=32 RealMemory=256000 Gres=gpu:4
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=27002 CPUs=32 RealMemory=256000 Gres=gpu:4
PartitionName=gpu Nodes=node[1-2] Default=YES MaxTime=1-0 State=UP
CONF
  # Where every client looks: the environment of a job need not carry SLURM_CONF.
  ln -sfn "$dir/etc/slurm.conf" /etc/slurm/slurm.conf
  ln -sfn "$dir/etc/gres.conf" /etc/slurm/gres.conf
}

stop() {  # stop NAME: by its own process id, and wait until it is gone
  local file="$dir/state/$1.pid" process
  [ -s "$file" ] || return 0
  process=$(cat "$file")
  kill "$process" 2>/dev/null || return 0
  for _ in $(seq 400); do kill -0 "$process" 2>/dev/null || return 0; sleep 0.1; done
  kill -9 "$process" 2>/dev/null || true
}

await_nodes() {
  for _ in $(seq 150); do
    [ "$(sinfo -h -N -t idle,alloc,mix -o %N 2>/dev/null | wc -l)" = 2 ] && return 0
    sleep 0.1
  done
  echo "the nodes did not come up; see $dir/log" >&2
  sinfo -N -l >&2
  exit 1
}

case $action in
up)
  configure
  install -d -o munge -g munge -m 0755 /run/munge
  munge -n >/dev/null 2>&1 || runuser -u munge -- /usr/sbin/munged
  slurmctld
  for node in node1 node2; do slurmd -N $node; done
  await_nodes
  ;;
stop-controller) stop slurmctld ;;
start-controller) slurmctld ;;
down)
  scancel --user="$(id -un)" 2>/dev/null || true
  for daemon in slurmd-node1 slurmd-node2 slurmctld; do stop $daemon; done
  for link in slurm.conf gres.conf; do
    [ "$(readlink /etc/slurm/$link)" = "$dir/etc/$link" ] && rm /etc/slurm/$link
  done
  ;;
*)
  echo "no such action: $action" >&2
  exit 2
  ;;
esac
