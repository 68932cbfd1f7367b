// The kernels' launchers, as plugin.cc calls them.
#pragma once

#include <cuda_runtime_api.h>

#include "native/cuda/table.h"

namespace aegir::cuda {

cudaError_t launch(const Wkv7Forward& arguments, cudaStream_t stream);
cudaError_t launch(const Wkv7Backward& arguments, cudaStream_t stream);
cudaError_t launch(const EmaScanForward& arguments, cudaStream_t stream);
cudaError_t launch(const EmaScanBackward& arguments, cudaStream_t stream);
cudaError_t launch(const ShiftMix& arguments, cudaStream_t stream);
cudaError_t launch(const ShiftMixBackward& arguments, cudaStream_t stream);
cudaError_t launch(const KeyNorm& arguments, cudaStream_t stream);
cudaError_t launch(const KeyNormBackward& arguments, cudaStream_t stream);
cudaError_t launch(const NormBonusGate& arguments, cudaStream_t stream);
cudaError_t launch(const NormBonusGateBackward& arguments, cudaStream_t stream);
cudaError_t launch(const AdamW& arguments, cudaStream_t stream);

}  // namespace aegir::cuda
