// Compares the capped-Bernoulli policy with plain ATen in float64: values, every gradient, forbidden
// specialists, strided and empty inputs; samples against the marginals for many specialists.
#include "native/rl/routing_policy.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "native/kernels/capped_bernoulli.h"
#include "native/kernels/check_support.h"

namespace aegir::rl {
namespace {

using kernels::cappedBernoulliLogZReference;
using kernels::cappedBernoulliMarginalsReference;
using kernels::Checker;
using kernels::gradients;

at::Tensor randomLogits(int64_t rows, int64_t n, bool forbidden) {
  const auto z = at::randn({n, rows}, at::kDouble).transpose(0, 1) * 2;
  return forbidden ? at::where(at::rand({rows, n}).lt(0.2), -INFINITY, z) : z;
}

// mu.x where x may be infinite at mu = 0.
at::Tensor dot(const at::Tensor& mu, const at::Tensor& x) {
  return (mu * at::where(x.isfinite(), x, 0.0)).sum(-1);
}

void compare(Checker& checker, int64_t rows, int64_t n, int64_t cap, bool forbidden) {
  const std::string name = std::to_string(rows) + "x" + std::to_string(n) + " K=" + std::to_string(cap) +
                           (forbidden ? " forbidden" : "");
  const at::Tensor z = randomLogits(rows, n, forbidden).requires_grad_();
  const at::Tensor zOld = (z.detach() + 0.5 * at::randn({rows, n}, at::kDouble));
  const auto generator = at::detail::createCPUGenerator(7);
  const at::Tensor actions = cappedBernoulliSample(z, cap, 3, generator);

  const at::Tensor logp = cappedBernoulliLogProb(z, actions, cap);
  const at::Tensor expected = dot(actions.to(at::kDouble), z) - cappedBernoulliLogZReference(z, cap);
  checker.close(name + " logp", logp, expected, 1e-12);
  const at::Tensor weights = at::randn(logp.sizes(), at::kDouble);
  checker.close(name + " logp gradient", gradients({logp}, {weights}, {z})[0],
                gradients({expected}, {weights}, {z})[0], 1e-11);

  const auto stats = cappedBernoulliStats(z, cap, zOld);
  const at::Tensor mu = cappedBernoulliMarginalsReference(z, cap);
  const at::Tensor logZ = cappedBernoulliLogZReference(z, cap);
  const at::Tensor entropy = logZ - dot(mu, z);
  const at::Tensor kl = dot(mu, z - zOld) - logZ + cappedBernoulliLogZReference(zOld, cap);
  checker.close(name + " marginals", stats.marginals, mu, 1e-12);
  checker.close(name + " entropy", stats.entropy, entropy, 1e-12);
  checker.close(name + " kl", stats.kl, kl, 1e-12);
  const std::vector<at::Tensor> outputWeights{at::randn({rows, n}, at::kDouble),
                                              at::randn({rows}, at::kDouble), at::randn({rows}, at::kDouble)};
  checker.close(name + " stats gradient",
                gradients({stats.marginals, stats.entropy, stats.kl}, outputWeights, {z})[0],
                gradients({mu, entropy, kl}, outputWeights, {z})[0], 1e-11);
}

// K = n is n independent Bernoulli with p = sigmoid(z). Rounding of logarithms around 100 is what the
// gradient's tolerance allows for.
void checkIndependent(Checker& checker) {
  const at::Tensor z = randomLogits(3, 128, false).requires_grad_();
  const auto stats = cappedBernoulliStats(z, 128, {});
  const at::Tensor p = z.sigmoid();
  const at::Tensor entropy = -(p * p.log() + (1 - p) * (1 - p).log()).sum(-1);
  checker.close("independent marginals", stats.marginals, p, 1e-12);
  checker.close("independent entropy", stats.entropy, entropy, 1e-12);
  const std::vector<at::Tensor> weights{at::randn({3, 128}, at::kDouble), at::randn({3}, at::kDouble)};
  checker.close("independent gradient", gradients({stats.marginals, stats.entropy}, weights, {z})[0],
                gradients({p, entropy}, weights, {z})[0], 1e-10);
}

// Every sample is possible, and the frequencies agree with the marginals to 6 standard errors.
void checkSamples(Checker& checker) {
  const at::Tensor z = randomLogits(2, 128, true);
  constexpr int64_t kDraws = 4000;
  const auto actions = cappedBernoulliSample(z, 9, kDraws, at::detail::createCPUGenerator(11));
  cappedBernoulliLogProb(z, actions, 9);
  const at::Tensor mu = cappedBernoulliStats(z, 9, {}).marginals;
  const at::Tensor error = (actions.to(at::kDouble).mean(0) - mu) / (mu * (1 - mu) / kDraws + 1e-12).sqrt();
  checker.close("sample frequencies in 6 standard errors", error / 6, at::zeros_like(error), 1);
}

void checkDtypes(Checker& checker) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor z = randomLogits(4, 6, false).to(type).requires_grad_();
    const at::Tensor exact = z.detach().to(at::kDouble).requires_grad_();
    const auto stats = cappedBernoulliStats(z, 2, {});
    const auto expected = cappedBernoulliStats(exact, 2, {});
    checker.close("marginals of a narrow dtype", stats.marginals, expected.marginals, 1e-6);
    const auto weights = at::randn({4}, at::kDouble);
    checker.close("gradient in a narrow dtype", gradients({stats.entropy}, {weights}, {z})[0],
                  gradients({expected.entropy}, {weights}, {exact})[0], type == at::kFloat ? 1e-6 : 1e-2);
  }
}

void checkErrors(Checker& checker) {
  const at::Tensor z = randomLogits(2, 3, false);
  const auto on = at::ones_like(z, at::kBool);
  checker.throws("cap", ErrorCode::Argument, "cap is 2", [&] { cappedBernoulliLogProb(z, on, 2); });
  auto forbidden = z.clone();
  forbidden[1][2] = -INFINITY;
  checker.throws("forbidden", ErrorCode::Argument, "row 1 activates specialist 2",
                 [&] { cappedBernoulliLogProb(forbidden, on, 3); });
  auto nan = z.clone();
  nan[0][1] = NAN;
  checker.throws("NaN", ErrorCode::NonFinite, "[0, 1]", [&] { cappedBernoulliMode(nan, 1, 0.5); });
  checker.throws("shape", ErrorCode::Shape, "actions", [&] { cappedBernoulliLogProb(z, on.slice(1, 1), 3); });
  checker.throws("too many", ErrorCode::Shape, "128",
                 [&] { cappedBernoulliMode(randomLogits(1, 129, false), 1, 0.5); });
}

}  // namespace
}  // namespace aegir::rl

int main() {
  using aegir::rl::compare;
  aegir::kernels::Checker checker;
  at::manual_seed(20250601);
  for (const bool forbidden : {false, true}) {
    for (const int64_t n : {1, 2, 3, 5, 17}) {
      for (const int64_t cap : {int64_t{0}, int64_t{1}, int64_t{2}, n})
        compare(checker, 7, n, cap, forbidden);
    }
  }
  compare(checker, 2, 40, 3, true);
  compare(checker, 0, 3, 2, false);
  compare(checker, 3, 0, 2, false);
  aegir::rl::checkIndependent(checker);
  aegir::rl::checkSamples(checker);
  aegir::rl::checkDtypes(checker);
  aegir::rl::checkErrors(checker);
  return checker.finish("routing_policy");
}
