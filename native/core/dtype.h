// The dtypes of the package and their names: f32, f64, bf16, i64, bool, u8.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace aegir {

std::optional<at::ScalarType> dtypeFromName(std::string_view name);
// The package's name, or torch's where the package has none.
std::string dtypeName(at::ScalarType dtype);
// The dtype that sums and states are kept in: f64 for f64 inputs, else f32.
inline at::ScalarType accumulateType(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace aegir
