#include "native/kernels/grouped.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>

#include "native/kernels/matmul.h"
#include "native/kernels/matmul_dispatch.h"

namespace aegir::kernels {
namespace {

// work(group, first row, row after the last) for the parts of rows [begin, end) that belong to one group
// each.
template <class Work>
void forEachGroup(const Groups& groups, int64_t begin, int64_t end, const Work& work) {
  for (int64_t g = 0; g < groups.count(); ++g) {
    const int64_t from = std::max(begin, groups.firstRow[g]), to = std::min(end, groups.firstRow[g + 1]);
    if (from < to) work(g, from, to);
  }
}

// The same over all rows, split over threads.
template <class Work>
void forEachGroupInBlocks(const at::Tensor& x, const Groups& groups, const Work& work) {
  forEachBlock(x.size(0), blockCount(x.numel(), elementsPerThread),
               [&](int64_t, int64_t begin, int64_t end) { forEachGroup(groups, begin, end, work); });
}

// Joins what `work(group, rows of the group)` gives for each group that has rows.
template <class Work>
at::Tensor groupByGroup(const Groups& groups, const Work& work) {
  std::vector<at::Tensor> parts;
  forEachGroup(groups, 0, groups.rows(), [&](int64_t g, int64_t from, int64_t to) {
    parts.push_back(work(g, [from, to](const at::Tensor& x) { return x.narrow(0, from, to - from); }));
  });
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

// The group's sequences, as if its rows were all.
at::Tensor cuSeqlensOf(const Groups& groups, int64_t g) {
  const int64_t first = groups.firstSequence[g], count = groups.firstSequence[g + 1] - first;
  return groups.cuSeqlens.narrow(0, first, count + 1) - groups.firstRow[g];
}

bool equalRows(const Groups& groups) {
  for (int64_t g = 1; g < groups.count(); ++g) {
    if (groups.rowsOf(g) != groups.rowsOf(0)) return false;
  }
  return true;
}

at::Tensor packPanels(const std::vector<at::Tensor>& weights, bool transposed) {
  const auto& first = weights[0];
  const int64_t depth = first.size(transposed ? 1 : 0), columns = first.size(transposed ? 0 : 1);
  at::Tensor stack;
  withReal(first, [&](auto real) {
    using Real = decltype(real);
    const auto& kernels = matmulKernelsOf<Real>();
    const int64_t elements = panelElements(kernels, depth, columns);
    stack = at::empty({static_cast<int64_t>(weights.size()), elements}, first.options().requires_grad(false));
    for (size_t g = 0; g < weights.size(); ++g) {
      const auto& w = weights[g];
      kernels.packPanels({depth, columns, w.stride(transposed ? 1 : 0), w.stride(transposed ? 0 : 1),
                          pointerAt<Real>(w), mutableAt<Real>(stack, static_cast<int64_t>(g) * elements)});
    }
  });
  return stack;
}

}  // namespace

StackedWeight::StackedWeight(const std::vector<at::Tensor>& weights, bool transposed)
    : transposed_(transposed) {
  const auto& first = weights.at(0);
  depth_ = first.size(transposed ? 1 : 0);
  columns_ = first.size(transposed ? 0 : 1);
  for (const auto& w : weights) {
    check(w.sizes() == first.sizes(), ErrorCode::Shape, "grouped product: weights of ", first.sizes(),
          " and of ", w.sizes());
  }
  panels_ = kernelsServe({first}, 0);
  if (panels_) weights_ = weights;
  stack_ = panels_ ? packPanels(weights, transposed) : at::stack(weights);
  if (!panels_ && transposed) stack_ = stack_.transpose(1, 2).contiguous();
}

at::Tensor StackedWeight::multiply(const at::Tensor& x, const Groups& groups, const at::Tensor& bias,
                                   const at::Tensor& addend) const {
  const int64_t rows = x.size(0);
  if (!panels_) {
    if (equalRows(groups)) {
      const auto perGroup = [&](const at::Tensor& t) { return t.view({groups.count(), -1, t.size(-1)}); };
      const auto result = bias.defined()     ? at::baddbmm(bias.unsqueeze(1), perGroup(x), stack_)
                          : addend.defined() ? at::baddbmm(perGroup(addend), perGroup(x), stack_)
                                             : at::bmm(perGroup(x), stack_);
      return result.view({rows, columns_});
    }
    return groupByGroup(groups, [&](int64_t g, const auto& rowsOf) {
      if (bias.defined()) return at::addmm(bias[g], rowsOf(x), stack_[g]);
      return addend.defined() ? at::addmm(rowsOf(addend), rowsOf(x), stack_[g])
                              : at::mm(rowsOf(x), stack_[g]);
    });
  }
  const at::Tensor input = x.contiguous(), y = at::empty({rows, columns_}, x.options());
  const at::Tensor& added = addend.defined() ? addend : bias;
  check(!added.defined() || added.is_contiguous(), ErrorCode::Argument, "grouped product: strided addend");
  withReal(x, [&](auto real) {
    using Real = decltype(real);
    const auto& kernels = matmulKernelsOf<Real>();
    forEachBlock(rows, blocksFor(rows, depth_, columns_, kernels.tileRows),
                 [&](int64_t, int64_t begin, int64_t end) {
                   forEachGroup(groups, begin, end, [&](int64_t g, int64_t from, int64_t to) {
                     const int64_t addedAt = (addend.defined() ? from : g) * columns_;
                     kernels.product({to - from, depth_, columns_, depth_, addend.defined() ? columns_ : 0,
                                      columns_, pointerAt<Real>(input, from * depth_),
                                      pointerAt<Real>(stack_, g * stack_.size(1)),
                                      pointerAt<Real>(added, addedAt), mutableAt<Real>(y, from * columns_)});
                   });
                 });
  });
  return y;
}

std::vector<at::Tensor> groupedTokenShiftMix(const at::Tensor& x, const at::Tensor& mu,
                                             const Groups& groups) {
  const int64_t mixes = mu.size(1), width = x.size(1), sequences = groups.firstSequence.back();
  std::vector<at::Tensor> mixed;
  if (!kernelsServe({x, mu}, width)) {
    std::vector<std::vector<at::Tensor>> parts(static_cast<size_t>(mixes));
    forEachGroup(groups, 0, groups.rows(), [&](int64_t g, int64_t from, int64_t to) {
      auto own = tokenShiftMix({x.narrow(0, from, to - from), {}, mu[g], cuSeqlensOf(groups, g)});
      for (int64_t c = 0; c < mixes; ++c) parts[c].push_back(own[c]);
    });
    for (const auto& part : parts) mixed.push_back(at::cat(part));
    return mixed;
  }
  for (int64_t c = 0; c < mixes; ++c) mixed.push_back(emptyAs(x));
  const int64_t perSequence = std::max<int64_t>(1, x.numel() / std::max<int64_t>(1, sequences));
  const int64_t* start = groups.cuSeqlens.const_data_ptr<int64_t>();
  withReal(x, [&](auto real) {
    using Real = decltype(real);
    at::parallel_for(0, sequences, std::max<int64_t>(1, elementsPerThread / perSequence),
                     [&](int64_t first, int64_t last) {
                       int64_t g = 0;
                       for (int64_t s = first; s < last; ++s) {
                         while (groups.firstSequence[g + 1] <= s) ++g;
                         const int64_t at = start[s] * width;
                         ShiftMix<Real> task{start[s + 1] - start[s],
                                             width,
                                             mixes,
                                             pointerAt<Real>(x, at),
                                             nullptr,
                                             pointerAt<Real>(mu, g * mixes * width),
                                             {}};
                         for (int64_t c = 0; c < mixes; ++c) task.mixed[c] = mutableAt<Real>(mixed[c], at);
                         timeMixKernelsOf<Real>().shiftMix(task);
                       }
                     });
  });
  return mixed;
}

NormalisedKey groupedKeyNormalise(const KeyNormaliseInput& input, const Groups& groups) {
  const auto& [k, aLogits, kK, kA, headSize] = input;
  const int64_t width = k.size(1), heads = width / headSize;
  if (!kernelsServe({k, aLogits, kK, kA}, headSize)) {
    std::vector<at::Tensor> key, removal, gated;
    forEachGroup(groups, 0, groups.rows(), [&](int64_t g, int64_t from, int64_t to) {
      const auto own = keyNormalise(
          {k.narrow(0, from, to - from), aLogits.narrow(0, from, to - from), kK[g], kA[g], headSize});
      key.push_back(own.key);
      removal.push_back(own.removal);
      gated.push_back(own.gated);
    });
    return {at::cat(key), at::cat(removal), at::cat(gated)};
  }
  const NormalisedKey result{emptyAs(k), emptyAs(k), emptyAs(k)};
  withReal(k, [&](auto real) {
    using Real = decltype(real);
    forEachGroupInBlocks(k, groups, [&](int64_t g, int64_t from, int64_t to) {
      const int64_t at = from * width;
      timeMixKernelsOf<Real>().keyNorm(
          {to - from, heads, input.headSize, pointerAt<Real>(input.k, at), pointerAt<Real>(input.aLogits, at),
           pointerAt<Real>(input.kK, g * width), pointerAt<Real>(input.kA, g * width),
           mutableAt<Real>(result.key, at), mutableAt<Real>(result.removal, at),
           mutableAt<Real>(result.gated, at)});
    });
  });
  return result;
}

at::Tensor groupedGroupNormBonusGate(const GroupNormBonusGateInput& input, const Groups& groups) {
  const int64_t width = input.o.size(1), heads = input.rK.size(1), headSize = input.rK.size(2);
  if (!kernelsServe({input.o, input.r, input.k, input.v, input.gate, input.rK, input.gain, input.bias},
                    headSize)) {
    return groupByGroup(groups, [&](int64_t g, const auto& rowsOf) {
      return groupNormBonusGate({rowsOf(input.o), rowsOf(input.r), rowsOf(input.k), rowsOf(input.v),
                                 rowsOf(input.gate), input.rK[g], input.gain[g], input.bias[g]});
    });
  }
  const at::Tensor result = emptyAs(input.o);
  withReal(result, [&](auto real) {
    using Real = decltype(real);
    forEachGroupInBlocks(result, groups, [&](int64_t g, int64_t from, int64_t to) {
      const int64_t at = from * width, own = g * width;
      timeMixKernelsOf<Real>().normBonusGate(
          {to - from, heads, headSize, pointerAt<Real>(input.o, at), pointerAt<Real>(input.r, at),
           pointerAt<Real>(input.k, at), pointerAt<Real>(input.v, at), pointerAt<Real>(input.gate, at),
           pointerAt<Real>(input.rK, own), pointerAt<Real>(input.gain, own), pointerAt<Real>(input.bias, own),
           mutableAt<Real>(result, at)});
    });
  });
  return result;
}

at::Tensor groupedLayerNorm(const at::Tensor& x, const at::Tensor& gain, const at::Tensor& bias,
                            const Groups& groups) {
  const int64_t width = x.size(1);
  if (!kernelsServe({x, gain, bias}, width)) {
    return groupByGroup(groups, [&](int64_t g, const auto& rowsOf) {
      return at::layer_norm(rowsOf(x), {width}, gain[g], bias[g]);
    });
  }
  const at::Tensor normalised = at::layer_norm(x, {width});
  withReal(x, [&](auto real) {
    using Real = decltype(real);
    forEachGroupInBlocks(x, groups, [&](int64_t g, int64_t from, int64_t to) {
      timeMixKernelsOf<Real>().rowsAffine({to - from, width, pointerAt<Real>(gain, g * width),
                                           pointerAt<Real>(bias, g * width),
                                           mutableAt<Real>(normalised, from * width)});
    });
  });
  return normalised;
}

}  // namespace aegir::kernels
