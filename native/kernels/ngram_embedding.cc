#include "native/kernels/ngram_embedding.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "native/core/error.h"
#include "native/cuda/table.h"
#include "native/kernels/ngram_hash.h"
#include "native/kernels/sequence_layout.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t longestNgram = cuda::maxNgramSizes;
// Rows of the table lie anywhere in memory: they are fetched this many n-grams ahead of their use.
constexpr int64_t ahead = 24;
// Tokens whose n-grams are hashed before their rows are read.
constexpr int64_t blockTokens = 256;

template <class T>
void prefetchRow(const T* row, int64_t width) {
  constexpr int64_t line = 64 / sizeof(T);
  for (int64_t i = 0; i < width; i += line) __builtin_prefetch(row + i);
}

struct Ngrams {
  at::Tensor ids, history;
  SequenceLayout layout;
  NgramForm form;
  int64_t buckets;

  // visit(token, row) over the n-grams of sequences begin..end, with rows (buckets,width) on their way to the
  // cache; `of` is the part of a row that is read, from its `first` value.
  template <class T, class Visit>
  void eachRow(int64_t begin, int64_t end, T* rows, int64_t width, int64_t first, int64_t of,
               const Visit& visit) const {
    std::vector<std::pair<int64_t, int64_t>> block;  // token, where its row begins
    block.reserve(static_cast<size_t>(blockTokens * form.count()));
    const auto flush = [&] {
      const auto count = static_cast<int64_t>(block.size());
      for (int64_t e = 0; e < std::min(ahead, count); ++e) prefetchRow(rows + block[e].second + first, of);
      for (int64_t e = 0; e < count; ++e) {
        if (e + ahead < count) prefetchRow(rows + block[e + ahead].second + first, of);
        visit(block[e].first, rows + block[e].second);
      }
      block.clear();
    };
    each(begin, end, [&](int64_t token, int64_t, int64_t bucket) {
      if (block.size() == block.capacity()) flush();
      block.emplace_back(token, bucket * width);
    });
    flush();
  }

  // visit(token, number of the n-gram, bucket) over the tokens of sequences begin..end.
  template <class Visit>
  void each(int64_t begin, int64_t end, const Visit& visit) const {
    const int64_t past = form.history();
    for (int64_t s = begin; s < end; ++s) {
      const int64_t start = layout.start[s];
      const Ids sequence{ids.const_data_ptr<int64_t>() + start,
                         history.defined() ? history.const_data_ptr<int64_t>() + s * past : nullptr, past};
      for (int64_t t = 0; t < layout.length[s]; ++t) {
        eachNgram(sequence, t, form, static_cast<uint64_t>(buckets),
                  [&](int64_t j, int64_t bucket) { visit(start + t, j, bucket); });
      }
    }
  }
};

}  // namespace

void checkNgramInput(const NgramInput& input) {
  const auto& sizes = input.form.sizes;
  check(!sizes.empty() && sizes.front() >= 1 && sizes.back() <= longestNgram &&
            std::is_sorted(sizes.begin(), sizes.end()) &&
            std::adjacent_find(sizes.begin(), sizes.end()) == sizes.end(),
        ErrorCode::Argument, "sizes: expected rising n-gram lengths from 1 to ", longestNgram, ", got ",
        at::IntArrayRef(sizes));
  check(input.table.dim() == 2 && input.table.numel() > 0, ErrorCode::Shape, "table: expected (V,W), got ",
        input.table.sizes());
  check(input.table.scalar_type() == at::kFloat || input.table.scalar_type() == at::kDouble, ErrorCode::Dtype,
        "table: expected f32 or f64, got ", input.table.scalar_type());
  check(input.ids.dim() == 1, ErrorCode::Shape, "ids: expected (K), got ", input.ids.sizes());
  check(input.ids.scalar_type() == at::kLong, ErrorCode::Dtype, "ids: expected i64, got ",
        input.ids.scalar_type());
  const int64_t sequences = sequenceCount(1, input.ids.size(0), {}, input.cuSeqlens);
  if (!input.history.defined()) return;
  const std::vector<int64_t> shape{sequences, input.form.history()};
  check(input.history.sizes() == at::IntArrayRef(shape), ErrorCode::Shape, "history: expected ",
        at::IntArrayRef(shape), ", got ", input.history.sizes());
  check(input.history.scalar_type() == at::kLong, ErrorCode::Dtype, "history: expected i64, got ",
        input.history.scalar_type());
}

namespace {

Ngrams ngramsOf(const NgramInput& input) {
  checkNgramInput(input);
  check(input.ids.numel() == 0 || input.ids.min().item<int64_t>() >= 0, ErrorCode::Argument,
        "ids: expected no negative id");
  return {input.ids.cpu().contiguous(),
          input.history.defined() ? input.history.cpu().contiguous() : at::Tensor(),
          sequenceLayout(1, input.ids.size(0), {}, input.cuSeqlens), input.form, input.table.size(0)};
}

at::Tensor forward(const at::Tensor& table, const Ngrams& ngrams) {
  const int64_t width = table.size(1);
  const at::Tensor output = at::zeros({ngrams.ids.size(0), width}, table.options());
  AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "ngramEmbedding", [&] {
    const scalar_t* rows = table.const_data_ptr<scalar_t>();
    scalar_t* out = output.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, ngrams.layout.size(), 1, [&](int64_t begin, int64_t end) {
      ngrams.eachRow(begin, end, rows, width, 0, width, [&](int64_t token, const scalar_t* row) {
        scalar_t* sum = out + token * width;
        for (int64_t i = 0; i < width; ++i) sum[i] += row[i];
      });
    });
  });
  return output;
}

// Each thread adds up some of the columns over all tokens, in their order.
at::Tensor backward(const at::Tensor& gradOutput, const Ngrams& ngrams) {
  const int64_t width = gradOutput.size(1);
  const at::Tensor grad = at::zeros({ngrams.buckets, width}, gradOutput.options());
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "ngramEmbeddingBackward", [&] {
    const scalar_t* given = gradOutput.const_data_ptr<scalar_t>();
    scalar_t* rows = grad.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, width, (width + 1) / 2, [&](int64_t first, int64_t last) {
      const auto add = [&](int64_t token, scalar_t* row) {
        for (int64_t i = first; i < last; ++i) row[i] += given[token * width + i];
      };
      ngrams.eachRow(0, ngrams.layout.size(), rows, width, first, last - first, add);
    });
  });
  return grad;
}

class NgramEmbeddingFunction : public torch::autograd::Function<NgramEmbeddingFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& ids,
                            const at::Tensor& cuSeqlens, const std::optional<at::Tensor>& history,
                            const NgramForm& form) {
    context->save_for_backward({ids, cuSeqlens, history.value_or(at::Tensor())});
    context->saved_data["sizes"] = form.sizes;
    context->saved_data["lowercase"] = form.lowercase;
    context->saved_data["shapes"] = form.shapes;
    context->saved_data["buckets"] = table.size(0);
    const auto ngrams = ngramsOf({table, ids, cuSeqlens, history.value_or(at::Tensor()), form});
    return kernels::forward(table.contiguous(), ngrams);
  }

  static variable_list backward(AutogradContext* context, variable_list gradResults) {
    check(!at::GradMode::is_enabled(), ErrorCode::Argument,
          "ngramEmbedding: differentiable once; a backward pass that builds a graph of its own is not "
          "supported");
    const variable_list saved = context->get_saved_variables();
    const Ngrams ngrams{saved[0].contiguous(),
                        saved[2].defined() ? saved[2].contiguous() : at::Tensor(),
                        sequenceLayout(1, saved[0].size(0), {}, saved[1]),
                        {context->saved_data["sizes"].toIntVector(),
                         context->saved_data["lowercase"].toBool(), context->saved_data["shapes"].toBool()},
                        context->saved_data["buckets"].toInt()};
    return {kernels::backward(gradResults[0].contiguous(), ngrams), {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor ngramEmbedding(const NgramInput& input) {
  if (!input.table.is_cpu()) return ngramEmbeddingCuda(input);
  if (at::GradMode::is_enabled() && input.table.requires_grad()) {
    return NgramEmbeddingFunction::apply(input.table, input.ids, input.cuSeqlens,
                                         std::optional<at::Tensor>(input.history), input.form);
  }
  return forward(input.table.contiguous(), ngramsOf(input));
}

at::Tensor ngramBuckets(const NgramInput& input) {
  if (!input.table.is_cpu()) return ngramBucketsCuda(input);
  const Ngrams ngrams = ngramsOf(input);
  const int64_t columns = input.form.count();
  const at::Tensor buckets = at::full({ngrams.ids.size(0), columns}, -1, ngrams.ids.options());
  int64_t* out = buckets.mutable_data_ptr<int64_t>();
  ngrams.each(0, ngrams.layout.size(),
              [&](int64_t token, int64_t j, int64_t bucket) { out[token * columns + j] = bucket; });
  return buckets;
}

at::Tensor ngramEmbeddingReference(const NgramInput& input) {
  const at::Tensor buckets = ngramBuckets(input).to(input.table.device());  // (K,N)
  const at::Tensor rows = input.table.index_select(0, buckets.clamp_min(0).flatten())
                              .view({buckets.size(0), buckets.size(1), input.table.size(1)});
  return at::where(buckets.ge(0).unsqueeze(-1), rows, at::Scalar(0)).sum(1);
}

at::Tensor ngramHistory(const NgramInput& input) {
  if (!input.table.is_cpu()) return ngramHistoryCuda(input);
  const Ngrams ngrams = ngramsOf(input);
  const int64_t past = input.form.history(), sequences = ngrams.layout.size();
  const at::Tensor next = at::empty({sequences, past}, ngrams.ids.options());
  int64_t* out = next.mutable_data_ptr<int64_t>();
  for (int64_t s = 0; s < sequences; ++s) {
    const Ids sequence{
        ngrams.ids.const_data_ptr<int64_t>() + ngrams.layout.start[s],
        ngrams.history.defined() ? ngrams.history.const_data_ptr<int64_t>() + s * past : nullptr, past};
    for (int64_t i = 0; i < past; ++i)
      out[s * past + i] = sequence.before(ngrams.layout.length[s] - 1, past - 1 - i);
  }
  return next.to(input.ids.device());
}

}  // namespace aegir::kernels
