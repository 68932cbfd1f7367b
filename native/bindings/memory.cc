// memory() and emptyCache().
#include "native/bindings/convert.h"
#include "native/bindings/instance.h"
#include "native/bindings/register.h"
#include "native/core/allocator.h"

namespace aegir {
namespace {

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
  return result;
}

Napi::Value emptyCache(const Napi::CallbackInfo& info) {
  emptyAllocatorCache();
  return info.Env().Undefined();
}

}  // namespace

void registerMemory(Napi::Env, Napi::Object exports) {
  setFunction<memory>(exports, "memory");
  setFunction<emptyCache>(exports, "emptyCache");
}

}  // namespace aegir
