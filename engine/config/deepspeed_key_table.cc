// DeepSpeed 0.19.8's keys (runtime/config.py, zero/config.py, offload_config.py,
// precision_config.py, lr_schedules.py, monitor/, profiling/, comm/, compile/,
// runtime/model_checkpointing/, runtime/tensor_parallel/), and older names that files in the wild
// still use.
#include "engine/config/deepspeed_key_table.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spillway {
namespace {

using enum KeyTreatment;

constexpr absl::string_view kOtherOptimizer = "no supported optimizer knows it";
constexpr absl::string_view kOtherNumbers = "it changes the numbers of the run";
constexpr absl::string_view kOtherData = "it changes which data is seen, and when";
constexpr absl::string_view kOtherModel = "it changes the model that is trained";
constexpr absl::string_view kDataParallelOnly = "ranks share the work by data only";

// Where keys of one block share an answer, a row has the first's pointer and the others' names.
std::vector<KeyRule>* RuleForEachKey(std::initializer_list<KeyRule> rows) {
  auto* rules = new std::vector<KeyRule>;
  for (KeyRule rule : rows) {
    const size_t names = rule.pointer.rfind('/') + 1;
    const std::string block = rule.pointer.substr(0, names), row = rule.pointer.substr(names);
    for (absl::string_view name : absl::StrSplit(row, ' ')) {
      rule.pointer = absl::StrCat(block, name);
      rules->push_back(rule);
    }
  }
  return rules;
}

}  // namespace

const std::vector<KeyRule>& DeepSpeedKeyRules() {
  static const std::vector<KeyRule>& rules = *RuleForEachKey({
      // What is trained, in which precision, and where its state lives.
      {"/train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
       "gradient_clipping",
       kHonoured},

      {"/optimizer", kBlock},
      {"/optimizer/type", kHonoured},
      {"/optimizer/legacy_fusion", kNoEffect},
      {"/optimizer/adam_w_mode", kNoEffect},  // DeepSpeed reads it in params only
      {"/optimizer/params", kBlock},
      {"/optimizer/params/lr betas eps weight_decay momentum dampening nesterov adam_w_mode",
       kHonoured},
      {"/optimizer/params/torch_adam fused foreach capturable differentiable set_grad_none",
       kNoEffect},
      {"/optimizer/params/bias_correction", kHonoured},
      {"/optimizer/params/amsgrad", kOnly, "[false]", "it keeps one more state a parameter"},
      {"/optimizer/params/maximize", kOnly, "[false]", kOtherNumbers},
      {"/optimizer/params/fp32_optimizer_states", kOnly, "[true]",
       "moments are what --moments says"},
      {"/optimizer/params/max_grad_norm", kOnly, "[0]", "use gradient_clipping"},
      {"/optimizer/params/max_coeff min_coeff freeze_step var_freeze_step var_update_scaler",
       kHonoured},
      {"/optimizer/params/cuda_aware comm_backend_name local_step_scaler local_step_clipper",
       kNoEffect},
      // Of optimizers whose type is refused.
      {"/optimizer/params/coeff_beta factor_max factor_min factor_threshold eps_inside_sqrt "
       "muon_lr "
       "adam_lr ns_method",
       kRefused,
       {},
       kOtherOptimizer},

      {"/scheduler", kBlock},
      {"/scheduler/type", kHonoured},
      {"/scheduler/params", kBlock},
      {"/scheduler/params/warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps "
       "warmup_min_ratio cos_min_ratio",
       kHonoured},
      {"/scheduler/params/last_batch_iteration", kOnly, "[-1]", "a run resumes by --resume"},
      {"/scheduler/params/lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate "
       "lr_range_test_staircase cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size "
       "cycle_second_step_size cycle_first_stair_count cycle_second_stair_count decay_step_size "
       "cycle_momentum cycle_min_mom cycle_max_mom",
       kHonoured},
      {"/scheduler/params/decay_mom_rate", kOnly, "[0]", "betas would leave 0 to 1"},

      {"/bf16", kBlock},
      {"/bf16/enabled", kHonoured},
      {"/bf16/immediate_grad_update", kPlan},
      // Either way: a gradient that is not finite stops the run, and nothing else differs.
      {"/bf16/check_grad_overflow check_overflow", kNoEffect},
      {"/bf16/bf16_master_weights_and_grads bf16_optimizer_states", kHonoured},
      {"/torch_autocast", kBlock},
      {"/torch_autocast/enabled", kHonoured},
      {"/torch_autocast/dtype lower_precision_safe_modules", kNoEffect},
      {"/bfloat16", kBlock},
      {"/bfloat16/enabled", kHonoured},

      {"/fp16", kBlock},
      {"/fp16/enabled loss_scale initial_scale_power loss_scale_window hysteresis "
       "consecutive_hysteresis min_loss_scale",
       kHonoured},
      {"/fp16/auto_cast fused_mode opt_level", kNoEffect},
      {"/fp16/fp16_master_weights_and_grads", kOnly, "[false]", "masters are fp32"},

      {"/zero_optimization", kBlock},
      {"/zero_optimization/stage", kHonoured},
      {"/zero_optimization/offload_param", kBlock},
      {"/zero_optimization/offload_param/device nvme_path", kHonoured},
      {"/zero_optimization/offload_param/buffer_count buffer_size max_in_cpu pin_memory", kPlan},
      {"/zero_optimization/offload_optimizer", kBlock},
      {"/zero_optimization/offload_optimizer/device nvme_path", kHonoured},
      {"/zero_optimization/offload_optimizer/buffer_count buffer_size max_in_cpu pin_memory "
       "pipeline "
       "pipeline_read pipeline_write fast_init ratio super_offload convert_grad_on_cpu "
       "cpuadam_cores_perc",
       kPlan},
      {"/zero_optimization/cpu_offload cpu_offload_param cpu_offload_params", kHonoured},
      {"/zero_optimization/cpu_offload_use_pin_memory", kPlan},
      // Where the block once stood in Hugging Face's documents.
      {"/zero_optimization/aio", kBlock},
      {"/zero_optimization/aio/block_size queue_depth intra_op_parallelism thread_count",
       kHonoured},
      {"/zero_optimization/aio/single_submit overlap_events use_gds", kPlan},
      {"/zero_optimization/contiguous_gradients reduce_scatter reduce_bucket_size "
       "all_reduce_bucket_size use_multi_rank_bucket_allreduce allgather_partitions "
       "allgather_bucket_size overlap_comm sub_group_size prefetch_bucket_size "
       "param_persistence_threshold model_persistence_threshold max_live_parameters "
       "max_reuse_distance module_granularity_threshold use_all_reduce_for_fetch_params "
       "allgather_sequential partition_stream_chunk_size",
       kPlan},
      {"/zero_optimization/gather_16bit_weights_on_model_save", kNoEffect},
      {"/zero_optimization/stage3_prefetch_bucket_size stage3_param_persistence_threshold "
       "stage3_model_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance "
       "stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params "
       "stage3_allgather_sequential stage3_partition_stream_chunk_size",
       kPlan},
      {"/zero_optimization/stage3_gather_16bit_weights_on_model_save "
       "stage3_gather_fp16_weights_on_model_save load_from_fp32_weights elastic_checkpoint "
       "pipeline_loading_checkpoint ignore_unused_parameters",
       kNoEffect},
      {"/zero_optimization/legacy_stage1 round_robin_gradients parameter_alignment "
       "compute_grad_norm "
       "zero_hpz_partition_size mics_shard_size mics_hierarchical_params_gather "
       "memory_efficient_linear override_module_apply leaf_module",
       kPlan},
      {"/zero_optimization/leaf_module/classes names name_suffixes", kPlan},
      {"/zero_optimization/log_trace_cache_warnings enable_sanity_checks", kNoEffect},
      {"/zero_optimization/save_muon_momentum_buffer_in_memory", kPlan},
      {"/zero_optimization/zero_quantized_weights zero_quantized_nontrainable_weights "
       "zero_quantized_gradients",
       kOnly, "[false]", kOtherNumbers},
      {"/zero_optimization/zeropp_loco_param", kRefused, {}, "gradients are never quantised"},
      {"/zero_optimization/zenflow", kRefused, {}, "it delays the updates of some gradients"},

      {"/aio", kBlock},
      {"/aio/block_size queue_depth intra_op_parallelism thread_count", kHonoured},
      {"/aio/single_submit overlap_events use_gds", kPlan},

      {"/activation_checkpointing", kBlock},
      {"/activation_checkpointing/partition_activations cpu_checkpointing "
       "contiguous_memory_optimization number_checkpoints synchronize_checkpoint_boundary",
       kPlan},
      {"/activation_checkpointing/profile", kNoEffect},

      // Communication, monitoring, checkpoints, and the features that DeepSpeed has besides.
      {"/communication_data_type", kHonoured},
      {"/seq_parallel_communication_data_type seq_parallel_comm_data_type", kOnly, R"(["fp32"])",
       kOtherNumbers},
      {"/fp32_allreduce", kNoEffect},
      // Gradients are divided before they are summed, or between: in fp32 their mean is the same.
      {"/prescale_gradients gradient_predivide_factor", kNoEffect},
      {"/gradient_allreduce_op", kOnly, R"(["mean"])", kOtherNumbers},
      {"/sparse_gradients", kOnly, "[false]", "gradients are dense"},
      {"/data_types", kBlock},
      {"/data_types/grad_accum_dtype", kOnly, R"(["fp32"])", "gradients accumulate in fp32"},
      {"/data_types/param_dtype buffer_dtype", kOnly, "[null]",
       "bf16 and fp16 blocks say the precision"},
      {"/data_types/keep_in_fp32_modules", kOnly, R"(["auto", []])",
       "the models here have no buffers in another precision"},
      {"/disable_allgather allgather_size", kPlan},
      {"/managed_gradient_accumulation", kOnly, "[true]", "the engine counts the micro-batches"},

      {"/zero_allow_untested_optimizer zero_force_ds_cpu_optimizer steps_per_print "
       "wall_clock_breakdown memory_breakdown dump_state disable_python_gc log_level timers",
       kNoEffect},
      {"/timers/throughput", kNoEffect},
      {"/timers/throughput/enabled synchronized", kNoEffect},
      {"/vocabulary_size flops_profiler", kNoEffect},
      {"/flops_profiler/enabled recompute_fwd_factor profile_step module_depth top_modules "
       "detailed "
       "output_file",
       kNoEffect},
      {"/comms_logger", kNoEffect},
      {"/comms_logger/enabled prof_all prof_ops verbose debug", kNoEffect},
      {"/tensorboard", kBlock},
      {"/tensorboard/enabled output_path job_name", kHonoured},
      {"/wandb", kNoEffect},
      {"/wandb/enabled group team project", kNoEffect},
      {"/comet", kNoEffect},
      {"/comet/enabled samples_log_interval project workspace api_key experiment_name "
       "experiment_key "
       "online mode",
       kNoEffect},
      {"/csv_monitor", kNoEffect},
      {"/csv_monitor/enabled output_path job_name", kNoEffect},
      {"/monitor_config checkpoint", kNoEffect},
      {"/checkpoint/tag_validation use_node_local_storage parallel_write", kNoEffect},
      {"/checkpoint/load_universal", kOnly, "[false]",
       "DeepSpeed's checkpoints are not read; --resume continues a run of Spillway's"},
      {"/checkpoint/parallel_write/pipeline_stage", kNoEffect},
      {"/checkpoint/checkpoint_serialization writer", kNoEffect},
      {"/checkpoint/writer/type io_buffer_size io_buffer_double io_multiplier show_statistics "
       "data_parallel decoupled",
       kNoEffect},
      {"/nebula datastates_ckpt use_node_local_storage", kNoEffect},
      {"/dataloader_drop_last", kNoEffect},  // samples follow each other without an end
      {"/compile", kPlan},
      {"/compile/enabled backend kwargs deepcompile autoep_non_moe free_activation "
       "free_activation_threshold offload_activation offload_activation_pin_memory "
       "offload_opt_states double_buffer symmetric_memory debug_log offload_parameters "
       "sync_before_reduce sync_after_reduce sync_before_allgather sync_after_allgather "
       "keep_int_input_tensors keep_all_input_tensors passes",
       kPlan},
      {"/graph_harvesting autotuning", kPlan},

      {"/amp", kUnlessEnabled, {}, "Apex' mixed precision; use a bf16 or fp16 block"},
      {"/elasticity", kUnlessEnabled, {}, "it chooses the batch size; set train_batch_size"},
      {"/data_efficiency curriculum_learning", kUnlessEnabled, {}, kOtherData},
      {"/progressive_layer_drop", kUnlessEnabled, {}, kOtherModel},
      {"/eigenvalue quantize_training", kUnlessEnabled, {}, kOtherNumbers},
      {"/hybrid_engine", kUnlessEnabled, {}, "it serves generation during training"},
      {"/sparse_attention compression_training", kUnlessEnabled, {}, kOtherModel},
      {"/weight_quantization", kUnlessEnabled, {}, kOtherNumbers},
      {"/expert_parallel", kUnlessEnabled, {}, kOtherModel},
      {"/tensor_parallel", kBlock},
      {"/tensor_parallel/autotp_size", kOnly, "[0, 1]", kDataParallelOnly},
      {"/tensor_parallel/tensor_parallel", kBlock},
      {"/tensor_parallel/tensor_parallel/tp_size", kOnly, "[1]", kDataParallelOnly},
      {"/tensor_parallel/tensor_parallel/tp_grain_size mpu tp_group", kNoEffect},
      {"/tensor_parallel/tp", kBlock},
      {"/tensor_parallel/tp/tp_size", kOnly, "[1]", kDataParallelOnly},
      {"/tensor_parallel/tp/tp_grain_size mpu tp_group", kNoEffect},
      {"/tensor_parallel/dtype", kNoEffect},
      {"/tensor_parallel/tp_overlap_comm", kPlan},
      {"/tensor_parallel/vocab_parallel_lm_head", kOnly, "[false]", kDataParallelOnly},
      {"/tensor_parallel/vocab_parallel_ce_backend injection_policy_tuple partition_config "
       "preset_model",
       kNoEffect},
      {"/tensor_parallel/keep_module_on_host", kPlan},
      {"/tensor_parallel/replace_with_kernel_inject kernel_inject", kNoEffect},
      {"/pipeline", kBlock},
      {"/pipeline/stages", kOnly, "[1]", kDataParallelOnly},
      {"/pipeline/partition", kNoEffect},
      {"/pipeline/seed_layers", kOnly, "[false]", kOtherNumbers},
      {"/pipeline/activation_checkpoint_interval pipe_partitioned grad_partitioned use_reentrant",
       kPlan},
      {"/sequence_parallel_size", kOnly, "[1]", kDataParallelOnly},
      {"/use_data_before_expert_parallelism", kOnly, "[false]", kOtherModel},
  });
  return rules;
}

}  // namespace spillway
