// The EMA scan through the CUDA plug-in.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "native/core/error.h"
#include "native/cuda/loader.h"
#include "native/kernels/device_sequences.h"
#include "native/kernels/ema_scan.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CudaEmaScan {
  at::Tensor x, p, initial;  // p and initial f32; initial or undefined
  DeviceSequences sequences;

  int64_t width() const { return x.size(2); }
  const float* firstValues() const { return initial.defined() ? initial.const_data_ptr<float>() : nullptr; }
};

std::tuple<at::Tensor, at::Tensor> cudaForward(const CudaEmaScan& in) {
  const at::Tensor output = in.sequences.outputLike(in.x);
  const at::Tensor final = at::empty({in.sequences.count(), in.width()}, in.p.options());
  cuda::launch(&cuda::Table::emaScanForward, in.x,
               {in.sequences.layout(), in.width(), cudaStorage(in.x.scalar_type()), in.x.const_data_ptr(),
                in.p.const_data_ptr<float>(), in.firstValues(), output.mutable_data_ptr(),
                final.mutable_data_ptr<float>()});
  return {output, final};
}

// Gradients of x, p and y_{-1}.
variable_list cudaBackward(const CudaEmaScan& in, const at::Tensor& gradOutput, const at::Tensor& gradFinal) {
  const int64_t partials = cuda::emaScanPartials(in.width());
  const at::Tensor gradX = in.sequences.outputLike(in.x);
  const at::Tensor gradP = at::zeros({in.x.size(0), in.x.size(1), partials}, in.p.options());
  const at::Tensor grad = gradFinal.clone(at::MemoryFormat::Contiguous);
  const at::Tensor values = at::empty(in.x.sizes(), in.p.options());
  cuda::launch(&cuda::Table::emaScanBackward, in.x,
               {in.sequences.layout(), in.width(), cudaStorage(in.x.scalar_type()), in.x.const_data_ptr(),
                gradOutput.const_data_ptr(), in.p.const_data_ptr<float>(), in.firstValues(),
                gradX.mutable_data_ptr(), gradP.mutable_data_ptr<float>(), partials,
                grad.mutable_data_ptr<float>(), values.mutable_data_ptr<float>()});
  return {gradX, gradP.sum(-1), grad};
}

class CudaEmaScanFunction : public torch::autograd::Function<CudaEmaScanFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& p,
                               const std::optional<at::Tensor>& initial,
                               const std::optional<at::Tensor>& lengths,
                               const std::optional<at::Tensor>& cuSeqlens) {
    const at::Tensor none;
    const CudaEmaScan in{x,
                         p,
                         initial.value_or(none),
                         {x.size(0), x.size(1), lengths.value_or(none), cuSeqlens.value_or(none)}};
    context->save_for_backward({x, p, in.initial, in.sequences.lengths, in.sequences.cuSeqlens});
    auto [output, final] = cudaForward(in);
    return {output, final};
  }

  static variable_list backward(AutogradContext* context, variable_list gradResults) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "emaScan: differentiable once; a backward pass that builds a graph of its own is not supported");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const CudaEmaScan in{x, saved[1], saved[2], {x.size(0), x.size(1), saved[3], saved[4]}};
    const variable_list grad = cudaBackward(in, gradResults[0].contiguous(), gradResults[1]);
    return {grad[0], grad[1], in.initial.defined() ? grad[2] : at::Tensor(), {}, {}};
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor> emaScanCuda(const EmaScanInput& input) {
  cuda::table();  // the reason why there is none comes before anything else
  if (!cudaStores(input.x.scalar_type())) return emaScanReference(input);
  const CudaEmaScan in{
      input.x.contiguous(), input.p.to(at::kFloat).contiguous(),
      input.initial.defined() ? input.initial.to(at::kFloat).contiguous() : at::Tensor(),
      deviceSequences(input.x.size(0), input.x.size(1), input.lengths, input.cuSeqlens, input.x.device())};
  const bool graph = at::GradMode::is_enabled() && (in.x.requires_grad() || in.p.requires_grad() ||
                                                    (in.initial.defined() && in.initial.requires_grad()));
  if (!graph) return cudaForward(in);
  using Optional = std::optional<at::Tensor>;
  const variable_list results = CudaEmaScanFunction::apply(
      in.x, in.p, Optional(in.initial), Optional(in.sequences.lengths), Optional(in.sequences.cuSeqlens));
  return {results[0], results[1]};
}

}  // namespace aegir::kernels
