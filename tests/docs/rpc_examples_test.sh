#!/bin/sh
# Runs the examples that need gRPC. Two workers update a parameter server, and no update is lost. A server follows the
# folder of a run while a client pulls: no pull fails, and each is of one step.
set -eu
folder=$(mktemp -d)
pids=""
trap 'kill $pids 2> /dev/null || true; rm -rf "$folder"' EXIT

expect() { # NAME WANTED FOUND
  if [ "$2" != "$3" ]; then
    printf '%s: wanted\n%s\nfound\n%s\n' "$1" "$2" "$3"
    exit 1
  fi
}

address_in() { # FILE: its first line, once it is there
  tries=0
  until [ -s "$1" ] || [ "$tries" -ge 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  head -n 1 "$1"
}

examples/parameter_server server 200 > "$folder/server" &
server=$!
pids="$server"
address=$(address_in "$folder/server")
examples/parameter_server worker "$address" 0 &
one=$!
examples/parameter_server worker "$address" 4 &
two=$!
pids="$server $one $two"
wait "$one"
wait "$two"
wait "$server"
# Rows 4 to 7 are those of both workers.
expect "parameter server" "[[100 100] [100 100] [100 100] [100 100] [200 200] [200 200] [200 200] [200 200] [100 100] [100 100] [100 100] [100 100]]" "$(tail -n +2 "$folder/server")"

mkfifo "$folder/stop"
mkdir "$folder/run"
examples/follow_run serve "$folder/run" > "$folder/following" < "$folder/stop" &
server=$!
exec 3> "$folder/stop"
examples/follow_run train "$folder/run" 30 &
trainer=$!
address=$(address_in "$folder/following")
examples/follow_run use "$address" 30 > "$folder/first" &
one=$!
examples/follow_run use "$address" 30 > "$folder/second" &
two=$!
pids="$server $trainer $one $two"
wait "$trainer"
wait "$one"
wait "$two"
exec 3>&-
wait "$server"
for client in first second; do
  expect "$client client" "step 30: every pull was whole and of one step" "$(cat "$folder/$client")"
done
