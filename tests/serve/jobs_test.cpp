// The two threads that work, and long work by its name.
#include "serve/jobs.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <atomic>

#include <future>

#include "serve/answer_cache.h"
#include "serve/job_events.h"

namespace openwork::serve {
namespace {

using namespace std::chrono_literals;

// Work that waits until it is let go on. Declared before the queue, which ends its threads before gates are gone.
class Gate {
 public:
  void wait() { future_.wait(); }
  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

TEST(WorkQueue, DoesOnePieceOfEachKindAtATime) {
  Gate begun, gate;
  std::promise<void> end;
  std::string order;
  WorkQueue queue(8, 8);
  queue.add_long([&] { begun.open(), gate.wait(), order += 'a'; });
  begun.wait();
  queue.add_long([&] { order += 'b'; });
  queue.add_long([&] { order += 'c', end.set_value(); });
  gate.open();
  end.get_future().wait();
  EXPECT_EQ(order, "abc");
}

TEST(WorkQueue, QuickWorkDoesNotWaitForAPassOfLongWork) {
  Gate begun, gate;
  std::promise<std::string> end;
  std::string order;
  WorkQueue queue(8, 8);
  queue.add_long([&] { begun.open(), gate.wait(); });  // a pass that ends when it is let
  begun.wait();
  queue.add_quick([&] { order += '1'; });
  queue.add_quick([&] { end.set_value(order + "2"); });
  EXPECT_EQ(end.get_future().get(), "12");  // while the pass goes on
  gate.open();
}

TEST(WorkQueue, LongWorkGivesWayOnACoreThatQuickWorkWants) {
  std::promise<int> quick, lengthy;
  WorkQueue queue(8, 8);
  queue.add_quick([&] { quick.set_value(getpriority(PRIO_PROCESS, 0)); });
  queue.add_long([&] { lengthy.set_value(getpriority(PRIO_PROCESS, 0)); });
  const int usual = getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(quick.get_future().get(), usual);
  EXPECT_EQ(lengthy.get_future().get(), std::min(usual + 5, 19));
}

TEST(WorkQueue, RefusesWhatIsTooMuchAndWhatComesAfterItsEnd) {
  Gate begun, begun_quick, gate;
  WorkQueue queue(2, 1);
  queue.add_long([&] { begun.open(), gate.wait(); });
  queue.add_quick([&] { begun_quick.open(), gate.wait(); });
  begun.wait();
  begun_quick.wait();
  EXPECT_TRUE(queue.add_quick([] {}));
  EXPECT_TRUE(queue.add_quick([] {}));
  EXPECT_FALSE(queue.add_quick([] {}));
  EXPECT_TRUE(queue.add_long([] {}));
  EXPECT_FALSE(queue.add_long([] {}));
  gate.open();
  queue.stop();
  EXPECT_FALSE(queue.add_quick([] {}));
  EXPECT_FALSE(queue.add_long([] {}));
}

TEST(WorkQueue, DropsLongWorkThatWaitsWhenItEnds) {
  Gate begun, begun_quick, gate;
  std::atomic<int> done = 0;
  WorkQueue queue(2, 1'000'000);
  queue.add_long([&] { begun.open(), gate.wait(); });
  queue.add_quick([&] { begun_quick.open(), gate.wait(); });
  begun.wait();
  begun_quick.wait();
  queue.add_quick([&] { ++done; });
  std::thread end([&] { queue.stop(); });
  while (queue.add_long([] { ADD_FAILURE() << "long work that waited"; })) std::this_thread::yield();
  gate.open();
  end.join();
  EXPECT_EQ(done, 1) << "quick work that waited";
}

struct JobsTest : testing::Test {
  WorkQueue queue{8, 4};
  JobLimits limits;
  static Answer done() { return json_answer({{"done", true}}); }
};

TEST_F(JobsTest, TellHowFarTheyAreAndEndWithTheirResult) {
  Jobs jobs(queue, limits);
  Gate gate;
  const auto job = jobs.begin("a", [&](Work& work) {
    work.tell("first", 1, 2);
    gate.wait();
    work.tell("first", 2, 2);
    return done();
  });
  JobEvents events(job);
  std::string seen = events.next();
  while (seen.find("\"done\":1") == std::string::npos) seen += events.next();
  gate.open();
  while (!events.ended()) seen += events.next();
  EXPECT_NE(seen.find("event: progress\ndata: {\"all\":2,\"done\":1,\"stage\":\"first\"}\n\n"),
            std::string::npos)
      << seen;
  EXPECT_TRUE(seen.ends_with("event: result\ndata: {\"done\":true}\n\n")) << seen;
  EXPECT_EQ(events.next(), "");
  EXPECT_EQ(jobs.find(job->id()), job);
  EXPECT_EQ(describe_job(*job, job->look())["result"]["done"], true);
  JobEvents late(job);
  EXPECT_TRUE(late.next().starts_with("event: result"));
  EXPECT_TRUE(late.ended());
}

TEST_F(JobsTest, AreSharedByThoseWhoAskTheSameAndCancelledByTheLast) {
  Jobs jobs(queue, limits);
  const auto forever = [](Work& work) -> Answer {
    for (;;) work.tell("", 0, 0);
  };
  const auto first = jobs.begin("a", forever), second = jobs.begin("a", forever),
             other = jobs.begin("b", forever);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  first->leave();
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(first->ended());
  other->leave();
  EXPECT_EQ(other->look().state, JobState::kCancelled);  // it had not begun
  second->leave();
  JobEvents events(first);
  std::string seen;
  while (!events.ended()) seen += events.next();
  EXPECT_TRUE(seen.ends_with("event: cancelled\ndata: {}\n\n")) << seen;
  EXPECT_NE(jobs.begin("a", [](Work&) { return done(); }), first);
}

TEST_F(JobsTest, OfOneThatIsCalledOffNobodyIsGivenAShare) {
  Jobs jobs(queue, limits);
  Gate begun, gate;
  const auto first = jobs.begin("a", [&](Work& work) -> Answer {
    begun.open();
    gate.wait();  // a pass that goes on after it was cancelled
    work.tell("", 0, 0);
    return done();
  });
  begun.wait();
  first->leave();
  const auto again = jobs.begin("a", [](Work&) { return done(); });
  EXPECT_NE(again, first);
  gate.open();
  while (!again->ended()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(first->look().state, JobState::kCancelled);
  EXPECT_EQ(again->look().state, JobState::kDone);
}

TEST_F(JobsTest, EndWhenNobodyLooksOrTheyTakeTooLong) {
  limits.unwatched = 0s;
  Jobs unwatched(queue, limits);
  const auto forever = [](Work& work) -> Answer {
    for (;;) std::this_thread::sleep_for(1ms), work.tell("", 0, 0);
  };
  const auto job = unwatched.begin("a", forever);
  while (!job->ended()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(job->look().state, JobState::kCancelled);

  limits.unwatched = 60s, limits.longest = 0s;
  Jobs timed(queue, limits);
  const auto late = timed.begin("a", forever);
  while (!late->ended()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(late->look().state, JobState::kFailed);
  EXPECT_NE(late->look().error.find("too long"), std::string::npos);
}

TEST_F(JobsTest, KeepOnlyTheLatestThatEnded) {
  limits.most_kept = 3;
  Jobs jobs(queue, limits);
  std::string first;
  for (int n = 0; n < 6; ++n) {
    const auto job = jobs.begin(std::to_string(n), [](Work&) { return done(); });
    ASSERT_NE(job, nullptr);
    if (n == 0) first = job->id();
    while (!job->ended()) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(jobs.find(first), nullptr);
}

TEST(AnswerCache, ForgetsTheOldestBeyondItsSize) {
  AnswerCache cache(1000);
  const auto answer = [](char c) { return Answer{kJsonType, std::make_shared<const std::string>(200, c)}; };
  for (const char c : {'a', 'b', 'c', 'd'}) cache.add(std::string(1, c), answer(c));
  EXPECT_TRUE(cache.find("a"));  // and so b is the oldest
  cache.add("e", answer('e'));
  EXPECT_FALSE(cache.find("b"));
  EXPECT_EQ(*cache.find("a")->body, std::string(200, 'a'));
  EXPECT_LE(cache.bytes(), 1000u);
  cache.add("large", {kJsonType, std::make_shared<const std::string>(300, 'x')});
  EXPECT_FALSE(cache.find("large"));
}

}  // namespace
}  // namespace openwork::serve
