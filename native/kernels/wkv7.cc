#include "native/kernels/wkv7.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

#include "native/core/dtype.h"
#include "native/core/error.h"
#include "native/kernels/sequence_layout.h"
#include "native/kernels/simd_level.h"
#include "native/kernels/wkv7_kernel.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const Wkv7Kernels& chosenKernels() { return chosenTables(wkv7Sse2, wkv7Avx2, wkv7Avx512); }

// bf16 tensors are handed over as bit patterns.
template <class Storage>
const Storage* pointer(const at::Tensor& tensor) {
  return static_cast<const Storage*>(tensor.const_data_ptr());
}
template <class Storage>
Storage* mutablePointer(const at::Tensor& tensor) {
  return static_cast<Storage*>(tensor.mutable_data_ptr());
}

// What the backward pass needs besides the inputs.
struct Kept {
  at::Tensor stateTimesA;  // (B,T,H,N)
  at::Tensor
      checkpoints;  // (chunks of all sequences, H, N, N); a sequence's chunks lie together, head by head
};

// The first chunk of each sequence among all chunks, and their total.
std::vector<int64_t> chunkOffsets(const SequenceLayout& layout) {
  std::vector<int64_t> offsets{0};
  for (int64_t length : layout.length) offsets.push_back(offsets.back() + wkv7Checkpoints(length));
  return offsets;
}

// Runs work(sequence, head, scratch) for every head of every sequence.
template <class Real, class Work>
void forEachHead(const SequenceLayout& layout, int64_t heads, int64_t scratchSize, const Work& work) {
  at::parallel_for(0, layout.size() * heads, 1, [&](int64_t begin, int64_t end) {
    const at::Tensor scratch = at::empty({scratchSize}, c10::CppTypeToScalarType<Real>::value);
    for (int64_t task = begin; task < end; ++task) {
      work(task / heads, task % heads, scratch.mutable_data_ptr<Real>());
    }
  });
}

struct Geometry {
  int64_t heads, headSize;
  explicit Geometry(const at::Tensor& r) : heads(r.size(2)), headSize(r.size(3)) {}
  int64_t stride() const { return heads * headSize; }
  int64_t state() const { return headSize * headSize; }
};

template <class Storage, class Real>
void runForward(void (*kernel)(const Wkv7Forward<Storage, Real>&), const Wkv7Input& input,
                const SequenceLayout& layout, const at::Tensor& output, const at::Tensor& finalState,
                const Kept* kept) {
  const Geometry size(input.r);
  const std::vector<int64_t> chunks = chunkOffsets(layout);
  forEachHead<Real>(
      layout, size.heads, wkv7ForwardScratch(size.headSize), [&](int64_t s, int64_t h, Real* scratch) {
        const int64_t at = layout.start[s] * size.stride() + h * size.headSize;
        const int64_t state = (s * size.heads + h) * size.state(), tokens = layout.length[s];
        const int64_t checkpoint = (chunks[s] * size.heads + h * wkv7Checkpoints(tokens)) * size.state();
        kernel({tokens, size.stride(), size.headSize, pointer<Storage>(input.r) + at,
                pointer<Storage>(input.decay) + at, pointer<Storage>(input.k) + at,
                pointer<Storage>(input.v) + at, pointer<Storage>(input.a) + at,
                pointer<Storage>(input.b) + at,
                input.initialState.defined() ? pointer<Real>(input.initialState) + state : nullptr,
                mutablePointer<Storage>(output) + at, mutablePointer<Real>(finalState) + state,
                kept ? mutablePointer<Real>(kept->stateTimesA) + at : nullptr,
                kept ? mutablePointer<Real>(kept->checkpoints) + checkpoint : nullptr, scratch});
      });
}

struct Gradients {
  at::Tensor r, decay, k, v, a, b, initialState;
};

template <class Storage, class Real>
void runBackward(void (*kernel)(const Wkv7Backward<Storage, Real>&), const Wkv7Input& input,
                 const SequenceLayout& layout, const Kept& kept, const at::Tensor& gradOutput,
                 const at::Tensor& gradFinalState, const Gradients& grad) {
  const Geometry size(input.r);
  const std::vector<int64_t> chunks = chunkOffsets(layout);
  forEachHead<Real>(
      layout, size.heads, wkv7BackwardScratch(size.headSize), [&](int64_t s, int64_t h, Real* scratch) {
        const int64_t at = layout.start[s] * size.stride() + h * size.headSize;
        const int64_t state = (s * size.heads + h) * size.state(), tokens = layout.length[s];
        const int64_t checkpoint = (chunks[s] * size.heads + h * wkv7Checkpoints(tokens)) * size.state();
        const auto in = [at](const at::Tensor& x) { return pointer<Storage>(x) + at; };
        const auto out = [at](const at::Tensor& x) { return mutablePointer<Storage>(x) + at; };
        kernel({tokens,
                size.stride(),
                size.headSize,
                in(input.r),
                in(input.decay),
                in(input.k),
                in(input.v),
                in(input.a),
                in(input.b),
                in(gradOutput),
                pointer<Real>(kept.stateTimesA) + at,
                pointer<Real>(kept.checkpoints) + checkpoint,
                pointer<Real>(gradFinalState) + state,
                out(grad.r),
                out(grad.decay),
                out(grad.k),
                out(grad.v),
                out(grad.a),
                out(grad.b),
                mutablePointer<Real>(grad.initialState) + state,
                scratch});
      });
}

Wkv7Input contiguous(const Wkv7Input& input) {
  return {input.r.contiguous(),
          input.decay.contiguous(),
          input.k.contiguous(),
          input.v.contiguous(),
          input.a.contiguous(),
          input.b.contiguous(),
          input.initialState.defined() ? input.initialState.contiguous() : input.initialState,
          input.lengths,
          input.cuSeqlens};
}

// Padded positions are never written by the kernels.
at::Tensor outputLike(const at::Tensor& x, const SequenceLayout& layout) {
  return layout.coversEveryRow ? at::empty_like(x, at::MemoryFormat::Contiguous)
                               : at::zeros_like(x, at::MemoryFormat::Contiguous);
}

std::tuple<at::Tensor, at::Tensor> forward(const Wkv7Input& input, const SequenceLayout& layout, Kept* kept) {
  const Geometry size(input.r);
  const at::TensorOptions real = input.r.options().dtype(accumulateType(input.r.scalar_type()));
  const at::Tensor output = outputLike(input.r, layout);
  const at::Tensor finalState = at::empty({layout.size(), size.heads, size.headSize, size.headSize}, real);
  if (kept != nullptr) {
    kept->stateTimesA = at::empty(input.r.sizes(), real);
    kept->checkpoints =
        at::empty({chunkOffsets(layout).back(), size.heads, size.headSize, size.headSize}, real);
  }
  const Wkv7Kernels& kernels = chosenKernels();
  switch (input.r.scalar_type()) {
    case at::kDouble: runForward(kernels.forwardF64, input, layout, output, finalState, kept); break;
    case at::kBFloat16: runForward(kernels.forwardBf16, input, layout, output, finalState, kept); break;
    default: runForward(kernels.forwardF32, input, layout, output, finalState, kept);
  }
  return {output, finalState};
}

Gradients backward(const Wkv7Input& input, const SequenceLayout& layout, const Kept& kept,
                   const at::Tensor& gradOutput, const at::Tensor& gradFinalState) {
  const Gradients grad{outputLike(input.r, layout),   outputLike(input.r, layout),
                       outputLike(input.r, layout),   outputLike(input.r, layout),
                       outputLike(input.r, layout),   outputLike(input.r, layout),
                       at::empty_like(gradFinalState)};
  const Wkv7Kernels& kernels = chosenKernels();
  switch (input.r.scalar_type()) {
    case at::kDouble:
      runBackward(kernels.backwardF64, input, layout, kept, gradOutput, gradFinalState, grad);
      break;
    case at::kBFloat16:
      runBackward(kernels.backwardBf16, input, layout, kept, gradOutput, gradFinalState, grad);
      break;
    default: runBackward(kernels.backwardF32, input, layout, kept, gradOutput, gradFinalState, grad);
  }
  return grad;
}

class Wkv7Function : public torch::autograd::Function<Wkv7Function> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& r, const at::Tensor& decay,
                               const at::Tensor& k, const at::Tensor& v, const at::Tensor& a,
                               const at::Tensor& b, const std::optional<at::Tensor>& initial,
                               const std::vector<int64_t>& start, const std::vector<int64_t>& length,
                               bool coversEveryRow) {
    const SequenceLayout layout{start, length, coversEveryRow};
    const at::Tensor initialState = initial.value_or(at::Tensor());
    Kept kept;
    auto [output, finalState] = kernels::forward({r, decay, k, v, a, b, initialState, {}, {}}, layout, &kept);
    context->save_for_backward({r, decay, k, v, a, b, kept.stateTimesA, kept.checkpoints});
    context->saved_data["start"] = start;
    context->saved_data["length"] = length;
    context->saved_data["coversEveryRow"] = coversEveryRow;
    context->saved_data["initialState"] = initialState.defined();
    return {output, finalState};
  }

  static variable_list backward(AutogradContext* context, variable_list gradResults) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "wkv7: differentiable once; a backward pass that builds a graph of its own is not supported");
    const variable_list saved = context->get_saved_variables();
    const SequenceLayout layout{context->saved_data["start"].toIntVector(),
                                context->saved_data["length"].toIntVector(),
                                context->saved_data["coversEveryRow"].toBool()};
    const Wkv7Input input{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], {}, {}, {}};
    const Gradients grad = kernels::backward(input, layout, {saved[6], saved[7]}, gradResults[0].contiguous(),
                                             gradResults[1].contiguous());
    const at::Tensor gradInitial =
        context->saved_data["initialState"].toBool() ? grad.initialState : at::Tensor();
    return {grad.r, grad.decay, grad.k, grad.v, grad.a, grad.b, gradInitial, {}, {}, {}};
  }
};

bool needsGradient(const Wkv7Input& input) {
  if (!at::GradMode::is_enabled()) return false;
  for (const at::Tensor* x :
       {&input.r, &input.decay, &input.k, &input.v, &input.a, &input.b, &input.initialState}) {
    if (x->defined() && x->requires_grad()) return true;
  }
  return false;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> wkv7(const Wkv7Input& input) {
  checkWkv7Input(input);
  if (!input.r.is_cpu()) return wkv7Cuda(input);
  const SequenceLayout layout =
      sequenceLayout(input.r.size(0), input.r.size(1), input.lengths, input.cuSeqlens);
  const Wkv7Input ready = contiguous(input);
  if (!needsGradient(input)) return forward(ready, layout, nullptr);
  const variable_list results = Wkv7Function::apply(ready.r, ready.decay, ready.k, ready.v, ready.a, ready.b,
                                                    std::optional<at::Tensor>(ready.initialState),
                                                    layout.start, layout.length, layout.coversEveryRow);
  return {results[0], results[1]};
}

}  // namespace aegir::kernels
