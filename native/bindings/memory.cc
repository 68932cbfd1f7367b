// memory() and emptyCache().
#include "native/bindings/convert.h"
#include "native/bindings/instance.h"
#include "native/bindings/register.h"

namespace aegir {
namespace {

Napi::Value memory(const Napi::CallbackInfo& info) {
  auto env = info.Env();
  const LiveTensors& live = instanceOf(env).live;
  auto allocator = Napi::Object::New(env);
  for (const char* name : {"reservedBytes", "cachedBytes", "hits", "misses"}) allocator.Set(name, 0);
  auto result = Napi::Object::New(env);
  result.Set("liveTensors", static_cast<double>(live.count()));
  result.Set("liveBytes", static_cast<double>(live.bytes()));
  result.Set("allocator", allocator);
  return result;
}

Napi::Value emptyCache(const Napi::CallbackInfo& info) { return info.Env().Undefined(); }

}  // namespace

void registerMemory(Napi::Env, Napi::Object exports) {
  setFunction<memory>(exports, "memory");
  setFunction<emptyCache>(exports, "emptyCache");
}

}  // namespace aegir
