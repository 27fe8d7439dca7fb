// What a scenario file may contain, as tables. The reader checks files against them, and docs/scenario.schema.json,
// which `heddle show scenario-schema` writes, says the same to editors.
#pragma once

#include <string>
#include <vector>

#include "common/params.h"
#include "program/map_reader.h"

namespace heddle::scenario {

constexpr int kScenarioVersion = 1;

const MapSpec& scenario_spec();
const MapSpec& gpu_spec();
const MapSpec& kernel_spec();
const MapSpec& cycles_spec();
const MapSpec& demand_spec();
const MapSpec& cluster_spec();
const MapSpec& raster_spec();
const MapSpec& stream_spec();
const MapSpec& submission_spec();
const MapSpec& kernel_op_spec();
const MapSpec& copy_op_spec();
const MapSpec& fill_op_spec();
const MapSpec& graph_spec();
const MapSpec& graph_node_spec();
const MapSpec& graph_op_spec();
const MapSpec& group_op_spec();
const MapSpec& collective_op_spec();
const MapSpec& load_spec();
const MapSpec& tpc_spec();
const MapSpec& queue_spec();
const MapSpec& queue_initial_spec();
const MapSpec& subcontext_spec();
const MapSpec& share_spec();
const MapSpec& expect_spec();
const MapSpec& memory_spec();
const MapSpec& init_spec();
const MapSpec& tensor_spec();
const MapSpec& im2col_spec();
const MapSpec& expect_memory_spec();
const MapSpec& expect_fault_spec();
const MapSpec& expect_no_progress_spec();
const MapSpec& figure_spec();
const MapSpec& figure_input_spec();
// All of these, and those of programs (program/step_table.h).
std::vector<const MapSpec*> all_specs();

// The tables as JSON schema. `presets`: names of machines; `machine`: the parameters below `gpu`, `run`: others.
std::string scenario_json_schema(const std::vector<std::string>& presets, const std::vector<ParamEntry>& machine,
                                 const std::vector<ParamEntry>& run);

}  // namespace heddle::scenario
