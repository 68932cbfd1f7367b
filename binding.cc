// Entry point of the addon: makes the environment's state and registers every binding.
#include <napi.h>

#include "native/bindings/instance.h"
#include "native/bindings/register.h"
#include "native/core/allocator.h"
#include "native/cuda/loader.h"

namespace {

using Register = void (*)(Napi::Env, Napi::Object);

constexpr Register kBindings[] = {aegir::registerTensor,  aegir::registerScope,    aegir::registerGenerator,
                                  aegir::registerLane,    aegir::registerMemory,   aegir::registerInfo,
                                  aegir::registerModule,  aegir::registerModel,    aegir::registerKernels,
                                  aegir::registerLoss,    aegir::registerBackward, aegir::registerOptim,
                                  aegir::registerSwarm,   aegir::registerRl,       aegir::registerDecode,
                                  aegir::registerBatched, aegir::registerSparse};

Napi::Object initialize(Napi::Env env, Napi::Object exports) {
  aegir::cuda::openPlugin();  // before anything can ask libtorch for CUDA
  aegir::installCachingAllocator();
  env.SetInstanceData(new aegir::Instance(env));
  for (Register add : kBindings) add(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(aegir_swarm, initialize)
