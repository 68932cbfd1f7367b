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
#include <vector>

#include "native/core/error.h"
#include "native/cuda/table.h"
#include "native/kernels/ngram_hash.h"
#include "native/kernels/ngram_rows_kernel.h"
#include "native/kernels/sequence_layout.h"
#include "native/kernels/simd_level.h"

namespace aegir::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t longestNgram = cuda::maxNgramSizes;
// Tokens whose n-grams are hashed before their rows are read.
constexpr int64_t blockTokens = 256;

const NgramRowsTable& rowsTable() { return chosenTables(ngramRowsSse2, ngramRowsAvx2, ngramRowsAvx512); }

struct Ngrams {
  at::Tensor ids, history;
  SequenceLayout layout;
  NgramForm form;
  int64_t buckets;

  // visit(first token, rows of the tokens from there on) for the tokens of sequences begin..end, a block at a
  // time; rows of a table of that width.
  template <class Visit>
  void eachBlock(int64_t begin, int64_t end, int64_t width, const Visit& visit) const {
    std::vector<int64_t> starts(static_cast<size_t>(blockTokens * form.count())), ends(blockTokens);
    int64_t token = begin < end ? layout.start[begin] : 0, tokens = 0;
    int64_t* next = starts.data();
    const auto flush = [&] {
      visit(token, NgramRows{tokens, width, starts.data(), ends.data()});
      token += tokens;
      tokens = 0;
      next = starts.data();
    };
    for (int64_t s = begin; s < end; ++s) {
      for (int64_t t = 0; t < layout.length[s];) {
        const int64_t run = std::min(layout.length[s] - t, blockTokens - tokens);
        int64_t named = t >= form.history() ? nameWhole(s, t, run, width, next) : 0;
        for (int64_t i = 0; i < named; ++i)
          ends[static_cast<size_t>(tokens++)] = (next += form.count()) - starts.data();
        if (named == 0) {
          eachOf(s, t, [&](int64_t, int64_t bucket) { *next++ = bucket * width; });
          ends[static_cast<size_t>(tokens++)] = next - starts.data();
          named = 1;
        }
        t += named;
        if (tokens == blockTokens) flush();
      }
    }
    flush();
  }

  // Where the rows begin of all n-grams of up to `tokens` tokens from t on, which read nothing from before
  // the sequence; returns of how many.
  int64_t nameWhole(int64_t s, int64_t t, int64_t tokens, int64_t width, int64_t* starts) const {
    const auto sizes = static_cast<int64_t>(form.sizes.size());
    NgramRun run{ids.const_data_ptr<int64_t>() + layout.start[s] + t,
                 tokens,
                 form.sizes.data(),
                 sizes,
                 form.lowercase ? Letters::Lowercase : Letters::AsTheyAre,
                 0,
                 static_cast<uint64_t>(buckets),
                 width,
                 starts,
                 form.count()};
    const int64_t named = rowsTable().name(run);
    if (!form.shapes) return named;
    run.letters = Letters::Shapes;
    run.salt = shapeSalt;
    run.starts += sizes;
    return rowsTable().name(run);
  }

  // visit(number of the n-gram, bucket) of the token t of sequence s.
  template <class Visit>
  void eachOf(int64_t s, int64_t t, const Visit& visit) const {
    const int64_t past = form.history();
    const Ids sequence{ids.const_data_ptr<int64_t>() + layout.start[s],
                       history.defined() ? history.const_data_ptr<int64_t>() + s * past : nullptr, past};
    eachNgram(sequence, t, form, static_cast<uint64_t>(buckets), visit);
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
  check(!input.history.defined() || input.history.numel() == 0 || input.history.min().item<int64_t>() >= -1,
        ErrorCode::Argument, "history: expected ids, and -1 where there is none");
  return {input.ids.cpu().contiguous(),
          input.history.defined() ? input.history.cpu().contiguous() : at::Tensor(),
          sequenceLayout(1, input.ids.size(0), {}, input.cuSeqlens), input.form, input.table.size(0)};
}

at::Tensor forward(const at::Tensor& table, const Ngrams& ngrams) {
  const int64_t width = table.size(1);
  const at::Tensor output = at::empty({ngrams.ids.size(0), width}, table.options());
  AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "ngramEmbedding", [&] {
    const scalar_t* rows = table.const_data_ptr<scalar_t>();
    scalar_t* sums = output.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, ngrams.layout.size(), 1, [&](int64_t begin, int64_t end) {
      ngrams.eachBlock(begin, end, width, [&](int64_t token, const NgramRows& block) {
        kernelsFor<scalar_t>(rowsTable()).sum(block, rows, sums + token * width);
      });
    });
  });
  return output;
}

// Each thread adds up some of the columns over all tokens, in their order.
at::Tensor backward(const at::Tensor& gradOutput, const Ngrams& ngrams) {
  constexpr int64_t columns = 16;  // of a thread, at least: whole vectors
  const int64_t width = gradOutput.size(1);
  const at::Tensor grad = at::zeros({ngrams.buckets, width}, gradOutput.options());
  AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "ngramEmbeddingBackward", [&] {
    const scalar_t* given = gradOutput.const_data_ptr<scalar_t>();
    scalar_t* rows = grad.mutable_data_ptr<scalar_t>();
    const int64_t half = ((width + 1) / 2 + columns - 1) / columns * columns;
    at::parallel_for(0, width, half, [&](int64_t first, int64_t last) {
      ngrams.eachBlock(0, ngrams.layout.size(), width, [&](int64_t token, const NgramRows& block) {
        kernelsFor<scalar_t>(rowsTable()).add(block, given + token * width, first, last, rows);
      });
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
  for (int64_t s = 0; s < ngrams.layout.size(); ++s) {
    for (int64_t t = 0; t < ngrams.layout.length[s]; ++t, out += columns)
      ngrams.eachOf(s, t, [&](int64_t j, int64_t bucket) { out[j] = bucket; });
  }
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
