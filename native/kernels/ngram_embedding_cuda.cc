// n-gram embeddings through the CUDA plug-in.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>

#include "native/core/error.h"
#include "native/core/transfer.h"
#include "native/cuda/loader.h"
#include "native/kernels/ngram_embedding.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The ids where the table lies.
struct CudaIds {
  at::Tensor ids, cuSeqlens, history;
  int64_t past;

  cuda::NgramIds pointers() const {
    return {ids.size(0),
            cuSeqlens.size(0) - 1,
            past,
            ids.const_data_ptr<int64_t>(),
            cuSeqlens.const_data_ptr<int64_t>(),
            history.defined() ? history.const_data_ptr<int64_t>() : nullptr};
  }
};

CudaIds idsOf(const NgramInput& input) {
  cuda::table();  // the reason why there is none comes before anything else
  checkNgramInput(input);
  const auto there = [&](const at::Tensor& x) {
    return x.defined() ? queuedTo(x, input.table.device()).contiguous() : x;
  };
  return {there(input.ids), there(input.cuSeqlens), there(input.history), input.form.history()};
}

at::Tensor sumOf(const at::Tensor& table, const at::Tensor& buckets) {
  const at::Tensor output = at::empty({buckets.size(0), table.size(1)}, table.options());
  cuda::launch(&cuda::Table::ngramSum, table,
               {buckets.size(0), buckets.size(1), table.size(1), table.scalar_type() == at::kDouble,
                buckets.const_data_ptr<int64_t>(), table.const_data_ptr(), output.mutable_data_ptr()});
  return output;
}

class CudaNgramFunction : public torch::autograd::Function<CudaNgramFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& buckets) {
    context->save_for_backward({buckets});
    context->saved_data["rows"] = table.size(0);
    return sumOf(table, buckets);
  }

  // A stable sort keeps the n-grams of a row in their order, so that sums do not depend on timing.
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "ngramEmbedding: differentiable once; a backward pass that builds a graph of its own is not "
          "supported");
    const at::Tensor buckets = context->get_saved_variables()[0], grad = grads[0].contiguous();
    const auto [sorted, order] =
        at::sort(buckets.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const at::Tensor gradTable =
        at::zeros({context->saved_data["rows"].toInt(), grad.size(1)}, grad.options());
    cuda::launch(&cuda::Table::ngramSumBackward, grad,
                 {sorted.numel(), buckets.size(1), grad.size(1), grad.scalar_type() == at::kDouble,
                  sorted.const_data_ptr<int64_t>(), order.const_data_ptr<int64_t>(), grad.const_data_ptr(),
                  gradTable.mutable_data_ptr()});
    return {gradTable, {}};
  }
};

}  // namespace

at::Tensor ngramBucketsCuda(const NgramInput& input) {
  const CudaIds ids = idsOf(input);
  const auto& [sizes, lowercase, shapes] = input.form;
  const at::Tensor result = at::empty({ids.ids.size(0), input.form.count()}, ids.ids.options());
  cuda::NgramBuckets task{ids.pointers(),
                          input.table.size(0),
                          lowercase ? 1 : 0,
                          shapes ? 2 : 1,
                          static_cast<int64_t>(sizes.size()),
                          {},
                          result.mutable_data_ptr<int64_t>()};
  std::copy(sizes.begin(), sizes.end(), task.sizes);
  cuda::launch(&cuda::Table::ngramBuckets, input.table, task);
  return result;
}

at::Tensor ngramHistoryCuda(const NgramInput& input) {
  const CudaIds ids = idsOf(input);
  const at::Tensor result = at::empty({ids.cuSeqlens.size(0) - 1, ids.past}, ids.ids.options());
  cuda::launch(&cuda::Table::ngramHistory, input.table, {ids.pointers(), result.mutable_data_ptr<int64_t>()});
  return result;
}

at::Tensor ngramEmbeddingCuda(const NgramInput& input) {
  const at::Tensor buckets = ngramBucketsCuda(input), table = input.table.contiguous();
  if (at::GradMode::is_enabled() && table.requires_grad()) return CudaNgramFunction::apply(table, buckets);
  return sumOf(table, buckets);
}

}  // namespace aegir::kernels
