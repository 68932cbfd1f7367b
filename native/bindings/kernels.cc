// Operators over time, wkv7 and emaScan, n-gram embeddings, the time-mix pieces and matrix products: the
// kernel or its plain reference.
#include <c10/core/GradMode.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/register.h"
#include "native/kernels/ema_scan.h"
#include "native/kernels/matmul.h"
#include "native/kernels/ngram_embedding.h"
#include "native/kernels/time_mix.h"
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
  if (!isAbsent(object.Get("chunked"))) {
    input.cudaForm = boolField(object, "chunked", false) ? kernels::Wkv7CudaForm::Chunked
                                                         : kernels::Wkv7CudaForm::Recurrent;
  }
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

kernels::NgramInput ngramInput(const Napi::Object& object) {
  kernels::NgramInput input{tensorField(object, "table"),
                            tensorField(object, "ids"),
                            tensorField(object, "cuSeqlens"),
                            optionalTensor(object, "history"),
                            {}};
  input.form.sizes = integerList(object.Get("sizes"), "sizes");
  input.form.lowercase = boolField(object, "lowercase", false);
  input.form.shapes = boolField(object, "shapes", false);
  return input;
}

Results embedNgrams(const kernels::NgramInput& input) {
  return {kernels::ngramEmbedding(input), kernels::ngramHistory(input)};
}

Results embedNgramsReference(const kernels::NgramInput& input) {
  return {kernels::ngramEmbeddingReference(input), kernels::ngramHistory(input)};
}

Napi::Value ngramEmbeddingCall(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  const bool reference = boolField(object, "reference", false);
  return enqueueOperator(info, ngramInput(object), reference ? embedNgramsReference : embedNgrams, "history");
}

Napi::Value ngramBucketsCall(const Napi::CallbackInfo& info) {
  auto work = [input = ngramInput(objectArg(info[1], "input"))] { return kernels::ngramBuckets(input); };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work), wrapTensor);
}

struct TimeMixInput {
  std::string name;
  std::vector<at::Tensor> x;
  at::Tensor carried, cuSeqlens;
  int64_t headSize;
  bool reference;
};

void expectTensors(const TimeMixInput& input, size_t count) {
  check(input.x.size() == count, ErrorCode::Argument, "tensors: ", input.name, " takes ", count, ", got ",
        input.x.size());
}

std::vector<at::Tensor> timeMix(const TimeMixInput& input) {
  using namespace kernels;
  const auto& [name, x, carried, cuSeqlens, headSize, plain] = input;
  if (name == "tokenShiftMix") {
    expectTensors(input, 2);
    const TokenShiftMixInput given{x[0], carried, x[1], cuSeqlens};
    return plain ? reference::tokenShiftMix(given) : tokenShiftMix(given);
  }
  if (name == "decayFromLogits") {
    expectTensors(input, 1);
    return {plain ? reference::decayFromLogits(x[0]) : decayFromLogits(x[0])};
  }
  if (name == "valueResidual") {
    expectTensors(input, 3);
    return {plain ? reference::valueResidual(x[0], x[1], x[2]) : valueResidual(x[0], x[1], x[2])};
  }
  if (name == "squaredRelu") {
    expectTensors(input, 1);
    return {plain ? reference::squaredRelu(x[0]) : squaredRelu(x[0])};
  }
  if (name == "keyNormalise") {
    expectTensors(input, 4);
    const KeyNormaliseInput given{x[0], x[1], x[2], x[3], headSize};
    const NormalisedKey key = plain ? reference::keyNormalise(given) : keyNormalise(given);
    return {key.key, key.removal, key.gated};
  }
  check(name == "groupNormBonusGate", ErrorCode::Argument, "operator: unknown name '", name, "'");
  expectTensors(input, 8);
  const GroupNormBonusGateInput given{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  return {plain ? reference::groupNormBonusGate(given) : groupNormBonusGate(given)};
}

Napi::Value timeMixCall(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  TimeMixInput input{stringField(object, "operator"),
                     tensorListField(object, "tensors"),
                     optionalTensor(object, "carried"),
                     optionalTensor(object, "cuSeqlens"),
                     static_cast<int64_t>(numberField(object, "headSize", 1)),
                     boolField(object, "reference", false)};
  auto work = [input = std::move(input)] {
    c10::AutoGradMode mode(true);
    return timeMix(input);
  };
  return enqueue(
      info.Env(), laneArg(info[0]), nullptr, std::move(work),
      [](Napi::Env env, std::vector<at::Tensor>& results) {
        auto object = Napi::Object::New(env);
        object.Set("outputs", wrapTensors(env, results));
        return object;
      },
      ErrorCode::Argument);
}

Napi::Value matmulCall(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  const at::Tensor x = tensorField(object, "x"), weight = tensorField(object, "weight"),
                   addend = optionalTensor(object, "addend");
  const bool transposed = boolField(object, "transposed", false),
             plain = boolField(object, "reference", false);
  auto work = [=] {
    c10::AutoGradMode mode(true);
    if (plain) return kernels::matmulReference(x, transposed ? weight.t() : weight, addend);
    return transposed ? kernels::linear(x, weight, addend) : kernels::product(x, weight, addend);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work), wrapTensor, ErrorCode::Shape);
}

}  // namespace

void registerKernels(Napi::Env, Napi::Object exports) {
  setFunction<wkv7Call>(exports, "wkv7");
  setFunction<emaScanCall>(exports, "emaScan");
  setFunction<ngramEmbeddingCall>(exports, "ngramEmbedding");
  setFunction<ngramBucketsCall>(exports, "ngramBuckets");
  setFunction<timeMixCall>(exports, "timeMix");
  setFunction<matmulCall>(exports, "matmul");
}

}  // namespace aegir
