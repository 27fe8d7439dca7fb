// Programs that software brings (HST-07): the code of a kernel object in device memory, and what the machine makes of
// it. What the bytes of code mean, the machine does not know: whoever builds it gives it a decoder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arch/kernel_object.h"
#include "common/state.h"

namespace heddle::arch {

// What code is about.
struct DecodedCode {
  std::shared_ptr<const WarpProgram> program;  // null: the bytes are no program
  std::string why;                             // then
  // Block, shared and local memory for launches that do not give them, as those of device code; clusters and
  // cooperation that the program relies on.
  KernelShape kernel;
  std::uint64_t text = 0;  // bytes of its expressions with all that they name: what the program takes of this computer
};

class CodeDecoder {
 public:
  virtual ~CodeDecoder() = default;
  // Any bytes, up to kMostCodeBytes. Never throws for what they say.
  virtual DecodedCode decode(const std::vector<std::uint8_t>& code) const = 0;
};

// Who will look up programs by their numbers. Launches that they are lent to need not be told.
class CodeUser {
 public:
  // The numbers of all programs that it knows of; others may be among them.
  virtual void mark_codes(std::set<std::uint32_t>& used) const = 0;

 protected:
  ~CodeUser() = default;
};

// What was decoded is kept by its bytes: code that is read again is only compared. So is code that was refused, or
// found no room, the last of it. When a subcontext has no room for more, those of its programs that nobody uses make
// room: no launch has them, and no user knows their numbers.
class BroughtCode final : public Saved {
 public:
  // Of the programs that are kept for a subcontext, which brought them first: their code, the text of their
  // expressions, and a place for each. What comes beyond it is refused, if all of them are in use.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
  static constexpr std::uint64_t kProgramBytes = 1024;
  // Of code that was refused, of all subcontexts, with what was said of it and a place in the list for each.
  static constexpr std::uint64_t kMostRefused = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kRefusedBytes = 128;

  // Why the machine cannot run a program; empty: it can.
  using Limits = std::function<std::string(const WarpProgram&)>;
  // Called with what is wrong with code that was refused.
  using Listener = std::function<void(const std::string&)>;

  // `codes` must outlive it. `decoder`: null, then all code is refused.
  BroughtCode(CodeStore& codes, std::shared_ptr<const CodeDecoder> decoder, Limits why_not)
      : codes_(codes), decoder_(std::move(decoder)), why_not_(std::move(why_not)) {}

  void on_refused(Listener listener) { listener_ = std::move(listener); }
  // It must live for as long as code is resolved.
  void add_user(const CodeUser& user) { users_.push_back(&user); }

  // `object` gets the number of its program, whose code a subcontext has and has been read. invalid_code_object if the
  // code is no program, if the object does not suit it, or if the machine cannot run it; the object has no program
  // then.
  HsaResult resolve(const std::vector<std::uint8_t>& code, std::uint8_t subcontext, KernelObject& object);
  // The object's program is there, and is its to launch: with code in memory what was made of code, without it what was
  // added by others. So a number alone reaches nothing that software has brought (HST-07).
  bool can_launch(const KernelObject& object) const {
    return codes_.has(object.program) && object.code.any() == (numbers_.count(object.program) > 0);
  }
  // The numbers of all programs that users know of; others may be among them.
  std::set<std::uint32_t> used() const;
  // Programs that are kept.
  std::size_t programs() const { return kept_.size(); }
  // Of a subcontext, as kMostBytes counts them.
  std::uint64_t bytes(std::uint8_t subcontext) const;
  // Nothing is kept any more. No launch has a program, and no user will look one up.
  void reset();
  // The code that is kept, and its numbers, which are in the reference state tables. restore(), after a reset(), throws
  // InputError where the machine has given one of them to something else.
  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;

 private:
  struct Kept {
    std::uint32_t number = kNoCode;
    std::uint32_t registers = 0;
    KernelShape kernel;
    std::uint8_t subcontext = 0;  // which brought it
    std::uint64_t bytes = 0;      // of kMostBytes
  };
  using Programs = std::map<std::vector<std::uint8_t>, Kept>;
  // Why code is no program here.
  struct Refusal {
    Reason reason = Reason::none;  // none: it is one, for which there was no room
    std::string why;
    std::uint64_t bytes = 0;  // of kMostBytes, then
  };

  HsaResult refuse(const KernelObject& object, Reason reason, const std::string& why) const;
  // The program of the code is kept, or why there is none.
  Refusal keep(const std::vector<std::uint8_t>& code, std::uint8_t subcontext);
  void note_refused(const std::vector<std::uint8_t>& code, const Refusal& refusal);
  // Makes room for so much of a subcontext; false: what is in use leaves none.
  bool make_room(std::uint8_t subcontext, std::uint64_t bytes);
  Programs::iterator forget(Programs::iterator program);

  CodeStore& codes_;
  const std::shared_ptr<const CodeDecoder> decoder_;
  const Limits why_not_;
  Listener listener_;
  std::vector<const CodeUser*> users_;
  Programs kept_;                                // by code
  std::unordered_set<std::uint32_t> numbers_;    // of kept_
  std::map<std::uint8_t, std::uint64_t> bytes_;  // by subcontext
  std::map<std::vector<std::uint8_t>, Refusal> refused_;
  std::uint64_t refused_bytes_ = 0;
};

// Code on its way from memory, line by line.
class CodeReading {
 public:
  CodeReading() = default;
  explicit CodeReading(const KernelObject::CodePlace& place) : place_(place), bytes_(place.bytes) {}

  std::uint32_t lines() const { return (place_.bytes + kCodeAlignment - 1) / kCodeAlignment; }
  std::uint64_t address(std::uint32_t line) const { return place_.address + std::uint64_t{line} * kCodeAlignment; }
  std::uint32_t bytes_of(std::uint32_t line) const {
    return std::min(kCodeAlignment, place_.bytes - line * kCodeAlignment);
  }
  // Each line once, in any order.
  void take(std::uint32_t line, const std::array<std::uint8_t, kCodeAlignment>& data);
  bool complete() const { return taken_ == lines(); }
  // complete()
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  KernelObject::CodePlace place_;
  std::vector<std::uint8_t> bytes_;
  std::uint32_t taken_ = 0;
};

}  // namespace heddle::arch
