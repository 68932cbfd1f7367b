// Which optimiser group a parameter belongs to (RWKV-7's training recipe): weight decay on the large matrices
// only, twice the learning rate for w0.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace aegir {

namespace model {

enum class ParameterGroup { Matrix, Vector, LowRank, DecayBase };

// By the last part of the dotted name: large matrices are called `weight`; routing maps that start as the
// identity, the dechunk residual, norms and every vector have names of their own.
inline ParameterGroup groupOf(std::string_view name) {
  const auto last = name.substr(name.rfind('.') + 1);
  if (last == "weight") return ParameterGroup::Matrix;
  if (last == "w0") return ParameterGroup::DecayBase;
  const bool lowRank = last.size() == 2 && std::string_view("wavg").find(last[0]) != std::string_view::npos &&
                       (last[1] == '1' || last[1] == '2');
  return lowRank ? ParameterGroup::LowRank : ParameterGroup::Vector;
}

}  // namespace model

// "matrix", "lowRank", "decayBase" or "vector".
inline const char* parameterGroup(const std::string& name, const at::Tensor&) {
  switch (model::groupOf(name)) {
    case model::ParameterGroup::Matrix: return "matrix";
    case model::ParameterGroup::LowRank: return "lowRank";
    case model::ParameterGroup::DecayBase: return "decayBase";
    case model::ParameterGroup::Vector: return "vector";
  }
  return "vector";
}

}  // namespace aegir
