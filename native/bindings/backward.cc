// backward(lane, losses, weights): gradients of a weighted sum of scalars accumulate in the leaves.
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "native/bindings/async.h"
#include "native/bindings/convert.h"
#include "native/bindings/register.h"

namespace aegir {
namespace {

Napi::Value backward(const Napi::CallbackInfo& info) {
  auto lane = laneArg(info[0]);
  auto losses = tensorList(info[1], "losses");
  auto weights = numberList(info[2], "weights");
  check(losses.size() == weights.size(), ErrorCode::Argument, "weights: expected ", losses.size(),
        ", one for each loss, got ", weights.size());
  check(!losses.empty(), ErrorCode::Argument, "losses: expected at least one");
  for (size_t i = 0; i < losses.size(); ++i) {
    check(losses[i].numel() == 1, ErrorCode::Shape, "losses[", i, "]: expected a scalar, got ",
          losses[i].sizes());
    check(losses[i].requires_grad(), ErrorCode::Argument, "losses[", i, "]: no gradient flows into it; ",
          "compute it with grad: true");
  }
  auto work = [losses = std::move(losses), weights = std::move(weights)] {
    std::vector<at::Tensor> seeds;
    for (size_t i = 0; i < losses.size(); ++i) {
      seeds.push_back(at::full(losses[i].sizes(), weights[i], losses[i].options().requires_grad(false)));
    }
    torch::autograd::backward(losses, seeds);
    return Nothing{};
  };
  return enqueue(info.Env(), lane, cancelArg(info[3]), std::move(work), emptyResult, ErrorCode::Argument);
}

}  // namespace

void registerBackward(Napi::Env, Napi::Object exports) { setFunction<backward>(exports, "backward"); }

}  // namespace aegir
