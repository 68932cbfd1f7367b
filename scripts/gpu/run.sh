#!/usr/bin/env bash
# Runs the GPU suite on a machine without Node.js: unpacks .gpu (scripts/gpu/bundle.sh), builds addon and CUDA plug-in against the
# torch of AEGIR_LIBTORCH or of python3, and fails where CUDA is not used.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD

[ -f .gpu/node.gz ] || {
  echo "error: no .gpu; run scripts/gpu/bundle.sh where Node.js is, and bring it here" >&2
  exit 1
}
mkdir -p .gpu/run
[ -x .gpu/run/node ] || { gunzip -c .gpu/node.gz >.gpu/run/node && chmod +x .gpu/run/node; }
[ -d node_modules ] || tar -xzf .gpu/packages.tgz
tar -xzf .gpu/dist.tgz
export PATH="$root/.gpu/run:$PATH"

torch=${AEGIR_LIBTORCH:-$(python3 -c 'import importlib.util as u; print(list(u.find_spec("torch").submodule_search_locations)[0])')}
ln -sfn "$torch" libtorch
version=$(sed -n "s/^__version__ = ['\"]\(.*\)['\"]/\1/p" "$torch/version.py")
echo "torch $version in $torch, node $(node --version)"

generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
cmake -S . -B build -G "$generator" -DCMAKE_BUILD_TYPE=Release -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$root/build/Release" \
  -DCMAKE_JS_INC="$root/node_modules/node-api-headers/include;$root/node_modules/node-addon-api" \
  -DAEGIR_TORCH_VERSION="$version" -DAEGIR_CUDA=ON
cmake --build build --parallel "${AEGIR_BUILD_JOBS:-$(nproc)}"
node --input-type=module -e '
  const { builtAddon, writeRecord } = await import(process.argv[1] + "/scripts/build/compile.mjs");
  const { describeLibtorch, libtorchLink } = await import(process.argv[1] + "/scripts/build/libtorch.mjs");
  writeRecord(builtAddon, describeLibtorch(libtorchLink));
' "$root"

node dist/cli/main.js doctor
export AEGIR_REQUIRE_CUDA=${AEGIR_REQUIRE_CUDA:-1}
node --test test/gpu/*.test.mjs
node test/gpu/measure.mjs
echo "built, checked and measured in $SECONDS s"
