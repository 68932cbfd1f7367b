// Compares the emulated CUDA form of the clipped token loss with the plain reference in f64, and its
// statistics with those of the CPU's kernel.
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "native/kernels/check_support.h"
#include "native/kernels/clip_loss.h"
#include "native/kernels/clip_loss_check_support.h"

namespace aegir::kernels {
namespace {

template <class T>
ClipLossResult onCpu(const ClipLossTensors& in, const ClipLossOptions& options) {
  const auto data = [](const at::Tensor& x) { return x.defined() ? x.const_data_ptr<T>() : nullptr; };
  const ClipLossTokens<T> tokens{
      in.logp.size(0),  in.logp.size(1),     data(in.logp),
      data(in.logpOld), data(in.advantages), in.mask.defined() ? in.mask.const_data_ptr<bool>() : nullptr,
      data(in.weights), data(in.correction), data(in.logpRef)};
  return clipLoss<T>(tokens, options, nullptr);
}

std::vector<double> numbers(const ClipLossResult& r) {
  return {static_cast<double>(r.nValid),
          static_cast<double>(r.clipLow),
          static_cast<double>(r.clipHigh),
          static_cast<double>(r.dual),
          r.kl1,
          r.kl3,
          r.entropy,
          r.maxAbsLogRatio,
          r.ess,
          static_cast<double>(r.badToken)};
}

void compare(Checker& checker, const std::string& name, const ClipLossTensors& input,
             const ClipLossOptions& options, at::ScalarType type) {
  const ClipLossTensors actual = converted(input, type);
  ClipLossTensors expected = converted(actual, at::kDouble);
  expected.logp = expected.logp.detach().clone().requires_grad_();
  const at::Tensor grad = at::empty(actual.logp.sizes(), actual.logp.options());
  const ClipLossResult result = clipLossCuda(actual, options, grad);
  const at::Tensor reference = clipLossReference(expected, options);
  const double tolerance = type == at::kDouble ? 1e-12 : 1e-5;
  checker.close(name + " loss", at::scalar_tensor(result.loss, at::kDouble), reference, tolerance);
  checker.close(name + " gradient", grad,
                gradients({reference}, {at::ones_like(reference)}, {expected.logp})[0], tolerance);
  const ClipLossResult cpu =
      type == at::kDouble ? onCpu<double>(actual, options) : onCpu<float>(actual, options);
  checker.close(name + " statistics", at::tensor(numbers(result), at::kDouble),
                at::tensor(numbers(cpu), at::kDouble), 1e-6);
}

std::vector<std::pair<std::string, ClipLossOptions>> forms() {
  ClipLossOptions ppo, full, k25, k1;
  full.epsHigh = 0.28;
  full.dualClip = 1.5;
  full.klCoef = 0.05;
  k25.kind = ClipKind::K25;
  k25.tau = 0.1;
  k1.klCoef = 0.2;
  k1.klForm = KlForm::K1;
  ClipLossOptions masked = k25;
  masked.maskPenalty = true;
  masked.klCoef = 0.1;
  masked.klForm = KlForm::K2;
  return {{"ppo", ppo}, {"ppo dual k3", full}, {"k25", k25}, {"k25 masked k2", masked}, {"ppo k1", k1}};
}

int run() {
  openEmulatedCuda();
  Checker checker;
  const uint64_t seed = 20260105;
  at::manual_seed(seed);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (auto [form, options] : forms()) {
    for (const auto aggregation : {Aggregation::TokenMean, Aggregation::SeqMeanTokenMean,
                                   Aggregation::SeqMeanTokenSum, Aggregation::SeqMeanTokenSumNorm}) {
      options.aggregation = aggregation;
      options.norm = 7;
      for (const auto type : {at::kFloat, at::kDouble}) {
        const std::string name = form + " " + std::to_string(static_cast<int>(aggregation)) +
                                 (type == at::kFloat ? " f32" : " f64");
        compare(checker, name, RandomClipLoss{}(5, 33), options, type);
        compare(checker, name + " few", RandomClipLoss{.all = false}(3, 1500), options,
                type);  // several blocks
        options.denominator = 11;
        compare(checker, name + " denominator", RandomClipLoss{}(4, 9), options, type);
        options.denominator.reset();
      }
    }
    for (const auto& [rows, tokens] : {std::pair<int64_t, int64_t>{0, 4}, {3, 0}, {1, 1}}) {
      compare(checker, form + " " + std::to_string(rows) + "x" + std::to_string(tokens),
              RandomClipLoss{}(rows, tokens), options, at::kDouble);
    }
  }
  ClipLossTensors bad = RandomClipLoss{.all = false}(2, 1500);
  bad.logp[1][700] = NAN;
  bad.logp[1][900] = NAN;
  checker.close("first bad token", at::scalar_tensor(clipLossCuda(bad, {}, {}).badToken, at::kDouble),
                at::scalar_tensor(2200, at::kDouble), 0);
  return checker.finish("clip_loss_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
