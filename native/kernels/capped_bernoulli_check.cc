// Compares the emulated CUDA form of the capped-Bernoulli policy with plain ATen in f64 and with the CPU's
// kernels.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "native/kernels/capped_bernoulli.h"
#include "native/kernels/check_support.h"

namespace aegir::kernels {
namespace {

void compare(Checker& checker, int64_t rows, int64_t n, int64_t cap, bool forbidden) {
  const std::string name = std::to_string(rows) + "x" + std::to_string(n) + " K=" + std::to_string(cap) +
                           (forbidden ? " forbidden" : "");
  at::Tensor z = at::randn({rows, n}, at::kDouble) * 2;
  if (forbidden) z = at::where(at::rand({rows, n}).lt(0.3), -INFINITY, z);
  const auto [marginals, logZ] = cappedBernoulliMarginalsCuda(z, cap);
  checker.close(name + " marginals", marginals, cappedBernoulliMarginalsReference(z, cap), 1e-12);
  checker.close(name + " log Z", logZ, cappedBernoulliLogZReference(z, cap), 1e-12);
  checker.close(name + " log Z alone", cappedBernoulliLogZCuda(z, cap), logZ, 0);

  const CappedBernoulliPolicy policy{z.const_data_ptr<double>(), rows, n, std::min(cap, n)};
  const at::Tensor v = at::where(z.isneginf(), NAN, at::randn({rows, n}, at::kDouble));
  const at::Tensor covariance = at::empty_like(z);
  cappedBernoulliCovariance(policy, v.const_data_ptr<double>(), covariance.mutable_data_ptr<double>());
  checker.close(name + " covariance", cappedBernoulliCovarianceCuda(z, cap, v), covariance, 1e-12);

  const at::Tensor uniforms = at::rand({5, rows, n}, at::kDouble);
  const at::Tensor actions = at::empty(uniforms.sizes(), at::kBool);
  cappedBernoulliSample(policy, uniforms.const_data_ptr<double>(), 5, actions.mutable_data_ptr<bool>());
  checker.close(name + " samples", cappedBernoulliSampleCuda(z, cap, uniforms), actions, 0);
}

int run() {
  openEmulatedCuda();
  Checker checker;
  const uint64_t seed = 20260106;
  at::manual_seed(seed);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (const bool forbidden : {false, true}) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{1, 1}, {70, 6}, {3, 20}, {0, 4}}) {
      for (const int64_t cap : {int64_t{0}, int64_t{1}, int64_t{3}, n, n + 2}) {
        compare(checker, rows, n, cap, forbidden);
      }
    }
  }
  compare(checker, 2, 128, 128, true);
  return checker.finish("capped_bernoulli_check");
}

}  // namespace
}  // namespace aegir::kernels

int main() { return aegir::kernels::run(); }
