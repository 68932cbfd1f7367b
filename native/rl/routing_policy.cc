#include "native/rl/routing_policy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "native/core/dtype.h"
#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/kernels/capped_bernoulli.h"

namespace aegir::rl {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

constexpr int64_t kMaxSpecialists = 128;

// Decisions at tokens (B,T,n) as rows (B*T,n), with z's graph.
at::Tensor rowsOf(const at::Tensor& z, const char* name) {
  check(z.dim() == 2 || z.dim() == 3, ErrorCode::Shape, name, ": expected (R,n) or (B,T,n), got ", z.sizes());
  if (z.dim() == 2) return z;
  c10::AutoGradMode withGraph(z.requires_grad());
  return z.reshape({z.size(0) * z.size(1), z.size(2)});
}

// Values with the rows, dimension `rowDim`, in the shape of z's decisions.
at::Tensor likeDecisions(const at::Tensor& values, const at::Tensor& z, int64_t rowDim) {
  if (z.dim() == 2 || !values.defined()) return values;
  std::vector<int64_t> shape(values.sizes().begin(), values.sizes().end());
  shape[rowDim] = z.size(0);
  shape.insert(shape.begin() + rowDim + 1, z.size(1));
  c10::AutoGradMode withGraph(values.requires_grad());
  return values.reshape(shape);
}

// z (R,n) as the kernels read it: contiguous doubles where z lies, without a graph.
at::Tensor checkedLogits(const at::Tensor& z, const char* name) {
  check(z.size(1) <= kMaxSpecialists, ErrorCode::Shape, name, ": expected at most ", kMaxSpecialists,
        " specialists, got ", z.size(1));
  const auto type = z.scalar_type();
  check(type == at::kFloat || type == at::kDouble || type == at::kBFloat16, ErrorCode::Dtype, name,
        ": expected f32, f64 or bf16, got ", dtypeName(type));
  const at::Tensor ready = z.detach().to(at::kDouble).contiguous();
  // Of a GPU the host reads one number, and all values only where one is wrong.
  if (!ready.is_cpu() && ready.lt(INFINITY).all().item<bool>()) return ready;
  const at::Tensor onHost = ready.cpu();
  const double* values = onHost.const_data_ptr<double>();
  for (int64_t i = 0; i < ready.numel(); ++i) {
    check(values[i] < INFINITY, ErrorCode::NonFinite, name,
          ": expected finite logits, or -inf for a forbidden ", "specialist, got ", values[i], " at [",
          i / ready.size(1), ", ", i % ready.size(1), "]");
  }
  return ready;
}

void checkCap(int64_t cap) { check(cap >= 0, ErrorCode::Argument, "cap: expected at least 0, got ", cap); }

kernels::CappedBernoulliPolicy policyOf(const at::Tensor& ready, int64_t cap) {
  checkCap(cap);
  return {ready.const_data_ptr<double>(), ready.size(0), ready.size(1), std::min(cap, ready.size(1))};
}

struct Moments {
  at::Tensor marginals;  // (R,n)
  at::Tensor logZ;       // (R)
};

Moments momentsOf(const at::Tensor& ready, int64_t cap) {
  checkCap(cap);
  if (!ready.is_cpu()) {
    auto [marginals, logZ] = kernels::cappedBernoulliMarginalsCuda(ready, cap);
    return {marginals, logZ};
  }
  Moments out{at::empty(ready.sizes(), ready.options()), at::empty({ready.size(0)}, ready.options())};
  kernels::cappedBernoulliMarginals(policyOf(ready, cap), out.marginals.mutable_data_ptr<double>(),
                                    out.logZ.mutable_data_ptr<double>());
  return out;
}

at::Tensor logZOf(const at::Tensor& ready, int64_t cap) {
  if (!ready.is_cpu()) return kernels::cappedBernoulliLogZCuda(ready, cap);
  at::Tensor logZ = at::empty({ready.size(0)}, ready.options());
  kernels::cappedBernoulliLogZ(policyOf(ready, cap), logZ.mutable_data_ptr<double>());
  return logZ;
}

at::Tensor covarianceTimes(const at::Tensor& ready, int64_t cap, const at::Tensor& v) {
  if (!ready.is_cpu()) return kernels::cappedBernoulliCovarianceCuda(ready, cap, v);
  at::Tensor result = at::empty_like(ready);
  kernels::cappedBernoulliCovariance(policyOf(ready, cap), v.const_data_ptr<double>(),
                                     result.mutable_data_ptr<double>());
  return result;
}

// Sum over specialists of p * x (R,n) → (R), where p = 0 hides an infinite x: 0 * inf of a forbidden
// specialist is 0.
at::Tensor expectation(const at::Tensor& p, const at::Tensor& x) {
  return at::where(p.gt(0), p * x, 0.0).sum(-1);
}

// Actions as (G,R,n) doubles, each possible under the policy.
at::Tensor checkedActions(const at::Tensor& actions, const at::Tensor& z, const at::Tensor& ready,
                          int64_t cap) {
  const auto sizes = actions.sizes();
  const bool fits = sizes == z.sizes() || (actions.dim() == z.dim() + 1 && sizes.slice(1) == z.sizes());
  check(fits, ErrorCode::Shape, "actions: expected the shape of z ", z.sizes(), " or (G, those), got ",
        sizes);
  check(actions.scalar_type() == at::kBool, ErrorCode::Dtype, "actions: expected bool, got ",
        dtypeName(actions.scalar_type()));
  const int64_t draws = actions.dim() == z.dim() ? 1 : actions.size(0);
  const at::Tensor all =
      queuedTo(actions, ready.device()).reshape({draws, ready.size(0), ready.size(1)}).contiguous();
  if (!ready.is_cpu()) {
    const auto possible =
        all.sum(-1).le(cap).all().logical_and(all.logical_and(ready.isneginf()).any().logical_not());
    if (possible.item<bool>()) return all.to(at::kDouble);
  }
  const at::Tensor flat = all.cpu(), here = ready.cpu();
  const bool* on = flat.const_data_ptr<bool>();
  const double* logits = here.const_data_ptr<double>();
  const int64_t n = ready.size(1);
  for (int64_t row = 0; row < flat.size(0) * flat.size(1); ++row) {
    const int64_t r = row % ready.size(0);
    int64_t active = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (!on[row * n + i]) continue;
      ++active;
      check(logits[r * n + i] > -INFINITY, ErrorCode::Argument, "actions: row ", r, " activates specialist ",
            i, ", which z forbids (-inf)");
    }
    check(active <= cap, ErrorCode::Argument, "actions: row ", r, " activates ", active,
          " specialists, the cap is ", cap, "; pass the cap that the action was drawn with");
  }
  return all.to(at::kDouble);
}

struct LogProb : public torch::autograd::Function<LogProb> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z, const at::Tensor& ready,
                            const at::Tensor& actions, int64_t cap) {
    const Moments moments = momentsOf(ready, cap);
    context->save_for_backward({actions, moments.marginals});
    context->saved_data["dtype"] = static_cast<int64_t>(z.scalar_type());
    return (expectation(actions, ready) - moments.logZ).to(accumulateType(z.scalar_type()));
  }

  // d logp/dz = a - mu, summed over the draws.
  static tensor_list backward(AutogradContext* context, tensor_list outputs) {
    const auto saved = context->get_saved_variables();
    const auto type = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const auto weights = outputs[0].to(at::kDouble).unsqueeze(-1);  // (G,R,1)
    return {((saved[0] - saved[1]) * weights).sum(0).to(type), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct Stats : public torch::autograd::Function<Stats> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& z, const at::Tensor& ready,
                             const at::Tensor& old, int64_t cap) {
    const Moments moments = momentsOf(ready, cap);
    const at::Tensor logZOld = logZOf(old, cap);
    const at::Tensor entropy = moments.logZ - expectation(moments.marginals, ready);
    const at::Tensor kl = expectation(moments.marginals, ready - old) - moments.logZ + logZOld;
    context->save_for_backward({ready, old});
    context->saved_data["cap"] = cap;
    context->saved_data["dtype"] = static_cast<int64_t>(z.scalar_type());
    context->set_materialize_grads(false);
    const auto type = accumulateType(z.scalar_type());
    return {moments.marginals.to(type), entropy.to(type), kl.to(type)};
  }

  // Every output is a function of z through the moments: dmu = Cov dz, dH/dz = -Cov z, dKL/dz = Cov (z -
  // zOld).
  static tensor_list backward(AutogradContext* context, tensor_list outputs) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& ready = saved[0];
    at::Tensor direction = at::zeros_like(ready);
    if (outputs[0].defined()) direction += outputs[0].to(at::kDouble);
    if (outputs[1].defined()) direction -= scaledRows(outputs[1], ready);
    if (outputs[2].defined()) direction += scaledRows(outputs[2], ready - saved[1]);
    const at::Tensor grad = covarianceTimes(ready, context->saved_data["cap"].toInt(), direction);
    const auto type = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    return {grad.to(type), at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  // rows (R) times x (R,n); a row of weight 0 gives 0 whatever x is.
  static at::Tensor scaledRows(const at::Tensor& rows, const at::Tensor& x) {
    const at::Tensor weights = rows.to(at::kDouble).unsqueeze(-1);
    return at::where(weights.ne(0), weights * x, 0.0);
  }
};

}  // namespace

at::Tensor restrictLogits(const at::Tensor& z, const at::Tensor& allowed, const at::Tensor& mask) {
  const auto checked = [&](const at::Tensor& x, const char* name, at::IntArrayRef whole, bool alsoRow) {
    check(x.scalar_type() == at::kBool, ErrorCode::Dtype, name, ": expected bool, got ",
          dtypeName(x.scalar_type()));
    check(x.sizes() == whole || (alsoRow && x.sizes() == z.sizes().slice(z.dim() - 1)), ErrorCode::Shape,
          name, ": expected ", whole, alsoRow ? " or (n)" : "", " for z ", z.sizes(), ", got ", x.sizes());
    return x.to(z.device());
  };
  rowsOf(z, "z");
  c10::AutoGradMode withGraph(z.requires_grad());
  at::Tensor out = z;
  if (allowed.defined()) out = at::where(checked(allowed, "allowed", z.sizes(), true), out, -INFINITY);
  if (mask.defined()) {
    out = at::where(checked(mask, "mask", z.sizes().slice(0, z.dim() - 1), false).unsqueeze(-1), out,
                    -INFINITY);
  }
  return out;
}

at::Tensor cappedBernoulliLogProb(const at::Tensor& z, const at::Tensor& actions, int64_t cap) {
  const at::Tensor rows = rowsOf(z, "z"), ready = checkedLogits(rows, "z");
  const at::Tensor chosen = checkedActions(actions, z, ready, cap);
  c10::AutoGradMode withGraph(z.requires_grad());
  const at::Tensor logp = LogProb::apply(rows, ready, chosen, cap);  // (G,R)
  return likeDecisions(actions.dim() == z.dim() ? logp.squeeze(0) : logp, z, actions.dim() - z.dim());
}

at::Tensor cappedBernoulliSample(const at::Tensor& z, int64_t cap, int64_t draws,
                                 const at::Generator& generator) {
  const at::Tensor ready = checkedLogits(rowsOf(z, "z"), "z");
  check(draws >= 0, ErrorCode::Argument, "draws: expected at least 0, got ", draws);
  checkCap(cap);
  // The same draws on every device.
  const at::Tensor uniforms =
      at::rand({draws, ready.size(0), ready.size(1)}, generator, at::TensorOptions().dtype(at::kDouble));
  if (!ready.is_cpu())
    return likeDecisions(kernels::cappedBernoulliSampleCuda(ready, cap, queuedTo(uniforms, ready.device())),
                         z, 1);
  const auto policy = policyOf(ready, cap);
  at::Tensor actions = at::empty(uniforms.sizes(), ready.options().dtype(at::kBool));
  kernels::cappedBernoulliSample(policy, uniforms.const_data_ptr<double>(), draws,
                                 actions.mutable_data_ptr<bool>());
  return likeDecisions(actions, z, 1);
}

at::Tensor cappedBernoulliMode(const at::Tensor& z, int64_t cap, double threshold) {
  const at::Tensor ready = checkedLogits(rowsOf(z, "z").cpu(), "z");
  check(threshold >= 0 && threshold <= 1, ErrorCode::Argument, "threshold: expected a number in [0, 1], got ",
        threshold);
  at::Tensor actions = at::empty(ready.sizes(), ready.options().dtype(at::kBool));
  kernels::cappedBernoulliMode(policyOf(ready, cap), std::log(threshold) - std::log1p(-threshold),
                               actions.mutable_data_ptr<bool>());
  return likeDecisions(actions, z, 0);
}

CappedBernoulliStats cappedBernoulliStats(const at::Tensor& z, int64_t cap, const at::Tensor& zOld) {
  const at::Tensor rows = rowsOf(z, "z"), ready = checkedLogits(rows, "z");
  // Without zOld the policy stands in for it: a KL of 0, left out of the result.
  at::Tensor old = ready;
  if (zOld.defined()) {
    check(zOld.sizes() == z.sizes(), ErrorCode::Shape, "zOld: expected the shape of z ", z.sizes(), ", got ",
          zOld.sizes());
    old = checkedLogits(queuedTo(rowsOf(zOld, "zOld").detach(), z.device()), "zOld");
  }
  c10::AutoGradMode withGraph(z.requires_grad());
  const auto outputs = Stats::apply(rows, ready, old, cap);
  return {likeDecisions(outputs[0], z, 0), likeDecisions(outputs[1], z, 0),
          zOld.defined() ? likeDecisions(outputs[2], z, 0) : at::Tensor()};
}

}  // namespace aegir::rl
