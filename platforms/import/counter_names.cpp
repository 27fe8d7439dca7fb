#include "import/counter_names.h"

#include <algorithm>
#include <array>
#include <map>

namespace heddle::import {
namespace {

using arch::DemandUnit;

constexpr std::array kNcu = {
    CounterName{"dram__bytes_read.sum", DemandUnit::dram_read, 1, 0},
    CounterName{"dram__bytes_write.sum", DemandUnit::dram_write, 1, 0},
    CounterName{"lts__t_sectors_srcunit_tex_op_read.sum", DemandUnit::l2_read, 32, 0},
    CounterName{"lts__t_sectors_op_read.sum", DemandUnit::l2_read, 32, 1},
    CounterName{"lts__t_sectors_srcunit_tex_op_write.sum", DemandUnit::l2_write, 32, 0},
    CounterName{"lts__t_sectors_op_write.sum", DemandUnit::l2_write, 32, 1},
    CounterName{"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", DemandUnit::shared, 128, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", DemandUnit::fp32, 2, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", DemandUnit::fp32, 2, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", DemandUnit::fp32, 2, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", DemandUnit::fp64, 2, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", DemandUnit::fp64, 2, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", DemandUnit::fp64, 2, 0},
    CounterName{"smsp__sass_thread_inst_executed_op_integer_pred_on.sum", DemandUnit::int32, 1, 0},
    CounterName{"smsp__inst_executed_pipe_xu.sum", DemandUnit::sfu, 32, 0},
    CounterName{"sm__ops_path_tensor_src_fp16_dst_fp16.sum", DemandUnit::tensor_f16, 1, 0},
    CounterName{"sm__ops_path_tensor_src_fp16_dst_fp32.sum", DemandUnit::tensor_f16, 1, 0},
    CounterName{"sm__ops_path_tensor_src_bf16_dst_fp32.sum", DemandUnit::tensor_f16, 1, 0},
    CounterName{"sm__ops_path_tensor_src_tf32_dst_fp32.sum", DemandUnit::tensor_tf32, 1, 0},
    CounterName{"sm__ops_path_tensor_src_fp8_dst_fp16.sum", DemandUnit::tensor_f8, 1, 0},
    CounterName{"sm__ops_path_tensor_src_fp8_dst_fp32.sum", DemandUnit::tensor_f8, 1, 0},
    CounterName{"sm__ops_path_tensor_src_int8.sum", DemandUnit::tensor_f8, 1, 0},
    CounterName{"sm__ops_path_tensor_src_fp64.sum", DemandUnit::tensor_f64, 1, 0},
};

constexpr std::array kRocprof = {
    CounterName{"FETCH_SIZE", DemandUnit::dram_read, 1024, 0},
    CounterName{"WRITE_SIZE", DemandUnit::dram_write, 1024, 0},
    CounterName{"TCC_READ_sum", DemandUnit::l2_read, 128, 0},
    CounterName{"TCC_WRITE_sum", DemandUnit::l2_write, 128, 0},
    CounterName{"SQ_LDS_IDX_ACTIVE", DemandUnit::shared, 128, 0},
    CounterName{"SQ_INSTS_VALU_ADD_F32", DemandUnit::fp32, 128, 0},
    CounterName{"SQ_INSTS_VALU_MUL_F32", DemandUnit::fp32, 128, 0},
    CounterName{"SQ_INSTS_VALU_FMA_F32", DemandUnit::fp32, 128, 0},
    CounterName{"SQ_INSTS_VALU_TRANS_F32", DemandUnit::sfu, 64, 0},
    CounterName{"SQ_INSTS_VALU_ADD_F64", DemandUnit::fp64, 128, 0},
    CounterName{"SQ_INSTS_VALU_MUL_F64", DemandUnit::fp64, 128, 0},
    CounterName{"SQ_INSTS_VALU_FMA_F64", DemandUnit::fp64, 128, 0},
    CounterName{"SQ_INSTS_VALU_INT32", DemandUnit::int32, 64, 0},
    CounterName{"SQ_INSTS_VALU_MFMA_MOPS_F16", DemandUnit::tensor_f16, 512, 0},
    CounterName{"SQ_INSTS_VALU_MFMA_MOPS_BF16", DemandUnit::tensor_f16, 512, 0},
    CounterName{"SQ_INSTS_VALU_MFMA_MOPS_F32", DemandUnit::tensor_tf32, 512, 0},
    CounterName{"SQ_INSTS_VALU_MFMA_MOPS_F64", DemandUnit::tensor_f64, 512, 0},
    CounterName{"SQ_INSTS_VALU_MFMA_MOPS_F8", DemandUnit::tensor_f8, 512, 0},
    CounterName{"SQ_INSTS_VALU_MFMA_MOPS_I8", DemandUnit::tensor_f8, 512, 0},
};

template <class Table>
const CounterName* find(const Table& table, std::string_view name) {
  const auto at = std::find_if(table.begin(), table.end(), [name](const CounterName& its) { return its.name == name; });
  return at == table.end() ? nullptr : &*at;
}

}  // namespace

const CounterName* ncu_counter(std::string_view name) { return find(kNcu, name); }
const CounterName* rocprof_counter(std::string_view name) { return find(kRocprof, name); }

double unit_factor(std::string_view unit) {
  static const std::map<std::string_view, double> kUnits = {
      {"", 1}, {"byte", 1}, {"sector", 1}, {"inst", 1}, {"Kbyte", 1e3}, {"Mbyte", 1e6}, {"Gbyte", 1e9}, {"Tbyte", 1e12},
  };
  const auto found = kUnits.find(unit);
  return found == kUnits.end() ? 0 : found->second;
}

}  // namespace heddle::import
