#include "base/gate_kind.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

TEST(GateKind, NamesAndKindsAreOneToOne) {
  for (const GateKind gate : {GateKind::kScore, GateKind::kLogprob, GateKind::kIdle}) {
    EXPECT_EQ(find_gate(gate_name(gate)), gate);
    EXPECT_NE(kGateNames.find(gate_name(gate)), std::string_view::npos);
  }
}

TEST(GateKind, OtherNamesAreNoGate) {
  EXPECT_STREQ(gate_name(GateKind::kNone), "none");
  for (const char* name : {"", "none", "Score", "idle ", "sigmoid"}) EXPECT_FALSE(find_gate(name)) << name;
}

}  // namespace
}  // namespace openwork
