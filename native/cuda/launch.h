// The kernels' launchers, as plugin.cc calls them.
#pragma once

#include <cuda_runtime_api.h>

#include "native/cuda/table.h"

namespace aegir::cuda {

cudaError_t launch(const Wkv7Forward& arguments, cudaStream_t stream);
cudaError_t launch(const Wkv7Backward& arguments, cudaStream_t stream);
cudaError_t launchChunked(const Wkv7Forward& arguments, cudaStream_t stream);
cudaError_t launchChunked(const Wkv7Backward& arguments, cudaStream_t stream);
cudaError_t launch(const EmaScanForward& arguments, cudaStream_t stream);
cudaError_t launch(const EmaScanBackward& arguments, cudaStream_t stream);
cudaError_t launch(const ShiftMix& arguments, cudaStream_t stream);
cudaError_t launch(const ShiftMixBackward& arguments, cudaStream_t stream);
cudaError_t launch(const KeyNorm& arguments, cudaStream_t stream);
cudaError_t launch(const KeyNormBackward& arguments, cudaStream_t stream);
cudaError_t launch(const NormBonusGate& arguments, cudaStream_t stream);
cudaError_t launch(const NormBonusGateBackward& arguments, cudaStream_t stream);
cudaError_t launch(const Decay& arguments, cudaStream_t stream);
cudaError_t launch(const DecayBackward& arguments, cudaStream_t stream);
cudaError_t launch(const ValueMix& arguments, cudaStream_t stream);
cudaError_t launch(const ValueMixBackward& arguments, cudaStream_t stream);
cudaError_t launch(const SquaredRelu& arguments, cudaStream_t stream);
cudaError_t launch(const SquaredReluBackward& arguments, cudaStream_t stream);
cudaError_t launch(const SequenceMean& arguments, cudaStream_t stream);
cudaError_t launch(const SequenceMeanBackward& arguments, cudaStream_t stream);
cudaError_t launch(const NgramBuckets& arguments, cudaStream_t stream);
cudaError_t launch(const NgramHistory& arguments, cudaStream_t stream);
cudaError_t launch(const NgramSum& arguments, cudaStream_t stream);
cudaError_t launch(const NgramSumBackward& arguments, cudaStream_t stream);
cudaError_t launch(const ClipLoss& arguments, cudaStream_t stream);
cudaError_t launch(const CappedMoments& arguments, cudaStream_t stream);
cudaError_t launch(const CappedCovariance& arguments, cudaStream_t stream);
cudaError_t launch(const CappedSample& arguments, cudaStream_t stream);
cudaError_t launch(const AdamW& arguments, cudaStream_t stream);

}  // namespace aegir::cuda
