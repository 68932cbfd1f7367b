#include "native/kernels/time_mix.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "native/kernels/sequence_layout.h"
#include "native/kernels/time_mix_cuda.h"
#include "native/kernels/time_mix_dispatch.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class ShiftMixFunction : public torch::autograd::Function<ShiftMixFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mu,
                               const std::optional<at::Tensor>& carriedRows,
                               const std::vector<int64_t>& start, const std::vector<int64_t>& length) {
    const at::Tensor carried = carriedRows.value_or(at::Tensor());
    const int64_t width = x.size(1), mixes = mu.size(0);
    variable_list mixed;
    for (int64_t c = 0; c < mixes; ++c) mixed.push_back(emptyAs(x));
    withReal(x, [&](auto real) {
      using Real = decltype(real);
      at::parallel_for(0, start.size(), grain(x, start), [&](int64_t first, int64_t last) {
        for (int64_t s = first; s < last; ++s) {
          ShiftMix<Real> task{length[s],
                              width,
                              mixes,
                              pointerAt<Real>(x, start[s] * width),
                              pointerAt<Real>(carried, s * width),
                              pointerAt<Real>(mu),
                              {}};
          for (int64_t c = 0; c < mixes; ++c) task.mixed[c] = mutableAt<Real>(mixed[c], start[s] * width);
          timeMixKernelsOf<Real>().shiftMix(task);
        }
      });
    });
    context->save_for_backward({x, mu, carried});
    context->saved_data["start"] = start;
    context->saved_data["length"] = length;
    return mixed;
  }

  static variable_list backward(AutogradContext* context, variable_list gradMixed) {
    refuseSecondDerivative("tokenShiftMix");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &mu = saved[1], &carried = saved[2];
    const auto start = context->saved_data["start"].toIntVector(),
               length = context->saved_data["length"].toIntVector();
    const int64_t width = x.size(1), mixes = mu.size(0), sequences = start.size();
    for (at::Tensor& grad : gradMixed) grad = grad.contiguous();
    const int64_t blocks =
        std::min(blockCount(x.numel(), elementsPerThread), std::max<int64_t>(sequences, 1));
    const at::Tensor gradX = emptyAs(x), gradCarried = at::zeros({sequences, width}, x.options());
    const at::Tensor gradMu = at::zeros({blocks, mixes, width}, x.options());
    withReal(x, [&](auto real) {
      using Real = decltype(real);
      forEachBlock(sequences, blocks, [&](int64_t block, int64_t first, int64_t last) {
        for (int64_t s = first; s < last; ++s) {
          const int64_t at = start[s] * width;
          ShiftMixBackward<Real> task{length[s],
                                      width,
                                      mixes,
                                      pointerAt<Real>(x, at),
                                      pointerAt<Real>(carried, s * width),
                                      pointerAt<Real>(mu),
                                      {},
                                      mutableAt<Real>(gradX, at),
                                      mutableAt<Real>(gradCarried, s * width),
                                      mutableAt<Real>(gradMu, block * mixes * width)};
          for (int64_t c = 0; c < mixes; ++c) task.gradMixed[c] = pointerAt<Real>(gradMixed[c], at);
          timeMixKernelsOf<Real>().shiftMixBackward(task);
        }
      });
    });
    return {gradX, gradMu.sum(0), carried.defined() ? gradCarried : at::Tensor(), {}, {}};
  }

 private:
  // Sequences a thread takes at least.
  static int64_t grain(const at::Tensor& x, const std::vector<int64_t>& start) {
    const int64_t perSequence = x.numel() / std::max<int64_t>(start.size(), 1);
    return std::max<int64_t>(1, elementsPerThread / std::max<int64_t>(perSequence, 1));
  }
};

// work(first element, count) over whole rows.
template <class Work>
void forEachRange(const at::Tensor& x, const Work& work) {
  const int64_t width = x.size(-1), rows = width > 0 ? x.numel() / width : 0;
  forEachBlock(rows, blockCount(x.numel(), elementsPerThread),
               [&](int64_t, int64_t begin, int64_t end) { work(begin * width, (end - begin) * width); });
}

class DecayFunction : public torch::autograd::Function<DecayFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& z) {
    const at::Tensor decay = emptyAs(z);
    withReal(z, [&](auto real) {
      using Real = decltype(real);
      forEachRange(z, [&](int64_t at, int64_t count) {
        timeMixKernelsOf<Real>().decay({count, pointerAt<Real>(z, at), mutableAt<Real>(decay, at)});
      });
    });
    context->save_for_backward({z, decay});
    return decay;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecondDerivative("decayFromLogits");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &z = saved[0], &decay = saved[1], grad = grads[0].contiguous(), gradZ = emptyAs(z);
    withReal(z, [&](auto real) {
      using Real = decltype(real);
      forEachRange(z, [&](int64_t at, int64_t count) {
        timeMixKernelsOf<Real>().decayBackward({count, pointerAt<Real>(z, at), pointerAt<Real>(decay, at),
                                                pointerAt<Real>(grad, at), mutableAt<Real>(gradZ, at)});
      });
    });
    return {gradZ};
  }
};

class ValueResidualFunction : public torch::autograd::Function<ValueResidualFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, const at::Tensor& first,
                            const at::Tensor& z) {
    const at::Tensor mixed = emptyAs(value);
    withReal(value, [&](auto real) {
      using Real = decltype(real);
      forEachRange(value, [&](int64_t at, int64_t count) {
        timeMixKernelsOf<Real>().valueMix({count, pointerAt<Real>(value, at), pointerAt<Real>(first, at),
                                           pointerAt<Real>(z, at), mutableAt<Real>(mixed, at)});
      });
    });
    context->save_for_backward({value, first, z});
    return mixed;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecondDerivative("valueResidual");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &value = saved[0], &first = saved[1], &z = saved[2], grad = grads[0].contiguous();
    const at::Tensor gradValue = emptyAs(value), gradFirst = emptyAs(value), gradZ = emptyAs(value);
    withReal(value, [&](auto real) {
      using Real = decltype(real);
      forEachRange(value, [&](int64_t at, int64_t count) {
        timeMixKernelsOf<Real>().valueMixBackward(
            {count, pointerAt<Real>(value, at), pointerAt<Real>(first, at), pointerAt<Real>(z, at),
             pointerAt<Real>(grad, at), mutableAt<Real>(gradValue, at), mutableAt<Real>(gradFirst, at),
             mutableAt<Real>(gradZ, at)});
      });
    });
    return {gradValue, gradFirst, gradZ};
  }
};

class SquaredReluFunction : public torch::autograd::Function<SquaredReluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor result = emptyAs(x);
    withReal(x, [&](auto real) {
      using Real = decltype(real);
      forEachRange(x, [&](int64_t at, int64_t count) {
        timeMixKernelsOf<Real>().squaredRelu({count, pointerAt<Real>(x, at), mutableAt<Real>(result, at)});
      });
    });
    context->save_for_backward({x});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecondDerivative("squaredRelu");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], grad = grads[0].contiguous(), gradX = emptyAs(x);
    withReal(x, [&](auto real) {
      using Real = decltype(real);
      forEachRange(x, [&](int64_t at, int64_t count) {
        timeMixKernelsOf<Real>().squaredReluBackward(
            {count, pointerAt<Real>(x, at), pointerAt<Real>(grad, at), mutableAt<Real>(gradX, at)});
      });
    });
    return {gradX};
  }
};

}  // namespace

std::vector<at::Tensor> tokenShiftMix(const TokenShiftMixInput& input) {
  if (input.x.is_cuda() && input.mu.size(0) <= maxShiftMixes && onGpu({input.x, input.mu, input.carried}) &&
      sequenceCount(1, input.x.size(0), {}, input.cuSeqlens) > 0) {
    return tokenShiftMixCuda(input);
  }
  if (input.mu.size(0) > maxShiftMixes ||
      !kernelsServe({input.x, input.mu, input.carried}, input.x.size(1))) {
    return reference::tokenShiftMix(input);
  }
  const SequenceLayout layout = sequenceLayout(1, input.x.size(0), {}, input.cuSeqlens);
  const at::Tensor carried = input.carried.defined() ? input.carried.contiguous() : at::Tensor();
  return ShiftMixFunction::apply(input.x.contiguous(), input.mu.contiguous(),
                                 std::optional<at::Tensor>(carried), layout.start, layout.length);
}

at::Tensor decayFromLogits(const at::Tensor& z) {
  if (onGpu({z})) return decayFromLogitsCuda(z);
  if (!kernelsServe({z}, z.size(-1))) return reference::decayFromLogits(z);
  return DecayFunction::apply(z.contiguous());
}

at::Tensor valueResidual(const at::Tensor& value, const at::Tensor& first, const at::Tensor& z) {
  if (onGpu({value, first, z})) return valueResidualCuda(value, first, z);
  if (!kernelsServe({value, first, z}, value.size(-1))) return reference::valueResidual(value, first, z);
  return ValueResidualFunction::apply(value.contiguous(), first.contiguous(), z.contiguous());
}

at::Tensor squaredRelu(const at::Tensor& x) {
  if (onGpu({x})) return squaredReluCuda(x);
  if (!kernelsServe({x}, x.size(-1))) return reference::squaredRelu(x);
  return SquaredReluFunction::apply(x.contiguous());
}

}  // namespace aegir::kernels
