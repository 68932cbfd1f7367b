// memory() and emptyCache().
#include "native/bindings/convert.h"
#include "native/bindings/instance.h"
#include "native/bindings/register.h"
#include "native/core/allocator.h"
#include "native/cuda/loader.h"

namespace aegir {
namespace {

// Of each GPU that can be used.
Napi::Array deviceMemory(Napi::Env env) {
  auto list = Napi::Array::New(env);
  const auto count = static_cast<int32_t>(cuda::status().devices.size());
  for (int32_t device = 0; device < count; ++device) {
    cuda::Memory memory;
    cuda::checkCuda(cuda::table().memory(device, &memory));
    auto object = Napi::Object::New(env);
    object.Set("device", "cuda:" + std::to_string(device));
    object.Set("allocatedBytes", static_cast<double>(memory.allocated));
    object.Set("reservedBytes", static_cast<double>(memory.reserved));
    object.Set("peakAllocatedBytes", static_cast<double>(memory.peakAllocated));
    object.Set("peakReservedBytes", static_cast<double>(memory.peakReserved));
    object.Set("totalBytes", static_cast<double>(memory.total));
    list.Set(list.Length(), object);
  }
  return list;
}

Napi::Value memory(const Napi::CallbackInfo& info) {
  auto env = info.Env();
  const LiveTensors& live = instanceOf(env).live;
  auto allocator = Napi::Object::New(env);
  const AllocatorStats stats = allocatorStats();
  allocator.Set("reservedBytes", static_cast<double>(stats.reservedBytes));
  allocator.Set("cachedBytes", static_cast<double>(stats.cachedBytes));
  allocator.Set("hits", static_cast<double>(stats.hits));
  allocator.Set("misses", static_cast<double>(stats.misses));
  auto result = Napi::Object::New(env);
  result.Set("liveTensors", static_cast<double>(live.count()));
  result.Set("liveBytes", static_cast<double>(live.bytes()));
  result.Set("allocator", allocator);
  result.Set("devices", deviceMemory(env));
  return result;
}

Napi::Value emptyCache(const Napi::CallbackInfo& info) {
  emptyAllocatorCache();
  if (!cuda::status().devices.empty()) cuda::checkCuda(cuda::table().emptyCache());
  return info.Env().Undefined();
}

Napi::Value resetPeakMemory(const Napi::CallbackInfo& info) {
  const auto count = static_cast<int32_t>(cuda::status().devices.size());
  for (int32_t device = 0; device < count; ++device) cuda::checkCuda(cuda::table().resetPeaks(device));
  return info.Env().Undefined();
}

}  // namespace

void registerMemory(Napi::Env, Napi::Object exports) {
  setFunction<memory>(exports, "memory");
  setFunction<emptyCache>(exports, "emptyCache");
  setFunction<resetPeakMemory>(exports, "resetPeakMemory");
}

}  // namespace aegir
