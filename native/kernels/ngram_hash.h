// Which rows of a hashed table the n-grams that end at a token have (ngram_embedding.h).
#pragma once

#include <cstdint>
#include <vector>

namespace aegir::kernels {

// One sequence's ids with what came before it.
struct Ids {
  const int64_t* ids;
  const int64_t* history;  // of `past` ids, or null
  int64_t past;

  // The id i tokens before token t, -1 where there is none.
  int64_t before(int64_t t, int64_t i) const {
    if (i <= t) return ids[t - i];
    const int64_t at = past + t - i;
    return history != nullptr && at >= 0 ? history[at] : -1;
  }
};

// The finaliser of MurmurHash3.
inline uint64_t mixBits(uint64_t h) {
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
  return h ^ (h >> 33);
}

// visit(index of the size, bucket) for every n-gram that ends at token t.
template <class Visit>
void eachNgram(const Ids& ids, int64_t t, const std::vector<int64_t>& sizes, uint64_t buckets,
               const Visit& visit) {
  constexpr uint64_t hashBase = 0x9e3779b97f4a7c15;
  uint64_t hash = 0, power = 1;
  int64_t read = 0;
  for (size_t j = 0; j < sizes.size(); ++j) {
    for (; read < sizes[j]; ++read, power *= hashBase) {
      const int64_t id = ids.before(t, read);
      if (id < 0) return;
      hash += (static_cast<uint64_t>(id) + 1) * power;
    }
    const uint64_t mixed = mixBits(hash + static_cast<uint64_t>(sizes[j]) * hashBase);
    // A division takes as long as the rest of the hash.
    const uint64_t bucket = (buckets & (buckets - 1)) == 0 ? mixed & (buckets - 1) : mixed % buckets;
    visit(static_cast<int64_t>(j), static_cast<int64_t>(bucket));
  }
}

}  // namespace aegir::kernels
