// The time-mix operators over heads: key normalisation, and group norm with bonus and gate.
#include <torch/csrc/autograd/custom_function.h>

#include "native/kernels/time_mix.h"
#include "native/kernels/time_mix_cuda.h"
#include "native/kernels/time_mix_dispatch.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class KeyNormaliseFunction : public torch::autograd::Function<KeyNormaliseFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& k, const at::Tensor& aLogits,
                               const at::Tensor& kK, const at::Tensor& kA, int64_t headSize) {
    const at::Tensor key = emptyAs(k), removal = emptyAs(k), gated = emptyAs(k);
    const int64_t width = k.size(1);
    withReal(k, [&](auto real) {
      using Real = decltype(real);
      forEachBlock(
          k.size(0), blockCount(k.numel(), elementsPerThread), [&](int64_t, int64_t begin, int64_t end) {
            const int64_t at = begin * width;
            timeMixKernelsOf<Real>().keyNorm({end - begin, width / headSize, headSize, pointerAt<Real>(k, at),
                                              pointerAt<Real>(aLogits, at), pointerAt<Real>(kK),
                                              pointerAt<Real>(kA), mutableAt<Real>(key, at),
                                              mutableAt<Real>(removal, at), mutableAt<Real>(gated, at)});
          });
    });
    context->save_for_backward({k, aLogits, kK, kA});
    context->saved_data["headSize"] = headSize;
    return {key, removal, gated};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuseSecondDerivative("keyNormalise");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &k = saved[0], &aLogits = saved[1], &kK = saved[2], &kA = saved[3];
    const int64_t headSize = context->saved_data["headSize"].toInt(), width = k.size(1);
    for (at::Tensor& grad : grads) grad = grad.contiguous();
    const int64_t blocks = blockCount(k.numel(), elementsPerThread);
    const at::Tensor gradK = emptyAs(k), gradALogits = emptyAs(k),
                     gradVectors = at::zeros({blocks, 2, width}, k.options());
    withReal(k, [&](auto real) {
      using Real = decltype(real);
      forEachBlock(k.size(0), blocks, [&](int64_t block, int64_t begin, int64_t end) {
        const int64_t at = begin * width, sums = block * 2 * width;
        timeMixKernelsOf<Real>().keyNormBackward(
            {end - begin, width / headSize, headSize, pointerAt<Real>(k, at), pointerAt<Real>(aLogits, at),
             pointerAt<Real>(kK), pointerAt<Real>(kA), pointerAt<Real>(grads[0], at),
             pointerAt<Real>(grads[1], at), pointerAt<Real>(grads[2], at), mutableAt<Real>(gradK, at),
             mutableAt<Real>(gradALogits, at), mutableAt<Real>(gradVectors, sums),
             mutableAt<Real>(gradVectors, sums + width)});
      });
    });
    const at::Tensor vectors = gradVectors.sum(0);
    return {gradK, gradALogits, vectors[0], vectors[1], {}};
  }
};

class GroupNormBonusGateFunction : public torch::autograd::Function<GroupNormBonusGateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& o, const at::Tensor& r,
                            const at::Tensor& k, const at::Tensor& v, const at::Tensor& gate,
                            const at::Tensor& rK, const at::Tensor& gain, const at::Tensor& bias) {
    const at::Tensor result = emptyAs(o);
    const int64_t width = o.size(1);
    withReal(o, [&](auto real) {
      using Real = decltype(real);
      forEachBlock(o.size(0), blockCount(o.numel(), elementsPerThread),
                   [&](int64_t, int64_t begin, int64_t end) {
                     const int64_t at = begin * width;
                     timeMixKernelsOf<Real>().normBonusGate(
                         {end - begin, rK.size(0), rK.size(1), pointerAt<Real>(o, at), pointerAt<Real>(r, at),
                          pointerAt<Real>(k, at), pointerAt<Real>(v, at), pointerAt<Real>(gate, at),
                          pointerAt<Real>(rK), pointerAt<Real>(gain), pointerAt<Real>(bias),
                          mutableAt<Real>(result, at)});
                   });
    });
    context->save_for_backward({o, r, k, v, gate, rK, gain, bias});
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    refuseSecondDerivative("groupNormBonusGate");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &o = saved[0], &r = saved[1], &k = saved[2], &v = saved[3], &gate = saved[4],
                     &rK = saved[5], &gain = saved[6], &bias = saved[7], grad = grads[0].contiguous();
    const int64_t width = o.size(1), blocks = blockCount(o.numel(), elementsPerThread);
    const at::Tensor gradO = emptyAs(o), gradR = emptyAs(o), gradK = emptyAs(o), gradV = emptyAs(o),
                     gradGate = emptyAs(o);
    const at::Tensor gradVectors = at::zeros({blocks, 3, width}, o.options());
    withReal(o, [&](auto real) {
      using Real = decltype(real);
      forEachBlock(o.size(0), blocks, [&](int64_t block, int64_t begin, int64_t end) {
        const int64_t at = begin * width, sums = block * 3 * width;
        timeMixKernelsOf<Real>().normBonusGateBackward({end - begin,
                                                        rK.size(0),
                                                        rK.size(1),
                                                        pointerAt<Real>(o, at),
                                                        pointerAt<Real>(r, at),
                                                        pointerAt<Real>(k, at),
                                                        pointerAt<Real>(v, at),
                                                        pointerAt<Real>(gate, at),
                                                        pointerAt<Real>(rK),
                                                        pointerAt<Real>(gain),
                                                        pointerAt<Real>(bias),
                                                        pointerAt<Real>(grad, at),
                                                        mutableAt<Real>(gradO, at),
                                                        mutableAt<Real>(gradR, at),
                                                        mutableAt<Real>(gradK, at),
                                                        mutableAt<Real>(gradV, at),
                                                        mutableAt<Real>(gradGate, at),
                                                        mutableAt<Real>(gradVectors, sums),
                                                        mutableAt<Real>(gradVectors, sums + width),
                                                        mutableAt<Real>(gradVectors, sums + 2 * width)});
      });
    });
    const at::Tensor vectors = gradVectors.sum(0);
    return {gradO, gradR, gradK, gradV, gradGate, vectors[0].view_as(rK), vectors[1], vectors[2]};
  }
};

}  // namespace

NormalisedKey keyNormalise(const KeyNormaliseInput& input) {
  if (cudaHeadSize(input.headSize) && onGpu({input.k, input.aLogits, input.kK, input.kA}))
    return keyNormaliseCuda(input);
  if (!kernelsServe({input.k, input.aLogits, input.kK, input.kA}, input.headSize))
    return reference::keyNormalise(input);
  const variable_list results =
      KeyNormaliseFunction::apply(input.k.contiguous(), input.aLogits.contiguous(), input.kK.contiguous(),
                                  input.kA.contiguous(), input.headSize);
  return {results[0], results[1], results[2]};
}

at::Tensor groupNormBonusGate(const GroupNormBonusGateInput& input) {
  const std::initializer_list<at::Tensor> tensors{input.o,    input.r,  input.k,    input.v,
                                                  input.gate, input.rK, input.gain, input.bias};
  if (cudaHeadSize(input.rK.size(1)) && onGpu(tensors)) return groupNormBonusGateCuda(input);
  if (!kernelsServe(tensors, input.rK.size(1))) return reference::groupNormBonusGate(input);
  return GroupNormBonusGateFunction::apply(
      input.o.contiguous(), input.r.contiguous(), input.k.contiguous(), input.v.contiguous(),
      input.gate.contiguous(), input.rK.contiguous(), input.gain.contiguous(), input.bias.contiguous());
}

}  // namespace aegir::kernels
