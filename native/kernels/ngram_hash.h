// Which rows of a hashed table the n-grams that end at a token have (ngram_embedding.h).
#pragma once

#include <cstdint>
#include <vector>

#include "native/kernels/ngram_mix.h"

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

// visit(first + index of the size, bucket) for every n-gram of letter(id) that ends at token t; `salt` tells
// one kind of letters from another.
template <class Letter, class Visit>
void eachNgramOf(const Ids& ids, int64_t t, const std::vector<int64_t>& sizes, uint64_t buckets,
                 uint64_t salt, int64_t first, const Letter& letter, const Visit& visit) {
  uint64_t hash = 0, power = 1;
  int64_t read = 0;
  for (size_t j = 0; j < sizes.size(); ++j) {
    for (; read < sizes[j]; ++read, power *= ngramHashBase) {
      const int64_t id = ids.before(t, read);
      if (id < 0) return;
      hash += (static_cast<uint64_t>(letter(id)) + 1) * power;
    }
    const uint64_t mixed = mixBits(hash + (static_cast<uint64_t>(sizes[j]) + salt) * ngramHashBase);
    // A division takes as long as the rest of the hash.
    const uint64_t bucket = (buckets & (buckets - 1)) == 0 ? mixed & (buckets - 1) : mixed % buckets;
    visit(first + static_cast<int64_t>(j), static_cast<int64_t>(bucket));
  }
}

// visit(number of the n-gram, bucket) for every n-gram that ends at token t: of ids, and behind them of
// shapes.
template <class Visit>
void eachNgram(const Ids& ids, int64_t t, const NgramForm& form, uint64_t buckets, const Visit& visit) {
  const auto& sizes = form.sizes;
  if (form.lowercase) {
    eachNgramOf(ids, t, sizes, buckets, 0, 0, lowercase, visit);
  } else {
    eachNgramOf(
        ids, t, sizes, buckets, 0, 0, [](int64_t id) { return id; }, visit);
  }
  if (!form.shapes) return;
  eachNgramOf(ids, t, sizes, buckets, shapeSalt, static_cast<int64_t>(sizes.size()), shapeOf, visit);
}

}  // namespace aegir::kernels
