// crossEntropy(lane, input).
#include <c10/core/GradMode.h>

#include <tuple>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/register.h"
#include "native/model/cross_entropy.h"

namespace aegir {
namespace {

Napi::Value crossEntropy(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  auto logits = tensorField(object, "logits"), labels = tensorField(object, "labels");
  auto weights = optionalTensor(object, "weights");
  const double smoothing = numberField(object, "labelSmoothing", 0);
  auto work = [logits, labels, weights, smoothing] {
    c10::AutoGradMode mode(logits.requires_grad());
    return model::crossEntropy(logits, labels, smoothing, weights);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work),
                 [](Napi::Env env, std::tuple<at::Tensor, at::Tensor>& result) {
                   auto output = Napi::Object::New(env);
                   output.Set("loss", wrapTensor(env, std::get<0>(result)));
                   output.Set("logp", wrapTensor(env, std::get<1>(result)));
                   return output;
                 });
}

Napi::Value softCrossEntropy(const Napi::CallbackInfo& info) {
  const auto object = objectArg(info[1], "input");
  auto logits = tensorField(object, "logits"), targets = tensorField(object, "targets");
  auto work = [logits, targets] {
    c10::AutoGradMode mode(logits.requires_grad());
    return model::softCrossEntropy(logits, targets);
  };
  return enqueue(info.Env(), laneArg(info[0]), nullptr, std::move(work), [](Napi::Env env, at::Tensor& loss) {
    auto output = Napi::Object::New(env);
    output.Set("loss", wrapTensor(env, loss));
    return output;
  });
}

}  // namespace

void registerLoss(Napi::Env, Napi::Object exports) {
  setFunction<crossEntropy>(exports, "crossEntropy");
  setFunction<softCrossEntropy>(exports, "softCrossEntropy");
}

}  // namespace aegir
