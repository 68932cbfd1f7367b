// Operators over time: wkv7 and emaScan, the kernel or its plain reference.
#include <c10/core/GradMode.h>

#include <tuple>
#include <utility>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/register.h"
#include "native/kernels/ema_scan.h"
#include "native/kernels/wkv7.h"

namespace aegir {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor>;

// Queues run(input) with gradients on: a graph is built where an input requires one.
template <class Input>
Napi::Value enqueueOperator(const Napi::CallbackInfo& info, Input input, Results (*run)(const Input&),
                            const char* second) {
  auto work = [input = std::move(input), run] {
    c10::AutoGradMode mode(true);
    return run(input);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [second](Napi::Env env, Results& results) {
                   auto object = Napi::Object::New(env);
                   object.Set("output", wrapTensor(env, std::get<0>(results)));
                   object.Set(second, wrapTensor(env, std::get<1>(results)));
                   return object;
                 });
}

Napi::Value wkv7Call(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  kernels::Wkv7Input input{tensorField(object, "r"),
                           tensorField(object, "decay"),
                           tensorField(object, "k"),
                           tensorField(object, "v"),
                           tensorField(object, "a"),
                           tensorField(object, "b"),
                           optionalTensor(object, "initialState"),
                           optionalTensor(object, "lengths"),
                           optionalTensor(object, "cuSeqlens")};
  const bool reference = boolField(object, "reference", false);
  return enqueueOperator(info, std::move(input), reference ? kernels::wkv7Reference : kernels::wkv7,
                         "finalState");
}

Napi::Value emaScanCall(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  kernels::EmaScanInput input{tensorField(object, "x"), tensorField(object, "p"),
                              optionalTensor(object, "initial"), optionalTensor(object, "lengths"),
                              optionalTensor(object, "cuSeqlens")};
  const bool reference = boolField(object, "reference", false);
  return enqueueOperator(info, std::move(input), reference ? kernels::emaScanReference : kernels::emaScan,
                         "finalValue");
}

}  // namespace

void registerKernels(Napi::Env, Napi::Object exports) {
  setFunction<wkv7Call>(exports, "wkv7");
  setFunction<emaScanCall>(exports, "emaScan");
}

}  // namespace aegir
