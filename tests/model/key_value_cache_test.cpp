// What a cache holds and hands out, against the parts it is made of.
#include "model/key_value_cache.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace openwork {
namespace {

Rope make_rope(const std::string& kind) {
  Rope rope;
  rope.kind = kind, rope.rotary_size = 8, rope.original_context = 16, rope.factor = 2;
  return rope;
}

TEST(KeyValueCache, RotaryTablesAreThoseOfTheirPositions) {
  for (const char* kind : {"default", "linear", "dynamic"}) {
    const Rope rope = make_rope(kind);
    KeyValueCache cache(1, 40);
    for (const int64_t tokens : {5, 1, 1, 20, 13}) {
      const RotaryTable seen = cache.rotary(rope, tokens, at::kFloat);
      const RotaryTable wanted = make_rotary_table(rope, cache.length(), tokens, at::kFloat);
      EXPECT_TRUE(seen.cosine.allclose(wanted.cosine, 0, 1e-6)) << kind << " at " << cache.length();
      EXPECT_TRUE(seen.sine.allclose(wanted.sine, 0, 1e-6)) << kind << " at " << cache.length();
      cache.advance(tokens);
    }
  }
}

// More lengths than are kept, some asked for again.
TEST(RotaryTables, AreThoseMadeAnew) {
  for (const char* kind : {"default", "dynamic"}) {
    const Rope rope = make_rope(kind);
    RotaryTables tables;
    for (const int64_t tokens : {5, 20, 5, 1, 2, 3, 4, 6, 7, 8, 9, 5, 20}) {
      for (const auto dtype : {at::kFloat, at::kDouble}) {
        const RotaryTable seen = tables.find(rope, tokens, dtype),
                          wanted = make_rotary_table(rope, 0, tokens, dtype);
        EXPECT_EQ(seen.cosine.scalar_type(), dtype);
        EXPECT_TRUE(seen.cosine.equal(wanted.cosine)) << kind << " of " << tokens;
        EXPECT_TRUE(seen.sine.equal(wanted.sine)) << kind << " of " << tokens;
        EXPECT_TRUE(tables.find(rope, tokens, dtype).cosine.is_same(seen.cosine));
      }
    }
  }
}

TEST(KeyValueCache, TakesInTurnedWhatIsTurnedBefore) {
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  const Rope rope = make_rope("default");
  KeyValueCache turned(2, 9), plain(2, 9);
  for (const int64_t tokens : {4, 1, 3}) {
    const RotaryTable table = turned.rotary(rope, tokens, at::kFloat);
    for (const int64_t layer : {0, 1}) {
      const Tensor q = at::randn({2, tokens, 6, 8}), k = at::randn({2, tokens, 3, 8}),
                   v = at::randn({2, tokens, 3, 8});
      const auto seen = turned.extend_turned(layer, q, k, v, table);
      const auto [keys, values] = plain.extend(layer, rotate(k, table).transpose(1, 2), v.transpose(1, 2));
      EXPECT_TRUE(seen.q.equal(rotate(q, table).transpose(1, 2)));
      EXPECT_TRUE(seen.k.equal(keys));
      EXPECT_TRUE(seen.v.equal(values));
    }
    turned.advance(tokens), plain.advance(tokens);
  }
  EXPECT_EQ(turned.length(), 8);
}

TEST(KeyValueCache, SaysWhenItIsFull) {
  const at::NoGradGuard no_grad;
  KeyValueCache cache(1, 3);
  const Tensor heads = at::zeros({1, 4, 2, 8});
  EXPECT_THROW(cache.extend_turned(0, heads, heads, heads, {}), Error);
  EXPECT_THROW(cache.extend(0, heads.transpose(1, 2), heads.transpose(1, 2)), Error);
  EXPECT_EQ(cache.rotary(make_rope("default"), 4, at::kFloat).cosine.size(0), 4);
}

}  // namespace
}  // namespace openwork
