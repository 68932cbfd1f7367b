#!/usr/bin/env bash
# Makes .gpu/: what the GPU suite needs on a machine that has a GPU, nvcc, cmake and python3 with torch, but no Node.js.
# It goes there beside the sources; scripts/gpu/run.sh unpacks it.
set -euo pipefail
cd "$(dirname "$0")/../.."

limit_mib=60
rm -rf .gpu
mkdir -p .gpu

npx --no-install tsc -p tsconfig.build.json
node=.gpu/node
cp -L "$(command -v node)" "$node"
strip "$node" 2>/dev/null || true
gzip -9 "$node"
tar -czf .gpu/dist.tgz --exclude='*.map' dist
# The packages that the compiled code imports, and the headers that the addon is compiled with; not the build tool.
node scripts/gpu/packages.mjs | tar -czf .gpu/packages.tgz --exclude='*.map' --exclude='*.ts' --exclude='*.cts' --files-from=-

size_kib=$(du -sk .gpu | cut -f1)
ls -l .gpu
if [ "$size_kib" -gt $((limit_mib * 1024)) ]; then
  echo "error: .gpu is $((size_kib / 1024)) MiB, the limit is $limit_mib MiB" >&2
  exit 1
fi
echo ".gpu: $((size_kib / 1024)) MiB"
