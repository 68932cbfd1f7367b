#include "native/kernels/sequence_mean_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "native/cuda/loader.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class CudaSequenceMean : public torch::autograd::Function<CudaSequenceMean> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weights, const at::Tensor& cuSeqlens) {
    const int64_t sequences = cuSeqlens.size(0) - 1, tokens = x.size(0), width = x.size(1);
    const at::Tensor mean = at::empty({sequences, width}, x.options()),
                     scale = at::empty({tokens}, x.options());
    const bool weighted = weights.has_value() && weights->defined();
    cuda::launch(&cuda::Table::sequenceMean, x,
                 {sequences, tokens, width, cuSeqlens.const_data_ptr<int64_t>(), x.const_data_ptr<float>(),
                  weighted ? weights->const_data_ptr<float>() : nullptr, mean.mutable_data_ptr<float>(),
                  scale.mutable_data_ptr<float>()});
    context->save_for_backward({scale, cuSeqlens});
    return mean;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &scale = saved[0], &cuSeqlens = saved[1], grad = grads[0].contiguous();
    const at::Tensor gradX = at::empty({scale.size(0), grad.size(1)}, grad.options());
    cuda::launch(
        &cuda::Table::sequenceMeanBackward, grad,
        {cuSeqlens.size(0) - 1, scale.size(0), grad.size(1), cuSeqlens.const_data_ptr<int64_t>(),
         scale.const_data_ptr<float>(), grad.const_data_ptr<float>(), gradX.mutable_data_ptr<float>()});
    return {gradX, {}, {}};
  }
};

}  // namespace

at::Tensor sequenceMeanCuda(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& cuSeqlens) {
  return CudaSequenceMean::apply(
      x.contiguous(), std::optional<at::Tensor>(weights.defined() ? weights.contiguous() : weights),
      cuSeqlens.contiguous());
}

}  // namespace aegir::kernels
