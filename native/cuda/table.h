// What the core and the CUDA plug-in share: a table of functions on plain types, so that neither needs the
// other's symbols. A change of anything here or in tasks.h is a new ABI number.
#pragma once

#include <cstdint>

#include "native/cuda/tasks.h"

namespace aegir::cuda {

constexpr int32_t abi = 3;

// Of libtorch's caching allocator on one device, bytes; peaks since the start or the last reset.
struct Memory {
  int64_t allocated, reserved, peakAllocated, peakReserved, total;
};

// Launches go to the device's current stream and do not wait. They return null, or what CUDA said.
template <class Arguments>
using Launch = const char* (*)(int32_t device, const Arguments*);

struct Table {
  int32_t abi;  // first, whatever else changes
  const char* torchVersion;
  const char* (*unusable)();  // null where there is a device to use, else why there is none
  int32_t (*deviceCount)();
  const char* (*deviceName)(int32_t device);  // valid until the thread's next call
  // These return null, or what CUDA or libtorch said (valid until the thread's next call).
  const char* (*memory)(int32_t device, Memory*);
  const char* (*resetPeaks)(int32_t device);
  const char* (*emptyCache)();
  // Captures what body(context) launches on the current stream, which is not the default one, as a graph;
  // nothing runs.
  const char* (*captureGraph)(void (*body)(void* context), void* context, void** graph);
  const char* (*replayGraph)(void* graph);  // on the current stream
  void (*destroyGraph)(void* graph);
  Launch<Wkv7Forward> wkv7Forward;
  Launch<Wkv7Backward> wkv7Backward;
  Launch<EmaScanForward> emaScanForward;
  Launch<EmaScanBackward> emaScanBackward;
  Launch<ShiftMix> shiftMix;
  Launch<ShiftMixBackward> shiftMixBackward;
  Launch<KeyNorm> keyNorm;
  Launch<KeyNormBackward> keyNormBackward;
  Launch<NormBonusGate> normBonusGate;
  Launch<NormBonusGateBackward> normBonusGateBackward;
  Launch<Decay> decay;
  Launch<DecayBackward> decayBackward;
  Launch<ValueMix> valueMix;
  Launch<ValueMixBackward> valueMixBackward;
  Launch<SquaredRelu> squaredRelu;
  Launch<SquaredReluBackward> squaredReluBackward;
  Launch<SequenceMean> sequenceMean;
  Launch<SequenceMeanBackward> sequenceMeanBackward;
  Launch<NgramBuckets> ngramBuckets;
  Launch<NgramHistory> ngramHistory;
  Launch<NgramSum> ngramSum;
  Launch<NgramSumBackward> ngramSumBackward;
  Launch<ClipLoss> clipLoss;
  Launch<CappedMoments> cappedMoments;
  Launch<CappedCovariance> cappedCovariance;
  Launch<CappedSample> cappedSample;
  Launch<AdamW> adamW;
};

}  // namespace aegir::cuda

extern "C" {
// The one symbol of the plug-in.
using AegirCudaTable = const aegir::cuda::Table*();
}
