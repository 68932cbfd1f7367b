#include "native/kernels/ema_scan.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

#include "native/core/dtype.h"
#include "native/core/error.h"
#include "native/kernels/sequence_layout.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One sequence: rows of D values. Coefficients and values are computed in Real; x stays in its own dtype.
template <class Storage, class Real>
void scanSequence(const Storage* x, const Real* p, const Real* initial, Storage* output, Real* y,
                  int64_t tokens, int64_t width) {
  for (int64_t d = 0; d < width; ++d) {
    y[d] = initial != nullptr ? initial[d] : tokens > 0 ? static_cast<Real>(x[d]) : Real(0);
  }
  for (int64_t t = 0; t < tokens; ++t, x += width, output += width) {
    const Real weight = p[t], keep = 1 - weight;
    for (int64_t d = 0; d < width; ++d) {
      y[d] = weight * static_cast<Real>(x[d]) + keep * y[d];
      output[d] = static_cast<Storage>(y[d]);
    }
  }
}

// grad enters as dL/d(final value) and leaves as dL/dy_{-1}. The values y are scanned again into `values`
// rather than read from the output, which a bf16 x would have rounded.
template <class Storage, class Real>
void scanSequenceBackward(const Storage* x, const Real* p, const Real* initial, const Storage* gradOutput,
                          Storage* gradX, Real* gradP, Real* grad, Real* values, int64_t tokens,
                          int64_t width) {
  const auto before = [&](int64_t t, int64_t d) -> Real {  // y_{t-1}
    if (t > 0) return values[(t - 1) * width + d];
    return initial != nullptr ? initial[d] : static_cast<Real>(x[d]);
  };
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      values[t * width + d] = p[t] * static_cast<Real>(x[t * width + d]) + (1 - p[t]) * before(t, d);
    }
  }
  for (int64_t t = tokens - 1; t >= 0; --t) {
    const Real weight = p[t], keep = 1 - weight;
    Real sum = 0;
    for (int64_t d = 0; d < width; ++d) {
      const int64_t at = t * width + d;
      const Real g = grad[d] + static_cast<Real>(gradOutput[at]);
      sum += g * (static_cast<Real>(x[at]) - before(t, d));
      const bool startsFromX = t == 0 && initial == nullptr;  // y_{-1} = x_0
      gradX[at] = static_cast<Storage>(startsFromX ? g : weight * g);
      grad[d] = keep * g;
    }
    gradP[t] = sum;
  }
}

// work(Storage{}, Real{}, sequence) for every sequence, with the types that x asks for.
template <class Work>
void forEachSequence(const at::Tensor& x, const SequenceLayout& layout, const Work& work) {
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "emaScan", [&] {
    using Real = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
    at::parallel_for(0, layout.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) work(scalar_t{}, Real{}, s);
    });
  });
}

template <class Real>
const Real* rowOf(const at::Tensor& rows, int64_t s, int64_t width) {
  return rows.defined() ? rows.const_data_ptr<Real>() + s * width : nullptr;
}

// p and initial are already in the compute type; everything is contiguous.
std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& p,
                                           const at::Tensor& initial, const SequenceLayout& layout) {
  const int64_t width = x.size(2);
  const at::Tensor output =
      layout.coversEveryRow ? at::empty(x.sizes(), x.options()) : at::zeros(x.sizes(), x.options());
  const at::Tensor final = at::empty({layout.size(), width}, p.options());
  forEachSequence(x, layout, [&](auto storage, auto real, int64_t s) {
    using Storage = decltype(storage);
    using Real = decltype(real);
    const int64_t row = layout.start[s];
    scanSequence<Storage, Real>(x.const_data_ptr<Storage>() + row * width, p.const_data_ptr<Real>() + row,
                                rowOf<Real>(initial, s, width),
                                output.mutable_data_ptr<Storage>() + row * width,
                                final.mutable_data_ptr<Real>() + s * width, layout.length[s], width);
  });
  return {output, final};
}

// {grad of x, of p, of y_{-1}}
variable_list backward(const at::Tensor& x, const at::Tensor& p, const at::Tensor& initial,
                       const SequenceLayout& layout, const at::Tensor& gradOutput,
                       const at::Tensor& gradFinal) {
  const int64_t width = x.size(2);
  const at::Tensor gradX =
      layout.coversEveryRow ? at::empty(x.sizes(), x.options()) : at::zeros(x.sizes(), x.options());
  const at::Tensor gradP = at::zeros(p.sizes(), p.options());
  const at::Tensor grad = gradFinal.clone(at::MemoryFormat::Contiguous);
  forEachSequence(x, layout, [&](auto storage, auto real, int64_t s) {
    using Storage = decltype(storage);
    using Real = decltype(real);
    const int64_t row = layout.start[s], tokens = layout.length[s];
    const at::Tensor values = at::empty({tokens * width}, p.options());
    scanSequenceBackward<Storage, Real>(
        x.const_data_ptr<Storage>() + row * width, p.const_data_ptr<Real>() + row,
        rowOf<Real>(initial, s, width), gradOutput.const_data_ptr<Storage>() + row * width,
        gradX.mutable_data_ptr<Storage>() + row * width, gradP.mutable_data_ptr<Real>() + row,
        grad.mutable_data_ptr<Real>() + s * width, values.mutable_data_ptr<Real>(), tokens, width);
  });
  return {gradX, gradP, grad};
}

class EmaScanFunction : public torch::autograd::Function<EmaScanFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& p,
                               const std::optional<at::Tensor>& initial, const std::vector<int64_t>& start,
                               const std::vector<int64_t>& length, bool coversEveryRow) {
    const at::Tensor first = initial.value_or(at::Tensor());
    auto [output, final] = kernels::forward(x, p, first, {start, length, coversEveryRow});
    context->save_for_backward({x, p, first});
    context->saved_data["start"] = start;
    context->saved_data["length"] = length;
    context->saved_data["coversEveryRow"] = coversEveryRow;
    return {output, final};
  }

  static variable_list backward(AutogradContext* context, variable_list gradResults) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "emaScan: differentiable once; a backward pass that builds a graph of its own is not supported");
    const variable_list saved = context->get_saved_variables();
    const SequenceLayout layout{context->saved_data["start"].toIntVector(),
                                context->saved_data["length"].toIntVector(),
                                context->saved_data["coversEveryRow"].toBool()};
    const variable_list grad =
        kernels::backward(saved[0], saved[1], saved[2], layout, gradResults[0].contiguous(), gradResults[1]);
    return {grad[0], grad[1], saved[2].defined() ? grad[2] : at::Tensor(), {}, {}, {}};
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor> emaScan(const EmaScanInput& input) {
  checkEmaScanInput(input);
  if (!input.x.is_cpu()) return emaScanCuda(input);
  const SequenceLayout layout =
      sequenceLayout(input.x.size(0), input.x.size(1), input.lengths, input.cuSeqlens);
  const at::ScalarType real = accumulateType(input.x.scalar_type());
  const at::Tensor x = input.x.contiguous(), p = input.p.to(real).contiguous();
  const at::Tensor initial = input.initial.defined() ? input.initial.to(real).contiguous() : at::Tensor();
  const bool needsGradient = at::GradMode::is_enabled() && (x.requires_grad() || p.requires_grad() ||
                                                            (initial.defined() && initial.requires_grad()));
  if (!needsGradient) return forward(x, p, initial, layout);
  const variable_list results = EmaScanFunction::apply(x, p, std::optional<at::Tensor>(initial), layout.start,
                                                       layout.length, layout.coversEveryRow);
  return {results[0], results[1]};
}

}  // namespace aegir::kernels
