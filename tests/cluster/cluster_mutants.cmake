# The same of clusters: what is mutated is engine/run/, whose library is built of many sources at
# once. So all of its objects are named, but for the one that a copy stands for.
file(GLOB run_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/run/*.cc)
add_library(spillway_run_apart OBJECT EXCLUDE_FROM_ALL ${run_sources})
target_link_libraries(spillway_run_apart PUBLIC spillway_engine_core)
target_compile_options(spillway_run_apart PRIVATE -O1 -g0)
set_target_properties(spillway_run_apart PROPERTIES UNITY_BUILD OFF)
spillway_precompile(spillway_run_apart)
add_library(spillway_cluster_mutant_main OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/sim/mutant_main.cc)
target_link_libraries(spillway_cluster_mutant_main PUBLIC spillway_engine_core)
target_compile_options(spillway_cluster_mutant_main PRIVATE ${SPILLWAY_MUTANT_OPTIONS})
target_compile_definitions(spillway_cluster_mutant_main PRIVATE
  SPILLWAY_RUN_SEEDS=spillway::RunClusterSeeds)

# spillway_cluster_mutant(NAME SOURCE FIND REPLACE REASON), SOURCE in engine/run.
function(spillway_cluster_mutant name source find replace reason)
  set(folder ${PROJECT_BINARY_DIR}/mutants/cluster_${name})
  spillway_mutated(${folder} engine/run/${source} "${find}" "${replace}")
  set(target spillway_cluster_mutant_${name})
  add_executable(${target} EXCLUDE_FROM_ALL ${folder}/${source}
    $<FILTER:$<TARGET_OBJECTS:spillway_run_apart>,EXCLUDE,/${source}>
    $<TARGET_OBJECTS:spillway_cluster_mutant_main> $<TARGET_OBJECTS:spillway_sim_parts>
    $<TARGET_OBJECTS:spillway_cluster_parts>)
  target_link_libraries(${target} PRIVATE spillway_engine_core)
  target_compile_options(${target} PRIVATE -Wno-unused -O1 -g0)
  spillway_precompile(${target})
  spillway_mutant_test(cluster/mutant/${name} ${target} "${reason}")
endfunction()

# --- The two phases of a commit.
spillway_cluster_mutant(all_rename_at_once rank_commit.cc
  [==[if (ranks.rank() == 0) status = Rename(directory, 0, files);]==]
  [==[status = Rename(directory, ranks.rank(), files);]==]
  [==[an error without a fault|has parts of several ranks, and the one in .* is missing]==])
spillway_cluster_mutant(decided_before_all_parts_are_durable rank_commit.cc
  [==[ASSIGN_OR_RETURN(const std::vector<int64_t> all, AllGatherCount(ranks, own));]==]
  [==[const std::vector<int64_t> all = {own};]==]
  [==[has parts of several ranks, and the one in .* is missing]==])
spillway_cluster_mutant(one_part_that_is_missing_does_not_matter rank_commit.cc
  [==[if (worst != kDurable) {]==]
  [==[if (own != kDurable) {]==]
  [==[has parts of several ranks, and the one in .* is missing]==])
spillway_cluster_mutant(decision_not_synced rank_commit.cc
  [==[return files.SyncDirectory(directory);]==]
  [==[return absl::OkStatus();]==]
  [==[has parts of several ranks, and the one in .* is missing|the commit of step [0-9]+ is gone|is none of those that may be there]==])
spillway_cluster_mutant(others_do_not_wait_for_the_decision rank_commit.cc
  [==[RETURN_IF_ERROR(Agree(ranks, status));]==]
  [==[RETURN_IF_ERROR(status);]==]
  [==[has parts of several ranks, and the one in .* is missing]==])
spillway_cluster_mutant(waiting_part_not_taken_up rank_commit.cc
  [==[if (part == prepared) return Rename(directory, rank, files);]==]
  [==[]==]
  [==[has parts of several ranks, and the one in .* is missing]==])
spillway_cluster_mutant(what_was_not_decided_stays rank_commit.cc
  [==[files.Remove(prepared).IgnoreError();]==]
  [==[]==]
  [==[prepared was left behind]==])
spillway_cluster_mutant(no_fresh_commit_id rank_commit.cc
  [==[ASSIGN_OR_RETURN(const uint64_t random, files.RandomNumber());]==]
  [==[const uint64_t random = 0;]==]
  [==[is none of those that may be there]==])

# --- What is found, and what goes for it. (That what was found is durable first is done twice on most
# ways; run_storage_test holds each.)
spillway_cluster_mutant(older_one_taken_where_the_newest_cannot_be_read commit_finder.cc
  [==[        if (!IsBad(status)) return CannotTell(status, run.directory);]==]
  [==[]==]
  [==[the run goes on from step]==])
spillway_cluster_mutant(part_that_cannot_be_read_is_missing committed_run.cc
  [==[return none ? absl::StatusOr<std::string>("") : run.status();]==]
  [==[return "";]==]
  [==[has parts of several ranks, and the one in .* is missing|can't read its part]==])
spillway_cluster_mutant(undecided_part_of_the_first_rank_stays run_storage.cc
  [==[SettleCommit(output, options.rank, several ? found.state->part.commit_id : "", files)]==]
  [==[several ? SettleCommit(output, options.rank, found.state->part.commit_id, files) : absl::OkStatus()]==]
  [==[prepared was left behind]==])
spillway_cluster_mutant(swap_of_a_waiting_part_removed run_storage.cc
  [==[for (const std::string& path : {manifest_path(), prepared_manifest_path()}) {]==]
  [==[for (const std::string& path : {manifest_path()}) {]==]
  [==[has parts of several ranks, and the one in .* is missing]==])
spillway_cluster_mutant(removal_not_durable run_directory.cc
  [==[SyncIntoParent(file_system, own.path()).IgnoreError();]==]
  [==[]==]
  [==[is of no commit]==])

# --- Moves, and runs that follow each other.
spillway_cluster_mutant(former_swap_removed_before_the_move_is_committed run_storage.cc
  [==[    const absl::Status made =]==]
  [==[    if (any) RemoveFormerSwap();
    const absl::Status made =]==]
  [==[does not open: DATA_LOSS.*swap file /sim/]==])
spillway_cluster_mutant(former_swap_stays run_storage.cc
  [==[if (any) RemoveFormerSwap();]==]
  [==[]==]
  [==[is of no commit]==])
spillway_cluster_mutant(former_ranks_stay former_ranks.cc
  [==[if (!absl::SimpleAtoi(name, &rank) || rank < ranks) continue;]==]
  [==[if (!absl::SimpleAtoi(name, &rank) || rank <= ranks) continue;]==]
  [==[is of a rank that there is no more]==])

# --- Copies. (What hardly a seed needs is held by commit_copies_test and run_storage_ranks_test.)
spillway_cluster_mutant(copy_not_durable_before_older_ones_go commit_copies.cc
  [==[      RETURN_IF_ERROR(SyncCopy(copy));]==]
  [==[]==]
  [==[of [0-9] copies [0-9] are there|the copy of step [0-9]+ is gone]==])
spillway_cluster_mutant(copied_commit_not_awaited run_commit.cc
  [==[const absl::Status own = copies->Wait();]==]
  [==[const absl::Status own;]==]
  [==[commit_copies.cc:[0-9]+: check failed: !busy_|does not see the other ranks' parts]==])
spillway_cluster_mutant(copy_removed_before_its_manifest copy_folder.cc
  [==[  RETURN_IF_ERROR(folder.own->RemoveFiles({folder.files[0]}).status());]==]
  [==[]==]
  [==[remove /sim/copies/.*ENOTEMPTY|the commit in /sim/copies/.* does not open]==])
spillway_cluster_mutant(copy_without_its_manifest_not_durable copy_folder.cc
  [==[  RETURN_IF_ERROR(folder.own->Sync());]==]
  [==[]==]
  [==[the commit in /sim/copies/.* does not open]==])
# Of several ranks.
spillway_cluster_mutant(copy_without_a_part_counts commit_copies.cc
  [==[    if (absl::IsNotFound(part.status())) return false;]==]
  [==[]==]
  [==[of [0-9] copies [0-9] are there|the copy of step [0-9]+ is gone|an error without a fault]==])
spillway_cluster_mutant(older_copies_go_before_all_ranks_have_the_newer run_commit.cc
  [==[const absl::Status made = Agree(*world, own);]==]
  [==[const absl::Status made = own;]==]
  [==[of [0-9] copies [0-9] are there|the copy of step [0-9]+ is gone|an error without a fault]==])
spillway_cluster_mutant(a_copy_is_gone_on_from_by_the_first_rank_alone commit_finder.cc
  [==[  if (first.directory != first_output && rank < part.ranks) {]==]
  [==[  if (false) {]==]
  [==[an error without a fault|is missing, damaged|is not the oracle's]==])
