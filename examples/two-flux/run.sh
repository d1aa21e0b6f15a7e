#!/bin/sh
# Two Flux instances behind one Rainbow: a client submits to both, a job in A submits to B, and one in B to A.
# With a real `flux` on PATH two real instances are started; without one, the stand-in that the tests use.
#   examples/two-flux/run.sh        (after `make setup`; needs nothing else, leaves nothing behind)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
PATH="$top/.venv/bin:$PATH"
dir=$(mktemp -d)
export HOME="$dir/home" XDG_STATE_HOME="$dir/home/state" XDG_DATA_HOME="$dir/home/data"
mkdir -p "$HOME"
pids=
stop() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    touch "$dir/stop"
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM
step() { printf '\n== %s\n' "$*"; }
until_there() { # until_there FILE: wait for a file that another process writes
    for _ in $(seq 300); do [ -s "$1" ] && return 0; sleep 0.1; done
    echo "$1 did not appear" >&2
    exit 1
}

real=$(command -v flux || true)
flux=${real:-$top/tests/support/flux_stand_in/flux}
start_instance() { # start_instance NAME: its address comes into $dir/NAME.uri
    if [ -n "$real" ]; then
        flux start --test-size=2 sh -c "flux getattr local-uri > $dir/$1.uri; while [ ! -e $dir/stop ]; do sleep 0.2; done" &
        pids="$pids $!"
    else
        mkdir -p "$dir/$1"
        cores='{"rank": "0-1", "children": {"core": "0-3"}}'
        echo "{\"version\": 1, \"execution\": {\"R_lite\": [$cores], \"nodelist\": [\"$1[1-2]\"]}}" > "$dir/$1/resource.json"
        echo '{"fluxion": true, "policy": "fcfs"}' > "$dir/$1/scheduler.json"
        echo "local://$dir/$1" > "$dir/$1.uri"
    fi
    until_there "$dir/$1.uri"
}

kind=stand-in
[ -z "$real" ] || kind=real
step "two Flux instances ($kind)"
start_instance a
start_instance b
for name in a b; do rainbow discover --manager flux --name "$name" -O "uri=$(cat "$dir/$name.uri")" -O "flux=$flux"; done

step "one Rainbow server"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export RAINBOW_SERVER="127.0.0.1:$port"
rainbow server --listen "$RAINBOW_SERVER" --data-dir "$dir/server" 2> "$dir/server.log" &
pids="$pids $!"
until_there "$dir/server/admin.token"
RAINBOW_TOKEN=$(cat "$dir/server/admin.token")
RAINBOW_REGISTRATION_SECRET=$(cat "$dir/server/registration.secret")
export RAINBOW_TOKEN RAINBOW_REGISTRATION_SECRET

step "an agent beside each instance"
root=
[ "$(id -u)" != 0 ] || root=--run-as-root
for name in a b; do
    rainbow agent --cluster "$name" --backend flux --register auto --state-dir "$dir/agent-$name" $root \
        -O "uri=$(cat "$dir/$name.uri")" -O "flux=$flux" -O interval=0.5 2> "$dir/agent-$name.log" &
    pids="$pids $!"
done
for name in a b; do until_there "$dir/agent-$name/secret"; done
unset RAINBOW_REGISTRATION_SECRET
sleep 2
rainbow clusters

step "a client submits to both"
for name in a b; do rainbow run -M "$name" -N2 -n2 -- sh -c 'echo "task $RAINBOW_TASK_RANK of $RAINBOW_TASKS in $RAINBOW_CLUSTER"'; done

step "a job in A submits to B, and one in B to A"
# A job does not see its agent's RAINBOW_ variables: what it may use is handed to it under names of its own.
hello='echo "hello to $RAINBOW_CLUSTER from job $FROM in $WHERE"'
for pair in "a b" "b a"; do
    set -- $pair
    rainbow run -M "$1" --env "SERVER=$RAINBOW_SERVER" --env "TOKEN=$RAINBOW_TOKEN" -- sh -c "
        export RAINBOW_SERVER=\$SERVER RAINBOW_TOKEN=\$TOKEN
        rainbow run -M $2 --env FROM=\$RAINBOW_JOB_ID --env WHERE=$1 -- sh -c '$hello'"
done

step "all jobs"
rainbow jobs -a
