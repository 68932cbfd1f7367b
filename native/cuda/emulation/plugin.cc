// A plug-in whose kernels run on the CPU, on tensors in its memory: for the executables `*_check`.
#include <torch/version.h>

#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

template <class Arguments>
const char* launchHere(int32_t, const Arguments* arguments) {
  return launch(*arguments, nullptr) == cudaSuccess ? nullptr : "the emulation refused";
}

// Stands for a captured graph: replaying it does the same again.
struct Graph {
  void (*body)(void*);
  void* context;
};

const char* captureGraph(void (*body)(void*), void* context, void** graph) {
  body(context);
  *graph = new Graph{body, context};
  return nullptr;
}

const char* replayGraph(void* graph) {
  static_cast<Graph*>(graph)->body(static_cast<Graph*>(graph)->context);
  return nullptr;
}

constexpr Table table{abi,
                      TORCH_VERSION,
                      [] { return "the kernels are emulated"; },
                      [] { return int32_t{0}; },
                      [](int32_t) { return "emulation"; },
                      [](int32_t, Memory* to) -> const char* {
                        *to = {};
                        return nullptr;
                      },
                      [](int32_t) -> const char* { return nullptr; },
                      []() -> const char* { return nullptr; },
                      captureGraph,
                      replayGraph,
                      [](void* graph) { delete static_cast<Graph*>(graph); },
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
                      launchHere<Decay>,
                      launchHere<DecayBackward>,
                      launchHere<ValueMix>,
                      launchHere<ValueMixBackward>,
                      launchHere<SquaredRelu>,
                      launchHere<SquaredReluBackward>,
                      launchHere<SequenceMean>,
                      launchHere<SequenceMeanBackward>,
                      launchHere<NgramBuckets>,
                      launchHere<NgramHistory>,
                      launchHere<NgramSum>,
                      launchHere<NgramSumBackward>,
                      launchHere<ClipLoss>,
                      launchHere<CappedMoments>,
                      launchHere<CappedCovariance>,
                      launchHere<CappedSample>,
                      launchHere<AdamW>};

}  // namespace
}  // namespace aegir::cuda

extern "C" __attribute__((visibility("default"))) const aegir::cuda::Table* aegir_cuda_table() {
  return &aegir::cuda::table;
}
