// The CUDA plug-in's table. Loading it loads CUDA's side of libtorch; it needs no device.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <exception>
#include <memory>
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

// Null, or in one line what `work` threw.
template <class Work>
const char* attempt(const Work& work) {
  static thread_local std::string said;
  try {
    work();
    return nullptr;
  } catch (const c10::Error& error) {
    said = error.what_without_backtrace();
  } catch (const std::exception& error) {
    said = error.what();
  }
  said.resize(std::min(said.size(), said.find('\n')));
  return said.c_str();
}

const char* memory(int32_t device, Memory* to) {
  return attempt([&] {
    *to = {};
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
      to->total = static_cast<int64_t>(properties.totalGlobalMem);
    } else {
      cudaGetLastError();
    }
    // The allocator knows no device before the first use of any.
    if (!c10::cuda::CUDACachingAllocator::get()->initialized()) return;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    constexpr size_t all = 0;  // StatType::AGGREGATE
    to->allocated = stats.allocated_bytes[all].current;
    to->reserved = stats.reserved_bytes[all].current;
    to->peakAllocated = stats.allocated_bytes[all].peak;
    to->peakReserved = stats.reserved_bytes[all].peak;
  });
}

const char* resetPeaks(int32_t device) {
  return attempt([&] {
    if (!c10::cuda::CUDACachingAllocator::get()->initialized()) return;
    c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
  });
}

const char* emptyCache() {
  return attempt([] { c10::cuda::CUDACachingAllocator::emptyCache(); });
}

// Other threads go on using CUDA meanwhile: what this thread alone must not do ends the capture.
const char* captureGraph(void (*body)(void*), void* context, void** graph) {
  return attempt([&] {
    auto captured = std::make_unique<at::cuda::CUDAGraph>();
    captured->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      body(context);
    } catch (...) {
      attempt([&] { captured->capture_end(); });
      throw;
    }
    captured->capture_end();
    *graph = captured.release();
  });
}

const char* replayGraph(void* graph) {
  return attempt([&] { static_cast<at::cuda::CUDAGraph*>(graph)->replay(); });
}

void destroyGraph(void* graph) { delete static_cast<at::cuda::CUDAGraph*>(graph); }

constexpr Table table{abi,
                      TORCH_VERSION,
                      unusable,
                      deviceCount,
                      deviceName,
                      memory,
                      resetPeaks,
                      emptyCache,
                      captureGraph,
                      replayGraph,
                      destroyGraph,
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
                      launchOnCurrentStream<Decay>,
                      launchOnCurrentStream<DecayBackward>,
                      launchOnCurrentStream<ValueMix>,
                      launchOnCurrentStream<ValueMixBackward>,
                      launchOnCurrentStream<SquaredRelu>,
                      launchOnCurrentStream<SquaredReluBackward>,
                      launchOnCurrentStream<SequenceMean>,
                      launchOnCurrentStream<SequenceMeanBackward>,
                      launchOnCurrentStream<NgramBuckets>,
                      launchOnCurrentStream<NgramHistory>,
                      launchOnCurrentStream<NgramSum>,
                      launchOnCurrentStream<NgramSumBackward>,
                      launchOnCurrentStream<ClipLoss>,
                      launchOnCurrentStream<CappedMoments>,
                      launchOnCurrentStream<CappedCovariance>,
                      launchOnCurrentStream<CappedSample>,
                      launchOnCurrentStream<AdamW>};

}  // namespace
}  // namespace aegir::cuda

extern "C" __attribute__((visibility("default"))) const aegir::cuda::Table* aegir_cuda_table() {
  return &aegir::cuda::table;
}
