#!/usr/bin/env bash
# GPT-2 XL's shape (48 x 1600, vocabulary 50257; 1.56B parameters) from a directory with
# only config.json: a few steps at 1 x 256 tokens within 300 MiB of device and 1900 MiB of
# host memory ($DEVICE_MEMORY, $HOST_MEMORY), everything else on NVMe. Prints the highest
# resident size, initialisation included. Needs 40 GB of disk under WORK, 20 with --no-commit.
#
#   bench/xl.sh [WORK] [STEPS] [TRAIN FLAGS]
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=${1:-$here/out/xl}
steps=${2:-2}
program=${SPILLWAY:-$here/build/release/spillway}
mkdir -p "$work/model" "$work/swap"
cat > "$work/model/config.json" <<'JSON'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
 "n_positions": 1024, "n_embd": 1600, "n_layer": 48, "n_head": 25,
 "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
JSON
# Any tokens do: this measures memory and time, not learning.
python3 - "$work/tokens.bin" <<'PY'
import random, struct, sys
random.seed(1)
with open(sys.argv[1], "wb") as out:
    for _ in range(20000):
        out.write(struct.pack("<H", int(50257 * random.random() ** 3)))
PY
"$program" train --model "$work/model" --data "$work/tokens.bin" --output "$work/run" \
  --swap "$work/swap" --offload nvme --seq-len 256 --micro-batch 1 --steps "$steps" \
  --device-memory "${DEVICE_MEMORY:-300MiB}" --host-memory "${HOST_MEMORY:-1900MiB}" --no-export \
  --overwrite "${@:3}"
python3 - "$work/run/metrics.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    print(f"step {row['step']}: {row['seconds']:.1f} s, loss {row['loss']:.3f}, "
          f"compute {row['busy_seconds']['compute']:.1f} s, disk {row['busy_seconds']['disk']:.1f} s, "
          f"stalled {sum(row['stall_seconds'].values()):.1f} s, "
          f"{row['bytes']['nvme_read'] / 1e9:.1f} GB read, {row['bytes']['nvme_written'] / 1e9:.1f} GB written")
print(f"highest resident size {max(row['peak_bytes']['rss'] for row in rows) / 2**30:.2f} GiB")
PY
