#include "native/core/dtype.h"

#include <array>
#include <utility>

#include "native/core/error.h"

namespace aegir {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 6> kDtypes{{
    {"f32", at::kFloat},
    {"f64", at::kDouble},
    {"bf16", at::kBFloat16},
    {"i64", at::kLong},
    {"bool", at::kBool},
    {"u8", at::kByte},
}};

}  // namespace

std::optional<at::ScalarType> dtypeFromName(std::string_view name) {
  for (const auto& [known, dtype] : kDtypes) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

std::string dtypeName(at::ScalarType dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) return std::string(name);
  }
  return c10::toString(dtype);
}

std::string said(at::ScalarType dtype) { return dtypeName(dtype); }

}  // namespace aegir
