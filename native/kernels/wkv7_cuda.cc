// WKV-7 through the CUDA plug-in: allocates, launches, and keeps what the backward pass needs.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "native/core/error.h"
#include "native/cuda/loader.h"
#include "native/kernels/device_sequences.h"
#include "native/kernels/wkv7.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CudaWkv7 {
  cuda::Wkv7Form form;
  at::Tensor r, decay, k, v, a, b;
  at::Tensor initialState;  // or undefined
  DeviceSequences sequences;

  int64_t heads() const { return r.size(2); }
  int64_t headSize() const { return r.size(3); }
  int64_t rows() const { return r.size(0) * r.size(1); }
  at::Tensor emptyF32(at::IntArrayRef sizes) const { return at::empty(sizes, r.options().dtype(at::kFloat)); }
};

// In chunks S a comes again from the checkpoints.
struct CudaWkv7Kept {
  at::Tensor stateTimesA, checkpoints;
};

const float* floatsOf(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
float* mutableFloatsOf(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

std::tuple<at::Tensor, at::Tensor> cudaForward(const CudaWkv7& in, CudaWkv7Kept& kept, bool keep) {
  const int64_t n = in.headSize(), count = in.sequences.count();
  const at::Tensor output = in.sequences.outputLike(in.r);
  const at::Tensor finalState = in.emptyF32({count, in.heads(), n, n});
  if (keep) {
    if (in.form == cuda::Wkv7Form::Recurrent) kept.stateTimesA = in.emptyF32(in.r.sizes());
    kept.checkpoints = in.emptyF32({cuda::wkv7Checkpoints(in.rows(), count), in.heads(), n, n});
  }
  const cuda::Wkv7Forward arguments{in.form,
                                    in.sequences.layout(),
                                    in.heads(),
                                    n,
                                    cudaStorage(in.r.scalar_type()),
                                    in.r.const_data_ptr(),
                                    in.decay.const_data_ptr(),
                                    in.k.const_data_ptr(),
                                    in.v.const_data_ptr(),
                                    in.a.const_data_ptr(),
                                    in.b.const_data_ptr(),
                                    floatsOf(in.initialState),
                                    output.mutable_data_ptr(),
                                    mutableFloatsOf(finalState),
                                    mutableFloatsOf(kept.stateTimesA),
                                    mutableFloatsOf(kept.checkpoints)};
  cuda::launch(&cuda::Table::wkv7Forward, in.r, arguments);
  return {output, finalState};
}

// Gradients of r, decay, k, v, a, b and the initial state.
variable_list cudaBackward(const CudaWkv7& in, const CudaWkv7Kept& kept, const at::Tensor& gradOutput,
                           const at::Tensor& gradFinalState) {
  const auto make = [&] { return in.sequences.outputLike(in.r); };
  const at::Tensor r = make(), decay = make(), k = make(), v = make(), a = make(), b = make();
  const at::Tensor state = gradFinalState.clone(at::MemoryFormat::Contiguous);
  at::Tensor gradTimesB;
  if (in.form == cuda::Wkv7Form::Recurrent) gradTimesB = in.emptyF32(in.r.sizes());
  const cuda::Wkv7Backward arguments{in.form,
                                     in.sequences.layout(),
                                     in.heads(),
                                     in.headSize(),
                                     cudaStorage(in.r.scalar_type()),
                                     in.r.const_data_ptr(),
                                     in.decay.const_data_ptr(),
                                     in.k.const_data_ptr(),
                                     in.v.const_data_ptr(),
                                     in.a.const_data_ptr(),
                                     in.b.const_data_ptr(),
                                     gradOutput.const_data_ptr(),
                                     floatsOf(kept.stateTimesA),
                                     floatsOf(kept.checkpoints),
                                     r.mutable_data_ptr(),
                                     decay.mutable_data_ptr(),
                                     k.mutable_data_ptr(),
                                     v.mutable_data_ptr(),
                                     a.mutable_data_ptr(),
                                     b.mutable_data_ptr(),
                                     mutableFloatsOf(state),
                                     mutableFloatsOf(gradTimesB)};
  cuda::launch(&cuda::Table::wkv7Backward, in.r, arguments);
  return {r, decay, k, v, a, b, state};
}

// Contiguous from a multiple of 8 bytes on, as kernels that read two values at a time need it.
at::Tensor ready(const at::Tensor& x) {
  if (!x.defined()) return x;
  const at::Tensor result = x.contiguous();
  const bool aligned = reinterpret_cast<uintptr_t>(result.const_data_ptr()) % 8 == 0;
  return aligned ? result : result.clone();
}

class CudaWkv7Function : public torch::autograd::Function<CudaWkv7Function> {
 public:
  static variable_list forward(AutogradContext* context, cuda::Wkv7Form form, const at::Tensor& r,
                               const at::Tensor& decay, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& a, const at::Tensor& b,
                               const std::optional<at::Tensor>& initialState,
                               const std::optional<at::Tensor>& lengths,
                               const std::optional<at::Tensor>& cuSeqlens) {
    const at::Tensor none;
    const CudaWkv7 in{form,
                      r,
                      decay,
                      k,
                      v,
                      a,
                      b,
                      initialState.value_or(none),
                      {r.size(0), r.size(1), lengths.value_or(none), cuSeqlens.value_or(none)}};
    CudaWkv7Kept kept;
    auto [output, finalState] = cudaForward(in, kept, /*keep=*/true);
    context->save_for_backward({r, decay, k, v, a, b, kept.stateTimesA, kept.checkpoints,
                                in.sequences.lengths, in.sequences.cuSeqlens});
    context->saved_data["form"] = static_cast<int64_t>(form);
    context->saved_data["initialState"] = in.initialState.defined();
    return {output, finalState};
  }

  static variable_list backward(AutogradContext* context, variable_list gradResults) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "wkv7: differentiable once; a backward pass that builds a graph of its own is not supported");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& r = saved[0];
    const auto form = static_cast<cuda::Wkv7Form>(context->saved_data["form"].toInt());
    const CudaWkv7 in{form,
                      r,
                      saved[1],
                      saved[2],
                      saved[3],
                      saved[4],
                      saved[5],
                      at::Tensor(),
                      {r.size(0), r.size(1), saved[8], saved[9]}};
    variable_list grad = cudaBackward(in, {saved[6], saved[7]}, ready(gradResults[0]), gradResults[1]);
    if (!context->saved_data["initialState"].toBool()) grad[6] = at::Tensor();
    grad.resize(9);
    grad.insert(grad.begin(), at::Tensor());  // the form's
    return grad;
  }
};

bool cudaServes(const at::Tensor& r) {
  const int64_t n = r.size(3);
  return cudaStores(r.scalar_type()) && (n == 32 || n == 64 || n == 128);
}

// What AEGIR_WKV7_CUDA asks for.
Wkv7CudaForm wishedForm() {
  const char* wish = std::getenv("AEGIR_WKV7_CUDA");
  const std::string form = wish == nullptr ? "" : wish;
  check(form.empty() || form == "recurrent" || form == "chunked", ErrorCode::Argument,
        "AEGIR_WKV7_CUDA: expected recurrent or chunked, got ", form);
  return form == "chunked" ? Wkv7CudaForm::Chunked : Wkv7CudaForm::Recurrent;
}

cuda::Wkv7Form chosenForm(const Wkv7Input& input) {
  Wkv7CudaForm form = input.cudaForm;
  if (form == Wkv7CudaForm::Automatic) {
    static const Wkv7CudaForm wished = wishedForm();  // a wrong wish throws each time
    form = input.r.size(1) < cuda::wkv7Chunk ? Wkv7CudaForm::Recurrent : wished;
  }
  const bool chunked = form == Wkv7CudaForm::Chunked &&
                       cuda::wkv7HasChunked(cudaStorage(input.r.scalar_type()), input.r.size(3));
  return chunked ? cuda::Wkv7Form::Chunked : cuda::Wkv7Form::Recurrent;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> wkv7Cuda(const Wkv7Input& input) {
  cuda::table();  // the reason why there is none comes before anything else
  if (!cudaServes(input.r)) return wkv7Reference(input);
  const CudaWkv7 in{
      chosenForm(input),
      ready(input.r),
      ready(input.decay),
      ready(input.k),
      ready(input.v),
      ready(input.a),
      ready(input.b),
      ready(input.initialState),
      deviceSequences(input.r.size(0), input.r.size(1), input.lengths, input.cuSeqlens, input.r.device())};
  bool graph = false;
  for (const at::Tensor* x : {&in.r, &in.decay, &in.k, &in.v, &in.a, &in.b, &in.initialState}) {
    graph = graph || (x->defined() && x->requires_grad());
  }
  if (!graph || !at::GradMode::is_enabled()) {
    CudaWkv7Kept nothing;
    return cudaForward(in, nothing, /*keep=*/false);
  }
  using Optional = std::optional<at::Tensor>;
  const variable_list results =
      CudaWkv7Function::apply(in.form, in.r, in.decay, in.k, in.v, in.a, in.b, Optional(in.initialState),
                              Optional(in.sequences.lengths), Optional(in.sequences.cuSeqlens));
  return {results[0], results[1]};
}

}  // namespace aegir::kernels
