#!/bin/sh
# Runs every program of examples/. The training loop continues where it ended, also past a damaged checkpoint; smaller
# checkpoints are smaller; two processes pass batches without copying them; the others print what the guide shows.
set -eu
run="$TEST_TMPDIR/run"

expect() { # NAME WANTED FOUND
  if [ "$2" != "$3" ]; then
    printf '%s: wanted\n%s\nfound\n%s\n' "$1" "$2" "$3"
    exit 1
  fi
}

expect "first run" "from step 0: 0
kept: $run/ckpt-100
kept: $run/ckpt-120" "$(examples/checkpoints "$run")"

expect "second run" "from step 120: 120
kept: $run/ckpt-100
kept: $run/ckpt-200
kept: $run/ckpt-220
kept: $run/ckpt-240" "$(examples/checkpoints "$run")"

printf 'x' > "$run/ckpt-240.data-00000-of-00001"
found=$(examples/checkpoints "$run")
case "$found" in
  "damaged: DATA_LOSS: "*"$run/ckpt-240.data-00000-of-00001"*"from step 220: 220"*"kept: $run/ckpt-340") ;;
  *) printf 'after damage: found\n%s\n' "$found"; exit 1 ;;
esac

expect "save and load" "float32 [2,3]: [[1 2 3] [4 5 6]]
last element: 6" "$(examples/save_and_load "$TEST_TMPDIR/saved")"

expect "safetensors" "dense/bias [2]
dense/kernel [2,3]
float32 [2,3]: [[1 2 3] [4 5 6]]" "$(examples/safetensors "$TEST_TMPDIR/model.safetensors")"

expect "read a checkpoint" "dense/kernel [2,3]
labels [2]
float32 [2,3]: [[1 2 3] [4 5 6]]" "$(examples/read_checkpoint "$TEST_TMPDIR/saved" dense/kernel)"

status=0
found=$(examples/read_checkpoint "$TEST_TMPDIR/saved" dense/bias 2>&1 > /dev/null) || status=$?
expect "status of an absent tensor" 1 "$status"
case "$found" in
  "NOT_FOUND: "*dense/bias*) ;;
  *) printf 'absent tensor: found\n%s\n' "$found"; exit 1 ;;
esac

expect "views" "float32 [3,2] strides [1,3] offset 0: 6 elements in 6 of 6 cells, 4 bytes each
  +-----+-----+-----+
0 | 0,0 | 1,0 | 2,0 |
  +-----+-----+-----+
3 | 0,1 | 1,1 | 2,1 |
  +-----+-----+-----+
float32 [2,3]: [[1 2 3] [4 5 6]]
float16 [2]: [2 5]" "$(examples/views)"

expect "numpy files" "dense/kernel <f4 [2,3]
steps <i8 [2]
float32 [1,3]: [[4 5 6]]
int64 [2] strides [1] offset 0: [100 200]" "$(examples/numpy_files "$TEST_TMPDIR/model.npz")"

expect "memory" "                     pool          current            peak       allocated           freed
allocations          all                 0               1             100             100
allocations          small               0               0               0               0
allocations          large               0               1             100             100
segments             all                 1               1               1               0
segments             small               0               0               0               0
segments             large               1               1               1               0
active               all                 0               1             100             100
active               small               0               0               0               0
active               large               0               1             100             100
inactive_split       all                 0               1             100             100
inactive_split       small               0               0               0               0
inactive_split       large               0               1             100             100
allocated_bytes      all                 0         4194304       419430400       419430400
allocated_bytes      small               0               0               0               0
allocated_bytes      large               0         4194304       419430400       419430400
reserved_bytes       all          20971520        20971520        20971520               0
reserved_bytes       small               0               0               0               0
reserved_bytes       large        20971520        20971520        20971520               0
active_bytes         all                 0         4194304       419430400       419430400
active_bytes         small               0               0               0               0
active_bytes         large               0         4194304       419430400       419430400
inactive_split_bytes all                 0        16777216      1677721600      1677721600
inactive_split_bytes small               0               0               0               0
inactive_split_bytes large               0        16777216      1677721600      1677721600
oversize_allocations                     0               0               0               0
oversize_segments                        0               0               0               0
alloc_retries 0
ooms 0
ext_dev:0: float32 [2,3] strides [3,1] offset 0: [[1 2 3] [4 5 6]]
RESOURCE_EXHAUSTED" "$(examples/memory "$TEST_TMPDIR/on_device")"

# How small depends on the version of zstd.
found=$(examples/smaller_checkpoints "$TEST_TMPDIR/model")
whole=$(expr "$found" : '4000000 bytes, stored as \([0-9]*\) and [0-9]*$')
delta=$(expr "$found" : '.* \([0-9]*\)$')
if [ "$whole" -ge 3500000 ] || [ "$delta" -ge "$((whole / 2))" ]; then
  printf 'smaller: found\n%s\n' "$found"
  exit 1
fi

# One of four ranks is killed after step 20 or later, and three go on.
ranks="$TEST_TMPDIR/ranks"
last=2000
mkdir "$ranks"
examples/elastic_ranks "$ranks" 4 "$last" > "$TEST_TMPDIR/four" &
four=$!
tries=0
until [ -f "$ranks/ckpt-20.index" ] || [ "$tries" -ge 1200 ]; do
  sleep 0.05
  tries=$((tries + 1))
done
kill -9 "$(sed -n 's/^4 ranks, processes [0-9]* [0-9]* \([0-9]*\) [0-9]*, from step 0$/\1/p' "$TEST_TMPDIR/four")"
wait "$four"
step=$(sed -n '2s/.*from step //p' "$TEST_TMPDIR/four")
if [ "$step" -lt 20 ] || [ "$((step % 10))" -ne 0 ]; then
  printf 'three ranks: found\n%s\n' "$(cat "$TEST_TMPDIR/four")"
  exit 1
fi
# The sum of the numbers of all steps: none was lost, none was done twice.
sum=$((last * (last + 1) / 2))
expect "elastic ranks" "4 ranks, from step 0
3 ranks, from step $step
weights: $sum $sum $sum" "$(sed 's/ processes [0-9 ]*,//' "$TEST_TMPDIR/four")"

# Sockets have short paths.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
examples/producer_consumer "$folder/s" consumer > "$TEST_TMPDIR/batches" &
consumer=$!
tries=0
until [ -S "$folder/s" ] || [ "$tries" -ge 100 ]; do
  sleep 0.1
  tries=$((tries + 1))
done
examples/producer_consumer "$folder/s" producer
wait "$consumer"
expect "batches" "shared float32 [1024,256] mean 0
shared float32 [1024,256] mean 1
shared float32 [1024,256] mean 2
shared float32 [1024,256] mean 3" "$(cat "$TEST_TMPDIR/batches")"
