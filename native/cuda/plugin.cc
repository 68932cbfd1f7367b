// The CUDA plug-in's table. Loading it loads CUDA's side of libtorch; it needs no device.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <string>

#include "native/cuda/launch.h"

namespace aegir::cuda {
namespace {

template <class Arguments>
const char* launchOnCurrentStream(int32_t device, const Arguments* arguments) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const cudaError_t error = launch(*arguments, c10::cuda::getCurrentCUDAStream().stream());
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// Asks CUDA itself: libtorch would print a warning where there is no driver.
int32_t deviceCount() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  cudaGetLastError();  // the error must not show up again in a later call
  return 0;
}

const char* unusable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return cudaGetErrorString(error);
  }
  return count > 0 ? nullptr : "CUDA counts none";
}

const char* deviceName(int32_t device) {
  static thread_local std::string name;
  cudaDeviceProp properties;
  const bool known = cudaGetDeviceProperties(&properties, device) == cudaSuccess;
  if (!known) cudaGetLastError();
  name = known ? properties.name : "unknown";
  return name.c_str();
}

constexpr Table table{abi,
                      TORCH_VERSION,
                      unusable,
                      deviceCount,
                      deviceName,
                      launchOnCurrentStream<Wkv7Forward>,
                      launchOnCurrentStream<Wkv7Backward>,
                      launchOnCurrentStream<EmaScanForward>,
                      launchOnCurrentStream<EmaScanBackward>,
                      launchOnCurrentStream<ShiftMix>,
                      launchOnCurrentStream<ShiftMixBackward>,
                      launchOnCurrentStream<KeyNorm>,
                      launchOnCurrentStream<KeyNormBackward>,
                      launchOnCurrentStream<NormBonusGate>,
                      launchOnCurrentStream<NormBonusGateBackward>,
                      launchOnCurrentStream<AdamW>};

}  // namespace
}  // namespace aegir::cuda

extern "C" __attribute__((visibility("default"))) const aegir::cuda::Table* aegir_cuda_table() {
  return &aegir::cuda::table;
}
