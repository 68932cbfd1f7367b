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

// visit(first + index of the size, bucket) for every n-gram of letter(before(0)), letter(before(1)), ...,
// where before(i) is the id i tokens back and negative where there is none; `salt` tells one kind of letters
// from another.
template <class Before, class Letter, class Visit>
void eachNgramOf(const Before& before, const std::vector<int64_t>& sizes, uint64_t buckets, uint64_t salt,
                 int64_t first, const Letter& letter, const Visit& visit) {
  // A division takes as long as the rest of the hash.
  const bool powerOfTwo = (buckets & (buckets - 1)) == 0;
  const auto count = static_cast<int64_t>(sizes.size());
  uint64_t hash = 0, power = 1;
  int64_t read = 0;
  for (int64_t j = 0; j < count; ++j) {
    const int64_t size = sizes[static_cast<size_t>(j)];
    for (; read < size; ++read, power *= ngramHashBase) {
      const int64_t id = before(read);
      if (id < 0) return;
      hash += (static_cast<uint64_t>(letter(id)) + 1) * power;
    }
    const uint64_t mixed = mixBits(hash + (static_cast<uint64_t>(size) + salt) * ngramHashBase);
    const uint64_t bucket = powerOfTwo ? mixed & (buckets - 1) : mixed % buckets;
    visit(first + j, static_cast<int64_t>(bucket));
  }
}

// The same for ids as `form` reads them, and behind them for their shapes.
template <class Before, class Visit>
void eachNgramOf(const Before& before, const NgramForm& form, uint64_t buckets, const Visit& visit) {
  const auto& sizes = form.sizes;
  if (form.lowercase) {
    eachNgramOf(before, sizes, buckets, 0, 0, lowercase, visit);
  } else {
    eachNgramOf(
        before, sizes, buckets, 0, 0, [](int64_t id) { return id; }, visit);
  }
  if (!form.shapes) return;
  eachNgramOf(before, sizes, buckets, shapeSalt, static_cast<int64_t>(sizes.size()), shapeOf, visit);
}

// visit(number of the n-gram, bucket) for every n-gram that ends at token t: of ids, and behind them of
// shapes.
template <class Visit>
void eachNgram(const Ids& ids, int64_t t, const NgramForm& form, uint64_t buckets, const Visit& visit) {
  if (t >= form.history()) {  // most tokens: nothing from before the sequence is read
    const int64_t* newest = ids.ids + t;
    eachNgramOf([newest](int64_t i) { return newest[-i]; }, form, buckets, visit);
  } else {
    eachNgramOf([&](int64_t i) { return ids.before(t, i); }, form, buckets, visit);
  }
}

}  // namespace aegir::kernels
