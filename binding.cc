// Entry point of the addon: makes the environment's state and registers every binding.
#include <napi.h>

#include "native/bindings/instance.h"
#include "native/bindings/register.h"
#include "native/core/allocator.h"

namespace {

using Register = void (*)(Napi::Env, Napi::Object);

constexpr Register kRequired[] = {aegir::registerTensor, aegir::registerScope,   aegir::registerGenerator,
                                  aegir::registerLane,   aegir::registerMemory,  aegir::registerInfo,
                                  aegir::registerModule, aegir::registerBackward};

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  aegir::installCachingAllocator();
  env.SetInstanceData(new aegir::Instance(env));
  for (Register add : kRequired) add(env, exports);
  const Register optional[] = {aegir::registerModel, aegir::registerKernels, aegir::registerSwarm,
                               aegir::registerRl, aegir::registerOptim};
  for (Register add : optional) {
    if (add) add(env, exports);
  }
  return exports;
}

}  // namespace

NODE_API_MODULE(aegir_swarm, initialize)
