#include "native/swarm/batched.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "native/core/error.h"

namespace aegir {
namespace {

// A specialist with its tokens.
struct Member {
  size_t model;
  model::PackedInput input;
  model::AegirState after;
  at::Tensor embedded;  // (K,D)

  const model::Sequences& sequences() const { return input.packing.sequences; }
};

// On the CPU specialists run together as long as one tensor of all their tokens stays in the second-level
// cache: an operator reads what the one before it wrote. On a GPU all run together.
constexpr int64_t bytesTogether = 256 << 10;

// The first members of each run, and their number.
std::vector<size_t> runsOf(const std::vector<Member>& members) {
  std::vector<size_t> bounds{0};
  int64_t bytes = 0;
  for (size_t m = 0; m < members.size(); ++m) {
    const auto& embedded = members[m].embedded;
    const auto own = static_cast<int64_t>(embedded.nbytes());
    if (embedded.is_cpu() && m > bounds.back() && bytes + own > bytesTogether) {
      bounds.push_back(m);
      bytes = 0;
    }
    bytes += own;
  }
  bounds.push_back(members.size());
  return bounds;
}

// Members [from, to) among `count` models.
kernels::Groups groupsOf(const std::vector<Member>& members, size_t from, size_t to, size_t count) {
  kernels::Groups groups{{0}, {0}, {}};
  std::vector<at::Tensor> ends;
  for (size_t model = 0; model < count; ++model) {
    int64_t row = groups.firstRow.back(), sequence = groups.firstSequence.back();
    if (from < to && members[from].model == model) {
      const auto& sequences = members[from++].sequences();
      ends.push_back(sequences.cuSeqlens.narrow(0, 1, sequences.count) + row);
      row += sequences.tokens;
      sequence += sequences.count;
    }
    groups.firstRow.push_back(row);
    groups.firstSequence.push_back(sequence);
  }
  ends.insert(ends.begin(), at::zeros({1}, ends[0].options()));
  groups.cuSeqlens = at::cat(ends);
  return groups;
}

}  // namespace

BatchedSpecialists::BatchedSpecialists(std::vector<std::shared_ptr<model::Model>> models)
    : models_(std::move(models)), blocks_(models_) {}

std::vector<std::optional<SpecialistSays>> BatchedSpecialists::forward(
    const std::vector<std::optional<model::ModelInput>>& inputs) const {
  check(inputs.size() == models_.size(), ErrorCode::Argument, "inputs: expected ", models_.size(),
        ", one a specialist, got ", inputs.size());
  std::vector<Member> members;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    auto& member = members.emplace_back(
        Member{i, models_[i]->pack(*inputs[i]), model::AegirState(models_[i]->config()), {}});
    member.embedded = models_[i]->embed(member.input, member.after);
  }
  std::vector<std::optional<SpecialistSays>> says(inputs.size());
  const auto bounds = runsOf(members);
  for (size_t run = 0; run + 1 < bounds.size(); ++run) {
    const size_t from = bounds[run], to = bounds[run + 1];
    if (from == to) continue;
    std::vector<at::Tensor> embedded;
    for (size_t m = from; m < to; ++m) embedded.push_back(members[m].embedded);
    const auto output = blocks_.forward(at::cat(embedded), groupsOf(members, from, to, models_.size()));
    int64_t row = 0, sequence = 0;
    for (size_t m = from; m < to; ++m) {
      auto& [i, input, after, unused] = members[m];
      const auto& sequences = members[m].sequences();
      auto own = models_[i]->finish(input, output.hidden.narrow(0, row, sequences.tokens), std::move(after));
      auto& said = says[i].emplace(SpecialistSays{own.logits, own.pooled, {}});
      for (size_t layer = model::firstInnerLayer(*models_[i]->config()); layer < output.attKv.size(); ++layer)
        said.attKv.push_back(output.attKv[layer].narrow(0, sequence, sequences.count));
      row += sequences.tokens;
      sequence += sequences.count;
    }
  }
  return says;
}

}  // namespace aegir
