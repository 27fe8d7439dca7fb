// Reads of lines as calls without a payload: what two of our own ends of a memory link offer each other beside
// b_transport and nb_transport, as targets offer direct memory, but with time.
#pragma once

#include <cstdint>

#include "common/cycle.h"
#include "common/error.h"

namespace heddle {

// Where a line was found, for who asks for it soon again. To be looked at anew when its address is another.
struct LinePlace {
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint64_t address = kNowhere;  // behind translation
  std::uint32_t slice = 0;           // of the L2
  std::uint32_t index = kNone;       // where that keeps it
};

// Sectors of one line that somebody wants to read.
struct LineRead {
  std::uint64_t address = 0;    // of the line, as the initiator knows it
  std::uint8_t sectors = 0;     // bit = sector that is wanted
  std::uint8_t subcontext = 0;  // whose address it is
  bool physical = false;        // it is not translated
  std::uint32_t kernel = 0;     // row of the kernel that asks; 0: nobody's
  std::uint8_t carried = 0;     // bytes that request and response each carry on top of the header
  std::uint8_t priority = 0;    // of eviction (arch::EvictionPriority)
  std::uint8_t promoted = 0;    // sectors that memory is to give as well if the read misses the cache
  bool translated = false;      // noted by find(): it has a page
  Cycle when = 0;               // of departure and, after take(), of arrival

  // A read for several: a bit for each receiver, as the source numbers them, and where the cycles at which the bytes
  // come to them go, in the order of the bits. `when` is then the cycle at which the port itself has its own, or hears
  // of them. The bytes go to the receivers with pass_on(). Memory that refuses the read brings them nothing.
  std::uint64_t receivers = 0;
  Cycle* arrivals = nullptr;

  // After take(): the whole line, of which the bytes of the sectors count, until somebody else is served. Null: memory
  // has refused it.
  const std::uint8_t* bytes = nullptr;
  std::uint64_t physical_address = 0;  // noted by find() and warm(); the initiator sets it to the address
  LinePlace at;                        // noted by find() and warm()
};

// Lines that reads for several have brought to one of the receivers; both ends know what it is.
class LineParcel {
 protected:
  ~LineParcel() = default;
};

class LineSource {
 public:
  // Finds the line. False: it cannot be read in this way now, and the read is one for a payload. Nothing has changed
  // that anybody could notice, and what was found holds until somebody else is served.
  virtual bool find(LineRead& read, std::uint32_t port) = 0;
  // The read that find() has found takes effect, as a blocking call would, and takes its time.
  virtual void take(LineRead& read, std::uint32_t port) = 0;
  // Soon the line will be asked for: fetches into the computer's caches, first what leads to it and then itself.
  virtual void warm(LineRead& read, std::uint32_t port, bool line) const = 0;
  // Hands over to a receiver what reads for several have brought it, all of it before the first arrives. The parcel is
  // the initiator's, and valid inside this call.
  virtual void pass_on(LineParcel& /*parcel*/, std::uint32_t /*receiver*/, std::uint32_t /*port*/) {
    HEDDLE_CHECK(false, "lines for several were read where nobody copies them");
  }

 protected:
  ~LineSource() = default;
};

// The other end of a link: who offers lines there, and by which number it knows the link.
struct LinePort {
  LineSource* source = nullptr;  // null: nobody does
  std::uint32_t port = 0;

  bool offered() const { return source != nullptr; }
  bool find(LineRead& read) const { return source->find(read, port); }
  void take(LineRead& read) const { source->take(read, port); }
  void warm(LineRead& read, bool line) const { source->warm(read, port, line); }
  void pass_on(LineParcel& parcel, std::uint32_t receiver) const { source->pass_on(parcel, receiver, port); }
};

}  // namespace heddle
