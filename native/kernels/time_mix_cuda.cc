#include "native/kernels/time_mix_cuda.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/cuda/loader.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* in(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
float* out(const at::Tensor& x) { return x.mutable_data_ptr<float>(); }
at::Tensor like(const at::Tensor& x) { return at::empty(x.sizes(), x.options()); }

// Runs of rows; each adds up parameter gradients of its own, in a fixed order.
int64_t runsOf(int64_t rows) { return std::clamp<int64_t>(rows / 32, 1, 256); }

void refuseSecond(const char* name) {
  check(!at::GradMode::is_enabled(), ErrorCode::Argument, name,
        ": differentiable once; a backward pass that builds a graph of its own is not supported");
}

class CudaShiftMixFunction : public torch::autograd::Function<CudaShiftMixFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mu,
                               const std::optional<at::Tensor>& carriedRows, const at::Tensor& cuSeqlens) {
    const at::Tensor carried = carriedRows.value_or(at::Tensor());
    cuda::ShiftMix task{x.size(0),
                        x.size(1),
                        mu.size(0),
                        cuSeqlens.numel() - 1,
                        runsOf(x.size(0)),
                        cuSeqlens.const_data_ptr<int64_t>(),
                        in(x),
                        in(carried),
                        in(mu),
                        {}};
    variable_list mixed;
    for (int64_t c = 0; c < mu.size(0); ++c) {
      mixed.push_back(like(x));
      task.mixed[c] = out(mixed.back());
    }
    cuda::launch(&cuda::Table::shiftMix, x, task);
    context->save_for_backward({x, mu, carried, cuSeqlens});
    return mixed;
  }

  static variable_list backward(AutogradContext* context, variable_list gradMixed) {
    refuseSecond("tokenShiftMix");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &mu = saved[1], &carried = saved[2], &cuSeqlens = saved[3];
    const int64_t sequences = cuSeqlens.numel() - 1, runs = runsOf(x.size(0));
    const at::Tensor gradX = like(x), gradCarried = at::zeros({sequences, x.size(1)}, x.options()),
                     gradMu = at::zeros({runs, mu.size(0), mu.size(1)}, x.options());
    cuda::ShiftMixBackward task{
        x.size(0),  x.size(1),   mu.size(0), sequences, runs,       cuSeqlens.const_data_ptr<int64_t>(),
        in(x),      in(carried), in(mu),     {},        out(gradX), out(gradCarried),
        out(gradMu)};
    for (int64_t c = 0; c < mu.size(0); ++c) {
      gradMixed[c] = gradMixed[c].contiguous();
      task.gradMixed[c] = in(gradMixed[c]);
    }
    cuda::launch(&cuda::Table::shiftMixBackward, x, task);
    return {gradX, gradMu.sum(0), carried.defined() ? gradCarried : at::Tensor(), {}};
  }
};

class CudaKeyNormFunction : public torch::autograd::Function<CudaKeyNormFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& k, const at::Tensor& aLogits,
                               const at::Tensor& kK, const at::Tensor& kA, int64_t headSize) {
    const at::Tensor key = like(k), removal = like(k), gated = like(k);
    cuda::launch(&cuda::Table::keyNorm, k,
                 {k.size(0), k.size(1) / headSize, headSize, runsOf(k.size(0)), in(k), in(aLogits), in(kK),
                  in(kA), out(key), out(removal), out(gated)});
    context->save_for_backward({k, aLogits, kK, kA});
    context->saved_data["headSize"] = headSize;
    return {key, removal, gated};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuseSecond("keyNormalise");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &k = saved[0], &aLogits = saved[1], &kK = saved[2], &kA = saved[3];
    const int64_t headSize = context->saved_data["headSize"].toInt(), runs = runsOf(k.size(0));
    for (at::Tensor& grad : grads) grad = grad.contiguous();
    const at::Tensor gradK = like(k), gradALogits = like(k),
                     vectors = at::zeros({runs, 2, k.size(1)}, k.options());
    cuda::launch(&cuda::Table::keyNormBackward, k,
                 {k.size(0), k.size(1) / headSize, headSize, runs, in(k), in(aLogits), in(kK), in(kA),
                  in(grads[0]), in(grads[1]), in(grads[2]), out(gradK), out(gradALogits), out(vectors)});
    const at::Tensor sums = vectors.sum(0);
    return {gradK, gradALogits, sums[0], sums[1], {}};
  }
};

class CudaNormBonusGateFunction : public torch::autograd::Function<CudaNormBonusGateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& o, const at::Tensor& r,
                            const at::Tensor& k, const at::Tensor& v, const at::Tensor& gate,
                            const at::Tensor& rK, const at::Tensor& gain, const at::Tensor& bias) {
    const at::Tensor result = like(o);
    cuda::launch(&cuda::Table::normBonusGate, o,
                 {o.size(0), rK.size(0), rK.size(1), runsOf(o.size(0)), in(o), in(r), in(k), in(v), in(gate),
                  in(rK), in(gain), in(bias), out(result)});
    context->save_for_backward({o, r, k, v, gate, rK, gain, bias});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecond("groupNormBonusGate");
    const variable_list s = context->get_saved_variables();
    const at::Tensor &o = s[0], &rK = s[5], grad = grads[0].contiguous();
    const int64_t runs = runsOf(o.size(0));
    const at::Tensor gradO = like(o), gradR = like(o), gradK = like(o), gradV = like(o), gradGate = like(o),
                     vectors = at::zeros({runs, 3, o.size(1)}, o.options());
    cuda::launch(&cuda::Table::normBonusGateBackward, o,
                 {o.size(0), rK.size(0), rK.size(1), runs, in(o), in(s[1]), in(s[2]), in(s[3]), in(s[4]),
                  in(rK), in(s[6]), in(s[7]), in(grad), out(gradO), out(gradR), out(gradK), out(gradV),
                  out(gradGate), out(vectors)});
    const at::Tensor sums = vectors.sum(0);
    return {gradO, gradR, gradK, gradV, gradGate, sums[0].view_as(rK), sums[1], sums[2]};
  }
};

class CudaDecayFunction : public torch::autograd::Function<CudaDecayFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z) {
    const at::Tensor decay = like(z);
    cuda::launch(&cuda::Table::decay, z, {z.numel(), in(z), out(decay)});
    context->save_for_backward({z, decay});
    return decay;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecond("decayFromLogits");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &z = saved[0], grad = grads[0].contiguous(), gradZ = like(z);
    cuda::launch(&cuda::Table::decayBackward, z, {z.numel(), in(z), in(saved[1]), in(grad), out(gradZ)});
    return {gradZ};
  }
};

class CudaValueResidualFunction : public torch::autograd::Function<CudaValueResidualFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, const at::Tensor& first,
                            const at::Tensor& z) {
    const at::Tensor mixed = like(value);
    cuda::launch(&cuda::Table::valueMix, value, {value.numel(), in(value), in(first), in(z), out(mixed)});
    context->save_for_backward({value, first, z});
    return mixed;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecond("valueResidual");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &value = saved[0], grad = grads[0].contiguous();
    const at::Tensor gradValue = like(value), gradFirst = like(value), gradZ = like(value);
    cuda::launch(&cuda::Table::valueMixBackward, value,
                 {value.numel(), in(value), in(saved[1]), in(saved[2]), in(grad), out(gradValue),
                  out(gradFirst), out(gradZ)});
    return {gradValue, gradFirst, gradZ};
  }
};

class CudaSquaredReluFunction : public torch::autograd::Function<CudaSquaredReluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor result = like(x);
    cuda::launch(&cuda::Table::squaredRelu, x, {x.numel(), in(x), out(result)});
    context->save_for_backward({x});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecond("squaredRelu");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], grad = grads[0].contiguous(), gradX = like(x);
    cuda::launch(&cuda::Table::squaredReluBackward, x, {x.numel(), in(x), in(grad), out(gradX)});
    return {gradX};
  }
};

}  // namespace

std::vector<at::Tensor> tokenShiftMixCuda(const TokenShiftMixInput& input) {
  const at::Tensor carried = input.carried.defined() ? input.carried.contiguous() : at::Tensor();
  return CudaShiftMixFunction::apply(input.x.contiguous(), input.mu.contiguous(),
                                     std::optional<at::Tensor>(carried),
                                     queuedTo(input.cuSeqlens, input.x.device()).contiguous());
}

NormalisedKey keyNormaliseCuda(const KeyNormaliseInput& input) {
  const variable_list results =
      CudaKeyNormFunction::apply(input.k.contiguous(), input.aLogits.contiguous(), input.kK.contiguous(),
                                 input.kA.contiguous(), input.headSize);
  return {results[0], results[1], results[2]};
}

at::Tensor groupNormBonusGateCuda(const GroupNormBonusGateInput& input) {
  return CudaNormBonusGateFunction::apply(
      input.o.contiguous(), input.r.contiguous(), input.k.contiguous(), input.v.contiguous(),
      input.gate.contiguous(), input.rK.contiguous(), input.gain.contiguous(), input.bias.contiguous());
}

at::Tensor decayFromLogitsCuda(const at::Tensor& z) { return CudaDecayFunction::apply(z.contiguous()); }

at::Tensor valueResidualCuda(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z) {
  return CudaValueResidualFunction::apply(value.contiguous(), first.contiguous(), z.contiguous());
}

at::Tensor squaredReluCuda(const at::Tensor& x) { return CudaSquaredReluFunction::apply(x.contiguous()); }

}  // namespace aegir::kernels
