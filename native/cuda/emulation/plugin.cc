// A plug-in whose kernels run on the CPU, on tensors in its memory: for the executables `*_check`.
#include <torch/version.h>

#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

template <class Arguments>
const char* launchHere(int32_t, const Arguments* arguments) {
  return launch(*arguments, nullptr) == cudaSuccess ? nullptr : "the emulation refused";
}

constexpr Table table{abi,
                      TORCH_VERSION,
                      [] { return "the kernels are emulated"; },
                      [] { return int32_t{0}; },
                      [](int32_t) { return "emulation"; },
                      launchHere<Wkv7Forward>,
                      launchHere<Wkv7Backward>,
                      launchHere<EmaScanForward>,
                      launchHere<EmaScanBackward>,
                      launchHere<ShiftMix>,
                      launchHere<ShiftMixBackward>,
                      launchHere<KeyNorm>,
                      launchHere<KeyNormBackward>,
                      launchHere<NormBonusGate>,
                      launchHere<NormBonusGateBackward>,
                      launchHere<AdamW>};

}  // namespace
}  // namespace aegir::cuda

extern "C" __attribute__((visibility("default"))) const aegir::cuda::Table* aegir_cuda_table() {
  return &aegir::cuda::table;
}
