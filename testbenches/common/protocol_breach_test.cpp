// The checker of the base protocol names what is not allowed: one breach at a time.
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/protocol_rig.h"

namespace heddle::test::common_protocol_breach_test {
namespace {

using namespace protocol_rig;

// A breach, and the words that have to be said about it.
struct Breach {
  const char* words;
  std::function<void(Rig&)> commit;
};
void check_all(const std::vector<Breach>& breaches) {
  for (const Breach& breach : breaches) {
    Rig rig;
    breach.commit(rig);
    CAPTURE(breach.words, rig.checker.violations);
    REQUIRE(rig.checker.violations.size() == 1);
    CHECK(rig.checker.violations[0].find(breach.words) != std::string::npos);
    CHECK(rig.checker.violations[0].find("checker at ") == 0);
  }
}

// Changes the transaction between request and response.
Breach changed(const char* words, const std::function<void(Transaction&)>& change) {
  return {words, [change](Rig& rig) {
            rig.w.use_enables();
            rig.forward(rig.w, tlm::BEGIN_REQ);
            rig.back(rig.w, tlm::END_REQ);
            change(rig.w);
            rig.back(rig.w, tlm::BEGIN_RESP);
          }};
}

}  // namespace

TEST_CASE("the checker names an initiator's breaches", "[common]") {
  using Wrong = std::function<void(Rig&)>;
  const auto request = [](const std::function<void(Transaction&)>& spoil) -> Wrong {
    return [spoil](Rig& rig) {
      spoil(rig.w);
      rig.forward(rig.w, tlm::BEGIN_REQ);
    };
  };
  check_all({
      {"without a memory manager",
       [](Rig& rig) {
         Transaction bare(tlm::TLM_READ_COMMAND, false);
         rig.forward(bare, tlm::BEGIN_REQ);
       }},
      {"nobody has a reference",
       [](Rig& rig) {
         rig.a.release();
         rig.forward(rig.a, tlm::BEGIN_REQ);
       }},
      {"request exclusion rule",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.forward(rig.b, tlm::BEGIN_REQ);
       }},
      {"used again before it was complete",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::END_REQ);
         rig.forward(rig.a, tlm::BEGIN_REQ);
       }},
      {"used again before it was complete",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.blocking(rig.a);
       }},
      {"began with a response status", request([](Transaction& t) { t.set_response_status(tlm::TLM_OK_RESPONSE); })},
      {"began with the DMI hint", request([](Transaction& t) { t.set_dmi_allowed(true); })},
      {"TLM_FULL_PAYLOAD_ACCEPTED", request([](Transaction& t) { t.set_gp_option(tlm::TLM_FULL_PAYLOAD_ACCEPTED); })},
      {"of 0 bytes", request([](Transaction& t) { t.set_data_length(0); })},
      {"without a data pointer", request([](Transaction& t) { t.set_data_ptr(nullptr); })},
      {"a streaming width of 0", request([](Transaction& t) { t.set_streaming_width(0); })},
      {"none of read, write, ignore", request([](Transaction& t) { t.set_command(static_cast<tlm::tlm_command>(3)); })},
      {"byte enables of length 0", request([](Transaction& t) {
         t.use_enables();
         t.set_byte_enable_length(0);
       })},
      {"neither 0 nor 0xff", request([](Transaction& t) {
         t.use_enables();
         t.enables[3] = 1;
       })},
      changed("the command was changed", [](Transaction& t) { t.set_command(tlm::TLM_READ_COMMAND); }),
      changed("the data pointer was changed", [](Transaction& t) { t.set_data_ptr(t.bytes.data() + 1); }),
      changed("the data length was changed", [](Transaction& t) { t.set_data_length(4); }),
      changed("the streaming width was changed", [](Transaction& t) { t.set_streaming_width(4); }),
      changed("place or length was changed", [](Transaction& t) { t.set_byte_enable_length(4); }),
      changed("data of a write were changed", [](Transaction& t) { t.bytes[2] = 9; }),
      changed("byte enables were changed", [](Transaction& t) { t.enables[0] = 0; }),
      {"END_RESP before BEGIN_RESP",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::END_REQ);
         rig.forward(rig.a, tlm::END_RESP);
       }},
      {"a transaction that is not open", [](Rig& rig) { rig.forward(rig.a, tlm::END_RESP); }},
      {"END_REQ on the forward path", [](Rig& rig) { rig.forward(rig.a, tlm::END_REQ); }},
      {"not initialised", [](Rig& rig) { rig.forward(rig.a, tlm::tlm_phase()); }},
      {"END_RESP lies before",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP, 10);
         rig.forward(rig.a, tlm::END_RESP, 9);
       }},
      {"TLM_UPDATED with BEGIN_REQ for BEGIN_RESP",
       [](Rig& rig) {
         rig.initiator.on_backward = [](auto&, auto& phase, auto&) { return updated(phase, tlm::BEGIN_REQ); };
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
       }},
      {"TLM_ACCEPTED for BEGIN_RESP, but the delay was changed",
       [](Rig& rig) {
         rig.initiator.on_backward = [](auto&, auto&, sc_time& delay) {
           delay += ns(1);
           return tlm::TLM_ACCEPTED;
         };
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
       }},
      {"TLM_COMPLETED for END_REQ, which can only be accepted",
       [](Rig& rig) {
         rig.initiator.on_backward = [](auto&, auto&, auto&) { return tlm::TLM_COMPLETED; };
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::END_REQ);
       }},
      {"TLM_COMPLETED for BEGIN_RESP of what was complete already",
       [](Rig& rig) {
         rig.initiator.on_backward = [&rig](Payload& payload, auto&, auto&) {
           rig.forward(payload, tlm::END_RESP);
           return tlm::TLM_COMPLETED;
         };
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
       }},
  });
}

TEST_CASE("the checker names a target's breaches", "[common]") {
  using Wrong = std::function<void(Rig&)>;
  const auto returning = [](const NonBlocking& behaviour) -> Wrong {
    return [behaviour](Rig& rig) {
      rig.target.on_forward = behaviour;
      rig.forward(rig.w, tlm::BEGIN_REQ, 5);
    };
  };
  const auto completing = [returning](const std::function<void(Payload&)>& spoil) -> Wrong {
    return returning([spoil](Payload& payload, auto&, auto&) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
      spoil(payload);
      return tlm::TLM_COMPLETED;
    });
  };
  const auto status = [](int value) {
    return [value](Payload& p) { p.set_response_status(static_cast<tlm::tlm_response_status>(value)); };
  };
  check_all({
      {"TLM_ACCEPTED for BEGIN_REQ, but the phase was changed", returning([](auto&, auto& phase, auto&) {
         phase = tlm::END_REQ;
         return tlm::TLM_ACCEPTED;
       })},
      {"TLM_ACCEPTED for BEGIN_REQ, but the delay was changed", returning([](auto&, auto&, sc_time& delay) {
         delay = sc_core::SC_ZERO_TIME;
         return tlm::TLM_ACCEPTED;
       })},
      {"TLM_UPDATED with BEGIN_REQ for BEGIN_REQ", returning([](auto&, auto&, auto&) { return tlm::TLM_UPDATED; })},
      {"TLM_UPDATED with END_RESP for BEGIN_REQ",
       returning([](auto&, auto& phase, auto&) { return updated(phase, tlm::END_RESP); })},
      {"END_REQ lies before", returning([](auto&, auto& phase, sc_time& delay) {
         delay = ns(4);
         return updated(phase, tlm::END_REQ);
       })},
      {"the status TLM_INCOMPLETE_RESPONSE", completing(status(tlm::TLM_INCOMPLETE_RESPONSE))},
      {"a status that does not exist", completing(status(7))},
      {"without byte enables", completing(status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE))},
      {"the DMI hint with an error", completing([](Payload& p) {
         p.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
         p.set_dmi_allowed(true);
       })},
      {"data of a write were changed", completing([](Payload& p) { p.get_data_ptr()[0] = 1; })},
      {"END_REQ after END_REQ",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::END_REQ);
         rig.back(rig.a, tlm::END_REQ);
       }},
      {"END_REQ after END_REQ",
       [](Rig& rig) {
         rig.target.on_forward = [&rig](Payload& payload, auto& phase, auto&) {
           rig.back(payload, tlm::END_REQ);
           return updated(phase, tlm::END_REQ);
         };
         rig.forward(rig.a, tlm::BEGIN_REQ);
       }},
      {"END_REQ after END_REQ or BEGIN_RESP",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
         rig.back(rig.a, tlm::END_REQ);
       }},
      {"BEGIN_RESP twice",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
         rig.back(rig.a, tlm::BEGIN_RESP);
       }},
      {"the status TLM_INCOMPLETE_RESPONSE",
       [](Rig& rig) {
         rig.answers = false;
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
       }},
      {"response exclusion rule",
       [](Rig& rig) {
         for (Transaction* t : {&rig.a, &rig.b}) {
           rig.forward(*t, tlm::BEGIN_REQ);
           rig.back(*t, tlm::END_REQ);
         }
         rig.back(rig.a, tlm::BEGIN_RESP);
         rig.back(rig.b, tlm::BEGIN_RESP);
       }},
      {"a transaction that is not open", [](Rig& rig) { rig.back(rig.a, tlm::BEGIN_RESP); }},
      {"BEGIN_REQ on the backward path", [](Rig& rig) { rig.back(rig.a, tlm::BEGIN_REQ); }},
      {"BEGIN_RESP lies before",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ, 7);
         rig.back(rig.a, tlm::BEGIN_RESP, 6);
       }},
      {"TLM_UPDATED for END_RESP",
       [](Rig& rig) {
         rig.forward(rig.a, tlm::BEGIN_REQ);
         rig.back(rig.a, tlm::BEGIN_RESP);
         rig.target.on_forward = [](auto&, auto&, auto&) { return tlm::TLM_UPDATED; };
         rig.forward(rig.a, tlm::END_RESP);
       }},
      {"TLM_COMPLETED for BEGIN_REQ of what was complete already",
       [](Rig& rig) {
         rig.initiator.on_backward = [](auto&, auto&, auto&) { return tlm::TLM_COMPLETED; };
         rig.target.on_forward = [&rig](Payload& payload, auto&, auto&) {
           rig.back(payload, tlm::BEGIN_RESP);
           return tlm::TLM_COMPLETED;
         };
         rig.forward(rig.a, tlm::BEGIN_REQ);
       }},
      {"TLM_COMPLETED for BEGIN_REQ after BEGIN_RESP",
       [](Rig& rig) {
         rig.target.on_forward = [&rig](Payload& payload, auto&, auto&) {
           rig.back(payload, tlm::BEGIN_RESP);
           return tlm::TLM_COMPLETED;
         };
         rig.forward(rig.a, tlm::BEGIN_REQ);
       }},
  });
}

TEST_CASE("the checker names breaches of blocking, direct and debug calls", "[common]") {
  using Wrong = std::function<void(Rig&)>;
  const auto direct = [](const std::function<void(tlm::tlm_dmi&)>& spoil) -> Wrong {
    return [spoil](Rig& rig) {
      static unsigned char byte = 0;
      rig.target.on_direct = [spoil](tlm::tlm_dmi& dmi) {
        dmi.set_dmi_ptr(&byte);
        dmi.set_start_address(0);
        dmi.set_end_address(100);
        dmi.allow_read();
        spoil(dmi);
        return true;
      };
      tlm::tlm_dmi dmi;
      CHECK(rig.initiator.out->get_direct_mem_ptr(rig.a, dmi));
    };
  };
  check_all({
      {"the status TLM_INCOMPLETE_RESPONSE",
       [](Rig& rig) {
         rig.target.on_blocking = [](auto&, auto&) {};
         rig.blocking(rig.a);
       }},
      {"ended before it began",
       [](Rig& rig) {
         rig.target.on_blocking = [](Payload& payload, sc_time& delay) {
           payload.set_response_status(tlm::TLM_OK_RESPONSE);
           delay = ns(4);
         };
         rig.blocking(rig.a);
       }},
      {"a transaction object that is in another",
       [](Rig& rig) {
         int calls = 0;
         rig.target.on_blocking = [&](Payload& payload, auto&) {
           if (++calls == 1) rig.blocking(payload);
           payload.set_response_status(tlm::TLM_OK_RESPONSE);
         };
         rig.blocking(rig.a);
       }},
      {"a transaction object in a blocking call was sent as another",
       [](Rig& rig) {
         rig.target.on_blocking = [&](Payload& payload, auto&) {
           rig.forward(payload, tlm::BEGIN_REQ);
           payload.set_response_status(tlm::TLM_OK_RESPONSE);
         };
         rig.blocking(rig.a);
       }},
      {"data of a write were changed",
       [](Rig& rig) {
         rig.target.on_blocking = [](Payload& payload, auto&) {
           payload.get_data_ptr()[7] ^= 1;
           payload.set_response_status(tlm::TLM_OK_RESPONSE);
         };
         rig.blocking(rig.w);
       }},
      {"granted without a pointer", direct([](tlm::tlm_dmi& dmi) { dmi.set_dmi_ptr(nullptr); })},
      {"a range without the address", direct([](tlm::tlm_dmi& dmi) { dmi.set_end_address(63); })},
      {"not the access that was asked for", direct([](tlm::tlm_dmi& dmi) { dmi.allow_write(); })},
      {"the range ends before it begins",
       [](Rig& rig) {
         rig.target.on_direct = [](tlm::tlm_dmi& dmi) {
           dmi.set_start_address(100);
           dmi.set_end_address(99);
           return false;
         };
         tlm::tlm_dmi dmi;
         rig.initiator.out->get_direct_mem_ptr(rig.a, dmi);
       }},
      {"neither reading nor writing",
       [](Rig& rig) {
         Transaction ignored(tlm::TLM_IGNORE_COMMAND);
         tlm::tlm_dmi dmi;
         rig.initiator.out->get_direct_mem_ptr(ignored, dmi);
       }},
      {"invalidation of direct memory: the range ends before it begins",
       [](Rig& rig) { rig.target.in->invalidate_direct_mem_ptr(2, 1); }},
      {"more bytes were reported",
       [](Rig& rig) {
         rig.target.debug = 9;
         rig.initiator.out->transport_dbg(rig.a);
       }},
      {"without a data pointer",
       [](Rig& rig) {
         rig.a.set_data_ptr(nullptr);
         rig.initiator.out->transport_dbg(rig.a);
       }},
  });
}

}  // namespace heddle::test::common_protocol_breach_test
