#include "task/channel.h"

#include "common/error.h"

namespace heddle::task {
namespace {

class FetchChain final : public LaunchChain {
 public:
  FetchChain(std::uint64_t address, std::uint64_t lines, std::uint32_t operation)
      : address_(address), left_(lines), operation_(operation) {
    HEDDLE_CHECK(lines > 0, "nothing is to be fetched");
  }

  ChainAccess access() const override { return left_ == 0 ? ChainAccess{} : ChainAccess::read_of(address_); }
  void answer_line(const RecordLine&) override { failed(); }
  void failed() override {
    address_ += arch::kRecordBytes;
    if (--left_ == 0) effect(DescriptorRead{operation_});
  }

 private:
  std::uint64_t address_;
  std::uint64_t left_;
  const std::uint32_t operation_;
};

class ReportChain final : public LaunchChain {
 public:
  ReportChain(std::uint64_t address, std::uint32_t operation) : address_(address), operation_(operation) {}

  ChainAccess access() const override {
    if (over_) return {};
    return ChainAccess::step_of({arch::MemoryStep::Kind::write, address_, operation_});
  }
  void answer_word(std::uint64_t) override { failed(); }
  void failed() override {
    over_ = true;
    effect(EndReported{operation_});
  }

 private:
  const std::uint64_t address_;
  const std::uint32_t operation_;
  bool over_ = false;
};

}  // namespace

ChainPtr fetch_chain(std::uint64_t address, std::uint64_t lines, std::uint32_t operation) {
  return std::make_unique<FetchChain>(address, lines, operation);
}

ChainPtr report_chain(std::uint64_t address, std::uint32_t operation) {
  return std::make_unique<ReportChain>(address, operation);
}

}  // namespace heddle::task
