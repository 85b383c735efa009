#include "swap/device/address_uses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

ArenaSpan SpanAt(uint64_t offset, uint64_t bytes, Tier tier = Tier::kDevice) {
  return {tier, offset, bytes};
}

DeviceEvent NewEvent() { return std::make_shared<DeviceEventState>(); }

TEST(AddressUses, WhoOverlapsWaitsAndWhoTouchesDoesNot) {
  AddressUses uses;
  const DeviceEvent event = NewEvent();
  uses.Note(SpanAt(100, 50), {event});
  EXPECT_THAT(uses.Over(SpanAt(149, 1)), ElementsAre(event));
  EXPECT_THAT(uses.Over(SpanAt(0, 101)), ElementsAre(event));
  EXPECT_THAT(uses.Over(SpanAt(150, 10)), IsEmpty());
  EXPECT_THAT(uses.Over(SpanAt(0, 100)), IsEmpty());
  EXPECT_THAT(uses.Over(SpanAt(100, 50, Tier::kHost)), IsEmpty());
}

TEST(AddressUses, TheNextUseOfAllOfThemReplacesOlderOnes) {
  AddressUses uses;
  const DeviceEvent left = NewEvent(), right = NewEvent(), whole = NewEvent();
  uses.Note(SpanAt(0, 10), {left});
  uses.Note(SpanAt(10, 10), {right});
  EXPECT_THAT(uses.Over(SpanAt(5, 10)), UnorderedElementsAre(left, right));
  uses.Note(SpanAt(0, 20), {whole});
  EXPECT_THAT(uses.Over(SpanAt(5, 10)), ElementsAre(whole));
}

TEST(AddressUses, WhatIsUsedInPartKeepsItsOlderUse) {
  AddressUses uses;
  const DeviceEvent older = NewEvent(), newer = NewEvent();
  uses.Note(SpanAt(0, 20), {older});
  uses.Note(SpanAt(0, 10), {newer});
  EXPECT_THAT(uses.Over(SpanAt(0, 10)), UnorderedElementsAre(older, newer));
  EXPECT_THAT(uses.Over(SpanAt(10, 10)), ElementsAre(older));
}

}  // namespace
}  // namespace spillway
