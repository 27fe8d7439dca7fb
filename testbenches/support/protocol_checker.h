// Sits between an initiator and a target, adds neither time nor behaviour, and notes every breach of the base protocol
// of TLM-2.0 (IEEE 1666-2011, clauses 10 to 15) that can be seen there. Knows nothing of any model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tlm>

namespace heddle::test {

class ProtocolChecker : public sc_core::sc_module,
                        private tlm::tlm_fw_transport_if<>,
                        private tlm::tlm_bw_transport_if<> {
 public:
  explicit ProtocolChecker(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in"), out("out") {
    in.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    out.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  }

  tlm::tlm_target_socket<> in;      // to the initiator
  tlm::tlm_initiator_socket<> out;  // to the target

  std::vector<std::string> violations;                   // one sentence each; to be empty
  std::function<void(const std::string&)> on_violation;  // to fail at once

  // What has been seen, so that a test knows that there was something.
  struct Counts {
    std::uint64_t blocking = 0;     // calls of b_transport
    std::uint64_t nonblocking = 0;  // transactions that began with BEGIN_REQ
    std::uint64_t completed = 0;    // of those
    std::uint64_t reads = 0;
    std::uint64_t writes = 0;
    std::uint64_t ignores = 0;
    std::uint64_t errors = 0;  // transactions that ended with an error response
    std::uint64_t direct = 0;  // get_direct_mem_ptr
    std::uint64_t debug = 0;
    std::uint64_t other_phases = 0;  // not of the base protocol
  };
  const Counts& counts() const { return counts_; }
  // No transaction is open.
  bool finished() const { return open_.empty() && blocking_.empty(); }
  // Open transactions are forgotten, as by a reset of both sides.
  void forget() {
    open_.clear();
    requesting_ = responding_ = 0;
  }

 private:
  using Payload = tlm::tlm_generic_payload;
  using Bytes = std::vector<unsigned char>;

  // What nobody may change until the transaction is complete. The address is missing: interconnects may change it.
  struct Attributes {
    tlm::tlm_command command = tlm::TLM_IGNORE_COMMAND;
    const unsigned char* data = nullptr;
    unsigned length = 0;
    unsigned width = 0;
    const unsigned char* enables = nullptr;
    unsigned enable_length = 0;
    Bytes written;        // the data of a write
    Bytes enable_values;  // and the byte enables
  };
  enum class Stage { requested, accepted, responding };
  struct Open {
    std::uint64_t serial = 0;  // never 0
    Stage stage = Stage::requested;
    sc_core::sc_time time;  // of its last phase
    Attributes attributes;
    std::string text;
  };

  static std::string text_of(const Payload& payload) {
    const char* command = payload.is_read() ? "read" : payload.is_write() ? "write" : "ignored command";
    return std::string(command) + " of " + std::to_string(payload.get_data_length()) + " bytes at " +
           std::to_string(payload.get_address());
  }
  static std::string text_of(tlm::tlm_sync_enum status) {
    if (status == tlm::TLM_ACCEPTED) return "TLM_ACCEPTED";
    if (status == tlm::TLM_UPDATED) return "TLM_UPDATED";
    return status == tlm::TLM_COMPLETED ? "TLM_COMPLETED" : "an unknown return value";
  }
  static std::string text_of(const tlm::tlm_phase& phase) { return phase.get_name(); }

  void complain(const std::string& who, const std::string& what) {
    const std::string text =
        std::string(name()) + " at " + sc_core::sc_time_stamp().to_string() + ": " + who + ": " + what;
    violations.push_back(text);
    if (on_violation) on_violation(text);
  }
  void require(bool good, const std::string& who, const std::string& what) {
    if (!good) complain(who, what);
  }

  // ---- attributes

  static Attributes attributes_of(const Payload& payload) {
    Attributes a;
    a.command = payload.get_command();
    a.data = payload.get_data_ptr();
    a.length = payload.get_data_length();
    a.width = payload.get_streaming_width();
    a.enables = payload.get_byte_enable_ptr();
    a.enable_length = payload.get_byte_enable_length();
    if (payload.is_write() && a.data != nullptr) a.written.assign(a.data, a.data + a.length);
    if (a.enables != nullptr) a.enable_values.assign(a.enables, a.enables + a.enable_length);
    return a;
  }

  void check_same(const Attributes& before, const Payload& payload, const std::string& who) {
    const Attributes now = attributes_of(payload);
    require(now.command == before.command, who, "the command was changed before the transaction was complete");
    require(now.data == before.data, who, "the data pointer was changed before the transaction was complete");
    require(now.length == before.length, who, "the data length was changed before the transaction was complete");
    require(now.width == before.width, who, "the streaming width was changed before the transaction was complete");
    require(now.enables == before.enables && now.enable_length == before.enable_length, who,
            "the byte enables' place or length was changed before the transaction was complete");
    if (now.data == before.data && now.length == before.length && now.command == before.command) {
      require(now.written == before.written, who, "data of a write were changed before the transaction was complete");
    }
    if (now.enables == before.enables && now.enable_length == before.enable_length) {
      require(now.enable_values == before.enable_values, who,
              "byte enables were changed before the transaction was complete");
    }
  }

  void check_request(const Payload& payload, const std::string& who) {
    require(payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE, who,
            "a request began with a response status that is not TLM_INCOMPLETE_RESPONSE");
    require(!payload.is_dmi_allowed(), who, "a request began with the DMI hint set");
    require(payload.get_gp_option() != tlm::TLM_FULL_PAYLOAD_ACCEPTED, who,
            "a request began with the option TLM_FULL_PAYLOAD_ACCEPTED");
    if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
      ++counts_.ignores;
      return;
    }
    const bool known = payload.is_read() || payload.is_write();
    require(known, who, "the command is none of read, write, ignore");
    ++(payload.is_read() ? counts_.reads : counts_.writes);
    require(payload.get_data_length() > 0, who, "a read or write of 0 bytes");
    require(payload.get_data_ptr() != nullptr, who, "a read or write without a data pointer");
    require(payload.get_streaming_width() > 0, who, "a read or write with a streaming width of 0");
    const unsigned char* enables = payload.get_byte_enable_ptr();
    if (enables == nullptr) return;
    require(payload.get_byte_enable_length() > 0, who, "byte enables of length 0");
    for (unsigned i = 0; i < payload.get_byte_enable_length(); ++i) {
      const bool good = enables[i] == TLM_BYTE_ENABLED || enables[i] == TLM_BYTE_DISABLED;
      if (!good) return complain(who, "a byte enable that is neither 0 nor 0xff");
    }
  }

  void check_response(const Payload& payload, const std::string& who) {
    const tlm::tlm_response_status status = payload.get_response_status();
    require(status != tlm::TLM_INCOMPLETE_RESPONSE, who, "a response with the status TLM_INCOMPLETE_RESPONSE");
    require(status >= tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE && status <= tlm::TLM_OK_RESPONSE, who,
            "a response with a status that does not exist");
    require(status != tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE || payload.get_byte_enable_ptr() != nullptr, who,
            "a byte enable error in response to a request without byte enables");
    require(status == tlm::TLM_OK_RESPONSE || !payload.is_dmi_allowed(), who, "the DMI hint with an error response");
    if (payload.is_response_error()) ++counts_.errors;
  }

  // ---- non-blocking transport

  // Null, with a complaint, if the transaction is not open.
  Open* find(const Payload& payload, const tlm::tlm_phase& phase) {
    const auto found = open_.find(&payload);
    if (found != open_.end()) return &found->second;
    complain(text_of(phase), "a phase of a transaction that is not open");
    return nullptr;
  }
  Open* find(const Payload& payload, std::uint64_t serial) {
    const auto found = open_.find(&payload);
    return found == open_.end() || found->second.serial != serial ? nullptr : &found->second;
  }

  void advance(Open& open, const sc_core::sc_time& delay, const std::string& phase) {
    const sc_core::sc_time time = sc_core::sc_time_stamp() + delay;
    require(time >= open.time, open.text, phase + " lies before the transaction's phase before it");
    open.time = time;
  }

  void check_memory_manager(const Payload& payload, const std::string& who) {
    if (!payload.has_mm()) return complain(who, "non-blocking transport of a transaction without a memory manager");
    require(payload.get_ref_count() > 0, who,
            "non-blocking transport of a transaction to which nobody has a reference");
  }

  std::uint64_t begin_request(Payload& payload, const sc_core::sc_time& delay) {
    const std::string who = text_of(payload);
    check_memory_manager(payload, who);
    require(requesting_ == 0, who, "BEGIN_REQ before the END_REQ of the request before it (request exclusion rule)");
    require(blocking_.count(&payload) == 0, who, "a transaction object in a blocking call was sent as another");
    require(open_.count(&payload) == 0, who, "a transaction object was used again before it was complete");
    check_request(payload, who);
    ++counts_.nonblocking;
    Open open;
    open.serial = ++serials_;
    open.time = sc_core::sc_time_stamp() + delay;
    open.attributes = attributes_of(payload);
    open.text = who;
    open_[&payload] = std::move(open);
    requesting_ = serials_;
    return serials_;
  }

  void end_request(Open& open, const sc_core::sc_time& delay) {
    require(open.stage == Stage::requested, open.text, "END_REQ after END_REQ or BEGIN_RESP");
    advance(open, delay, "END_REQ");
    if (open.stage == Stage::requested) open.stage = Stage::accepted;
    free_request(open);
  }
  void free_request(const Open& open) {
    if (requesting_ == open.serial) requesting_ = 0;
  }

  void begin_response(Open& open, const Payload& payload, const sc_core::sc_time& delay) {
    require(open.stage != Stage::responding, open.text, "BEGIN_RESP twice");
    require(responding_ == 0 || responding_ == open.serial, open.text,
            "BEGIN_RESP before the END_RESP of the response before it (response exclusion rule)");
    check_memory_manager(payload, open.text);
    check_same(open.attributes, payload, open.text);
    check_response(payload, open.text);
    advance(open, delay, "BEGIN_RESP");
    open.stage = Stage::responding;
    free_request(open);  // END_REQ is implied
    responding_ = open.serial;
  }

  void complete(const Payload& payload, const Open& open) {
    free_request(open);
    if (responding_ == open.serial) responding_ = 0;
    ++counts_.completed;
    open_.erase(&payload);
  }

  // TLM_ACCEPTED: the callee has changed nothing.
  void check_accepted(const tlm::tlm_phase& asked, const tlm::tlm_phase& phase, const sc_core::sc_time& before,
                      const sc_core::sc_time& delay, const std::string& who) {
    require(phase == asked, who, "TLM_ACCEPTED for " + text_of(asked) + ", but the phase was changed");
    require(delay == before, who, "TLM_ACCEPTED for " + text_of(asked) + ", but the delay was changed");
  }

  static bool of_base(const tlm::tlm_phase& phase) { return phase >= tlm::BEGIN_REQ && phase <= tlm::END_RESP; }
  void note_other(const tlm::tlm_phase& phase) {
    if (phase == tlm::UNINITIALIZED_PHASE) return complain("a call", "a phase that was not initialised");
    ++counts_.other_phases;
  }

  tlm::tlm_sync_enum nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override {
    const tlm::tlm_phase asked = phase;
    const sc_core::sc_time before = delay;
    if (asked == tlm::BEGIN_REQ) {
      const std::string who = text_of(payload);
      const std::uint64_t serial = begin_request(payload, delay);
      const tlm::tlm_sync_enum status = out->nb_transport_fw(payload, phase, delay);
      requested(payload, serial, status, phase, before, delay, who);
      return status;
    }
    if (asked != tlm::END_RESP) {
      if (of_base(asked)) {
        complain(text_of(payload), text_of(asked) + " on the forward path");
      } else {
        note_other(asked);
      }
      return out->nb_transport_fw(payload, phase, delay);
    }
    std::string who = "END_RESP";
    if (Open* open = find(payload, phase)) {
      who = open->text;
      require(open->stage == Stage::responding, who, "END_RESP before BEGIN_RESP");
      check_memory_manager(payload, who);
      check_same(open->attributes, payload, who);
      advance(*open, delay, "END_RESP");
      complete(payload, *open);
    }
    const tlm::tlm_sync_enum status = out->nb_transport_fw(payload, phase, delay);
    // The payload may be gone now.
    require(status == tlm::TLM_ACCEPTED || status == tlm::TLM_COMPLETED, who,
            text_of(status) + " for END_RESP, after which there is no phase");
    if (status == tlm::TLM_ACCEPTED) check_accepted(asked, phase, before, delay, who);
    return status;
  }

  // BEGIN_REQ has returned. Inside of the call the transaction may have gone on, to its end even.
  void requested(Payload& payload, std::uint64_t serial, tlm::tlm_sync_enum status, const tlm::tlm_phase& phase,
                 const sc_core::sc_time& before, const sc_core::sc_time& delay, const std::string& who) {
    if (status == tlm::TLM_ACCEPTED) return check_accepted(tlm::BEGIN_REQ, phase, before, delay, who);
    Open* open = find(payload, serial);
    if (open == nullptr) return complain(who, text_of(status) + " for BEGIN_REQ of what was complete already");
    if (status == tlm::TLM_COMPLETED) {
      require(open->stage != Stage::responding, who, "TLM_COMPLETED for BEGIN_REQ after BEGIN_RESP");
      check_same(open->attributes, payload, who);
      check_response(payload, who);
      advance(*open, delay, "completion");
      complete(payload, *open);
    } else if (status == tlm::TLM_UPDATED && phase == tlm::END_REQ) {
      end_request(*open, delay);
    } else if (status == tlm::TLM_UPDATED && phase == tlm::BEGIN_RESP) {
      begin_response(*open, payload, delay);
    } else {
      complain(who, text_of(status) + " with " + text_of(phase) + " for BEGIN_REQ");
    }
  }

  tlm::tlm_sync_enum nb_transport_bw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override {
    const tlm::tlm_phase asked = phase;
    const sc_core::sc_time before = delay;
    if (asked != tlm::END_REQ && asked != tlm::BEGIN_RESP) {
      if (of_base(asked)) {
        complain(text_of(payload), text_of(asked) + " on the backward path");
      } else {
        note_other(asked);
      }
      return in->nb_transport_bw(payload, phase, delay);
    }
    Open* open = find(payload, phase);
    const std::string who = open == nullptr ? text_of(asked) : open->text;
    const std::uint64_t serial = open == nullptr ? 0 : open->serial;
    if (open != nullptr && asked == tlm::END_REQ) end_request(*open, delay);
    if (open != nullptr && asked == tlm::BEGIN_RESP) begin_response(*open, payload, delay);
    const tlm::tlm_sync_enum status = in->nb_transport_bw(payload, phase, delay);
    // The payload may be gone now.
    if (status == tlm::TLM_ACCEPTED) {
      check_accepted(asked, phase, before, delay, who);
    } else if (asked == tlm::END_REQ) {
      complain(who, text_of(status) + " for END_REQ, which can only be accepted");
    } else {
      responded(payload, serial, status, phase, delay, who);
    }
    return status;
  }

  void responded(Payload& payload, std::uint64_t serial, tlm::tlm_sync_enum status, const tlm::tlm_phase& phase,
                 const sc_core::sc_time& delay, const std::string& who) {
    if (serial == 0) return;
    Open* open = find(payload, serial);
    if (open == nullptr) return complain(who, text_of(status) + " for BEGIN_RESP of what was complete already");
    require(status == tlm::TLM_COMPLETED || (status == tlm::TLM_UPDATED && phase == tlm::END_RESP), who,
            text_of(status) + " with " + text_of(phase) + " for BEGIN_RESP");
    advance(*open, delay, "END_RESP");
    complete(payload, *open);
  }

  // ---- blocking transport, direct memory, debug

  void b_transport(Payload& payload, sc_core::sc_time& delay) override {
    const std::string who = text_of(payload);
    ++counts_.blocking;
    require(open_.count(&payload) == 0, who, "a transaction object was used again before it was complete");
    require(++blocking_[&payload] == 1, who, "a blocking call with a transaction object that is in another");
    check_request(payload, who);
    const Attributes attributes = attributes_of(payload);
    const sc_core::sc_time begin = sc_core::sc_time_stamp() + delay;
    out->b_transport(payload, delay);
    check_same(attributes, payload, who);
    check_response(payload, who);
    require(sc_core::sc_time_stamp() + delay >= begin, who, "a blocking call ended before it began");
    if (--blocking_[&payload] == 0) blocking_.erase(&payload);
  }

  bool get_direct_mem_ptr(Payload& payload, tlm::tlm_dmi& dmi) override {
    const std::string who = "direct memory for a " + text_of(payload);
    ++counts_.direct;
    const sc_dt::uint64 address = payload.get_address();
    const tlm::tlm_command command = payload.get_command();
    require(command == tlm::TLM_READ_COMMAND || command == tlm::TLM_WRITE_COMMAND, who,
            "direct memory was asked for neither reading nor writing");
    const bool granted = out->get_direct_mem_ptr(payload, dmi);
    require(dmi.get_start_address() <= dmi.get_end_address(), who, "the range ends before it begins");
    if (!granted) return false;
    require(dmi.get_dmi_ptr() != nullptr, who, "granted without a pointer");
    require(dmi.get_start_address() <= address && address <= dmi.get_end_address(), who,
            "granted for a range without the address");
    const bool fits = command == tlm::TLM_WRITE_COMMAND ? dmi.is_write_allowed() : dmi.is_read_allowed();
    require(fits, who, "granted, but not the access that was asked for");
    return true;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64 start, sc_dt::uint64 end) override {
    require(start <= end, "invalidation of direct memory", "the range ends before it begins");
    in->invalidate_direct_mem_ptr(start, end);
  }

  unsigned int transport_dbg(Payload& payload) override {
    const std::string who = "debug " + text_of(payload);
    ++counts_.debug;
    const Attributes attributes = attributes_of(payload);
    require(attributes.length == 0 || attributes.data != nullptr, who, "without a data pointer");
    const unsigned done = out->transport_dbg(payload);
    require(done <= attributes.length, who, "more bytes were reported than asked for");
    check_same(attributes, payload, who);
    return done;
  }

  Counts counts_;
  std::map<const Payload*, Open> open_;
  std::map<const Payload*, unsigned> blocking_;
  std::uint64_t serials_ = 0;
  std::uint64_t requesting_ = 0;  // whose END_REQ is outstanding
  std::uint64_t responding_ = 0;  // whose END_RESP is
};

}  // namespace heddle::test
