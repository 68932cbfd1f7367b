// Compares the clipped loss and its gradient with the plain reference in float64: every form and aggregation,
// dtypes, strided, ragged, empty and NaN-poisoned inputs, and the same bits for any number of threads.
#include "native/rl/token_clip_loss.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "native/kernels/check_support.h"
#include "native/kernels/clip_loss_check_support.h"
#include "native/rl/known_gradient.h"

namespace aegir::rl {
namespace {

using kernels::Aggregation;
using kernels::Checker;
using kernels::ClipKind;
using kernels::ClipLossOptions;
using kernels::ClipLossTensors;
using kernels::converted;
using kernels::gradients;
using kernels::KlForm;
using kernels::RandomClipLoss;

void compare(Checker& checker, const std::string& name, const ClipLossTensors& input,
             const ClipLossOptions& options, at::ScalarType type) {
  ClipLossTensors actual = converted(input, type);
  ClipLossTensors expected = converted(actual, at::kDouble);
  actual.logp = actual.logp.detach().clone().requires_grad_();
  expected.logp = expected.logp.detach().clone().requires_grad_();
  const at::Tensor loss = tokenClipLoss(actual, options).loss;
  const at::Tensor reference = clipLossReference(expected, options);
  const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 1e-2;
  checker.close(name + " loss", loss, reference, tolerance);
  const auto weight = at::full_like(reference, 1.7);
  checker.close(name + " gradient", gradients({loss}, {weight}, {actual.logp})[0],
                gradients({reference}, {weight}, {expected.logp})[0], tolerance);
}

std::vector<std::pair<std::string, ClipLossOptions>> forms() {
  ClipLossOptions ppo;
  ClipLossOptions full;
  full.epsHigh = 0.28;
  full.dualClip = 1.5;
  full.klCoef = 0.05;
  ClipLossOptions k25;
  k25.kind = ClipKind::K25;
  k25.tau = 0.1;
  ClipLossOptions masked = k25;
  masked.maskPenalty = true;
  masked.klCoef = 0.1;
  masked.klForm = KlForm::K2;
  ClipLossOptions k1 = ppo;
  k1.klCoef = 0.2;
  k1.klForm = KlForm::K1;
  return {{"ppo", ppo}, {"ppo dual k3", full}, {"k25", k25}, {"k25 masked k2", masked}, {"ppo k1", k1}};
}

void checkForms(Checker& checker) {
  const std::pair<const char*, Aggregation> aggregations[] = {
      {"token-mean", Aggregation::TokenMean},
      {"seq-mean-token-mean", Aggregation::SeqMeanTokenMean},
      {"seq-mean-token-sum", Aggregation::SeqMeanTokenSum},
      {"seq-mean-token-sum-norm", Aggregation::SeqMeanTokenSumNorm}};
  for (auto [form, options] : forms()) {
    for (const auto& [aggregation, kind] : aggregations) {
      options.aggregation = kind;
      options.norm = 7;
      for (const bool strided : {false, true}) {
        const auto input = RandomClipLoss{.strided = strided}(5, 33);
        const std::string name = form + " " + aggregation + (strided ? " strided" : "");
        compare(checker, name + " f64", input, options, at::kDouble);
        compare(checker, name + " f32", input, options, at::kFloat);
        compare(checker, name + " bf16", input, options, at::kBFloat16);
        ClipLossTensors few{input.logp, input.logpOld, input.advantages, input.mask, {}, {}, {}};
        options.denominator = 11;
        compare(checker, name + " few, denominator", few, options, at::kDouble);
        options.denominator.reset();
      }
    }
  }
}

void checkEdges(Checker& checker) {
  for (const auto& [form, options] : forms()) {
    for (const auto& [rows, tokens] : {std::pair<int64_t, int64_t>{0, 4}, {3, 0}, {1, 1}, {2, 3000}}) {
      compare(checker, form + " " + std::to_string(rows) + "x" + std::to_string(tokens),
              RandomClipLoss{}(rows, tokens), options, at::kDouble);
    }
    auto masked = RandomClipLoss{}(3, 8);
    masked.mask = at::zeros_like(masked.mask);
    const auto nan = at::full_like(masked.logp, NAN);
    masked.logp = nan.clone().requires_grad_();
    masked.logpOld = masked.advantages = masked.weights = masked.logpRef = masked.correction = nan;
    const auto result = tokenClipLoss(masked, options);
    checker.close(form + " all masked", result.loss, at::zeros_like(result.loss), 0);
    checker.close(form + " all masked gradient",
                  gradients({result.loss}, {at::ones_like(result.loss)}, {masked.logp})[0],
                  at::zeros_like(nan), 0);
  }
}

void checkDeterminism(Checker& checker) {
  auto input = converted(RandomClipLoss{}(64, 1000), at::kFloat);
  input.logp.requires_grad_();
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> losses, grads;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    losses.push_back(tokenClipLoss(input, {}).loss);
    grads.push_back(gradients({losses.back()}, {at::ones_like(losses.back())}, {input.logp})[0]);
  }
  at::set_num_threads(threads);
  for (size_t i = 1; i < losses.size(); ++i) {
    checker.close("threads loss", losses[i], losses[0], 0);
    checker.close("threads gradient", grads[i], grads[0], 0);
  }
}

void checkErrors(Checker& checker) {
  const auto good = RandomClipLoss{}(2, 3);
  const auto attempt = [&](auto change) {
    return [&good, change] {
      ClipLossTensors in = good;
      ClipLossOptions options;
      change(in, options);
      tokenClipLoss(in, options);
    };
  };
  using In = ClipLossTensors;
  using Opt = ClipLossOptions;
  checker.throws("shape", ErrorCode::Shape, "advantages",
                 attempt([](In& in, Opt&) { in.advantages = in.advantages.slice(1, 0, 2); }));
  checker.throws("dtype", ErrorCode::Dtype, "mask",
                 attempt([](In& in, Opt&) { in.mask = in.mask.to(at::kDouble); }));
  checker.throws("dual clip", ErrorCode::Config, "dualClip", attempt([](In&, Opt& o) { o.dualClip = 0.5; }));
  checker.throws(
      "NaN", ErrorCode::NonFinite, "[1, 2]", attempt([](In& in, Opt&) {
        for (at::Tensor* x : {&in.logp, &in.logpOld, &in.advantages, &in.weights, &in.correction}) {
          *x = x->nan_to_num(0);
        }
        in.mask = at::ones_like(in.mask);
        in.logp[1][2] = NAN;
      }));
}

void checkWeightedSum(Checker& checker) {
  const auto x = at::randn({3, 5}, at::kDouble).requires_grad_();
  auto c = at::randn({3, 5}, at::kDouble);
  const auto sum = weightedSum(x, c);
  checker.close("weightedSum", sum, (x * c).sum(), 1e-14);
  checker.close("weightedSum gradient", gradients({sum}, {at::full_like(sum, 2)}, {x})[0], 2 * c, 1e-14);
  auto poisoned = x.detach().clone();
  poisoned[1][1] = INFINITY;
  c[1][1] = 0;
  checker.close("weightedSum selects", weightedSum(poisoned, c), (x.detach() * c).sum(), 1e-14);
}

}  // namespace
}  // namespace aegir::rl

int main() {
  aegir::kernels::Checker checker;
  at::manual_seed(20250601);
  aegir::rl::checkForms(checker);
  aegir::rl::checkEdges(checker);
  aegir::rl::checkDeterminism(checker);
  aegir::rl::checkErrors(checker);
  aegir::rl::checkWeightedSum(checker);
  return checker.finish("token_clip_loss");
}
