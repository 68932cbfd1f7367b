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

// What a byte looks like: 9 for a digit, A for a capital, a for another letter of ASCII, 128 for a byte of
// other characters, itself for the rest and for ids that are no bytes.
constexpr int64_t shapeOf(int64_t id) {
  if (id >= '0' && id <= '9') return '9';
  if (id >= 'A' && id <= 'Z') return 'A';
  if (id >= 'a' && id <= 'z') return 'a';
  return id >= 128 && id < 256 ? 128 : id;
}

constexpr int64_t lowercase(int64_t id) { return id >= 'A' && id <= 'Z' ? id + ('a' - 'A') : id; }

// Lengths of n-grams, rising, whether a capital is read as the small letter, and whether there are n-grams of
// shapes too, to which case matters.
struct NgramForm {
  std::vector<int64_t> sizes;
  bool lowercase = false;
  bool shapes = false;

  // n-grams that can end at a token.
  int64_t count() const { return static_cast<int64_t>(sizes.size()) * (shapes ? 2 : 1); }
  int64_t history() const {
    return sizes.empty() ? 0 : sizes.back() - 1;
  }  // ids before a token that are read
};

// visit(number of the n-gram, bucket) for every n-gram that ends at token t: of ids, and behind them of
// shapes.
template <class Visit>
void eachNgram(const Ids& ids, int64_t t, const NgramForm& form, uint64_t buckets, const Visit& visit) {
  constexpr uint64_t hashBase = 0x9e3779b97f4a7c15;
  constexpr uint64_t shapeSalt = 32;
  const auto& sizes = form.sizes;
  for (uint64_t shapes = 0; shapes < (form.shapes ? 2 : 1); ++shapes) {
    uint64_t hash = 0, power = 1;
    int64_t length = 0;
    for (size_t j = 0; j < sizes.size(); ++j) {
      for (; length < sizes[j]; ++length, power *= hashBase) {
        const int64_t id = ids.before(t, length);
        if (id < 0) break;
        const int64_t read = shapes != 0 ? shapeOf(id) : form.lowercase ? lowercase(id) : id;
        hash += (static_cast<uint64_t>(read) + 1) * power;
      }
      if (length < sizes[j]) break;
      const uint64_t mixed =
          mixBits(hash + (static_cast<uint64_t>(sizes[j]) + shapes * shapeSalt) * hashBase);
      // A division takes as long as the rest of the hash.
      const uint64_t bucket = (buckets & (buckets - 1)) == 0 ? mixed & (buckets - 1) : mixed % buckets;
      visit(static_cast<int64_t>(shapes * sizes.size() + j), static_cast<int64_t>(bucket));
    }
  }
}

}  // namespace aegir::kernels
