// Shape of the recurrent states that swarm modules exchange: attKv of the layers of one stage before its
// routing.
#pragma once

#include <cstdint>
#include <ostream>

namespace aegir {

struct StateGeometry {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t headSize = 0;

  int64_t width() const { return heads * headSize; }
  int64_t stateSize() const { return heads * headSize * headSize; }
  bool operator==(const StateGeometry&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const StateGeometry& g) {
  return out << g.layers << " layers of " << g.heads << " heads of " << g.headSize;
}

}  // namespace aegir
