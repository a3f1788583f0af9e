#!/bin/bash
# Stands for systemd on a machine that has none: kubeadm starts and stops kubelet by it.
set -u
pid=@RUN@/kubelet.pid
running() { [ -s "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }
case "${1:-} ${2:-}" in
  "stop kubelet"*|"restart kubelet"*)
    if running; then kill "$(cat "$pid")"; while running; do sleep 0.05; done; fi ;;&
  "start kubelet"*|"restart kubelet"*)
    running && exit 0
    KUBELET_KUBEADM_ARGS=
    [ -f /var/lib/kubelet/kubeadm-flags.env ] && . /var/lib/kubelet/kubeadm-flags.env
    setsid @KUBELET@ --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
      --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS >>@LOG@ 2>&1 </dev/null &
    echo $! >"$pid" ;;
  "is-active kubelet"*|"is-active --quiet kubelet"*) running ;;
  *) exit 0 ;;
esac
