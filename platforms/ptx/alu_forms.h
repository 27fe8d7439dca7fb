// The table of all forms: families add theirs to it.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/lane_alu.h"

namespace heddle::ptx {

class FormList {
 public:
  FormList();

  // `slots`: "destinations = sources", types as PTX writes them, with spaces between; "b16*2": a vector of two; "?" at
  // the end: may be left out. "pred pred? = f32 f32 pred?". Throws std::logic_error for what is not so, and for a
  // second form of the same text.
  AluForm& add(const std::string& text, AluClass group, AluFunction function, const std::string& slots);

  const AluForm* find(const std::string& text) const;
  const std::deque<AluForm>& forms() const { return forms_; }
  // Of the opcode; empty: it is none of registers alone.
  const std::vector<const AluForm*>& of_opcode(const std::string& opcode) const;

 private:
  std::deque<AluForm> forms_;
  std::unordered_map<std::string, const AluForm*> by_text_;
  std::unordered_map<std::string, std::vector<const AluForm*>> by_opcode_;
};

void add_integer_forms(FormList& list);
void add_carry_forms(FormList& list);
void add_bit_forms(FormList& list);
void add_move_forms(FormList& list);
void add_float_forms(FormList& list);
void add_compare_forms(FormList& list);
void add_convert_forms(FormList& list);
void add_half_forms(FormList& list);
void add_special_forms(FormList& list);
void add_narrow_forms(FormList& list);
void add_video_forms(FormList& list);

}  // namespace heddle::ptx
