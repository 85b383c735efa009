# Lines of the product made wrong, one at a time: a name, the source, what stands there, what the
# mutant has instead, and the reason for which a seed of the simulation (or a unit test) must notice
# it: a regular expression, of a line that is said then.

# --- Commits: what is made durable, and in which order.
spillway_sim_mutant(no_data_sync swap/store/swap_store.cc
  [==[absl::Status status = file->Sync(); !status.ok()]==]
  [==[absl::Status status; !status.ok()]==]
  [==[DATA_LOSS.*not those that were written]==])
spillway_sim_mutant(no_directory_sync io/file_system.cc
  [==[return files.SyncDirectory(ParentPath(name));]==]
  [==[return absl::OkStatus();]==]
  [==[the commit of step [0-9]+ (does not open|is gone): NOT_FOUND|instead of that of]==])
spillway_sim_mutant(no_manifest_sync io/file_system.cc
  [==[RETURN_IF_ERROR(file->Sync());]==]
  [==[]==]
  [==[is not a Spillway manifest|the manifest has [0-9]+ bytes|checksum does not match]==])
spillway_sim_mutant(manifest_in_place io/file_system.cc
  [==[if (status.ok()) status = files.Rename(temporary, name);]==]
  [==[if (status.ok() && (void(files.Remove(name)), true)) status = files.Rename(temporary, name);]==]
  [==[the commit of step [0-9]+ (does not open|is gone): NOT_FOUND|instead of that of]==])
spillway_sim_mutant(manifest_before_data swap/store/swap_store.cc
  [==[  // Data before the manifest that names it: the order is what makes a commit whole.]==]
  [==[  RETURN_IF_ERROR(WriteFileAtomically(*file_system_, commit.manifest_path, *text));]==]
  [==[DATA_LOSS.*not those that were written|it was cut]==])
spillway_sim_mutant(new_file_not_synced swap/store/swap_store.cc
  [==[RETURN_IF_ERROR(file_system_->SyncDirectory(directories_[i]));]==]
  [==[]==]
  [==[swap file .* is missing]==])
spillway_sim_mutant(resume_not_synced swap/store/swap_store.cc
  [==[if (!read_only) RETURN_IF_ERROR(files.SyncDirectory(directory));]==]
  [==[]==]
  [==[the commit of step [0-9]+ (does not open|is gone): NOT_FOUND|instead of that of]==])
spillway_sim_mutant(temporary_left io/file_system.cc
  [==[(void)files.Remove(temporary);]==]
  [==[]==]
  [==[manifest.tmp-[0-9a-f]+ was left behind]==])

# --- Slots and generations.
spillway_sim_mutant(committed_slot_overwritten swap/store/swap_store.cc
  [==[return tile.committed_slot == 0 ? 1 : 0;]==]
  [==[return tile.committed_slot == 1 ? 1 : 0;]==]
  [==[swap_store.cc:[0-9]+: check failed: .*slot != state.committed_slot]==])
spillway_sim_mutant(committed_slot_forgotten swap/store/swap_store.cc
  [==[for (TileState& tile : unit) tile.committed_slot = tile.planes[0].slot;]==]
  [==[for (TileState& tile : unit) tile.committed_slot = 0;]==]
  [==[DATA_LOSS.*not those that were written]==])
spillway_sim_mutant(generation_unchecked io/checksum.cc
  [==[std::memcpy(bytes + 16, &identity.generation, 8);]==]
  [==[std::memset(bytes + 16, 0, 8);]==]
  [==[the bytes of one generation and place pass for those of another]==])
spillway_sim_mutant(place_unchecked io/checksum.cc
  [==[std::memcpy(bytes + 8, &identity.tile, 8);]==]
  [==[std::memset(bytes + 8, 0, 8);]==]
  [==[the bytes of one generation and place pass for those of another]==])
spillway_sim_mutant(checksum_unchecked swap/store/swap_store.cc
  [==[if (checksum == state.checksum) return absl::OkStatus();]==]
  [==[return absl::OkStatus();]==]
  [==[the bytes of one generation and place pass for those of another]==])
spillway_sim_mutant(fetch_unverified swap/mover/prefetch.cc
  [==[? store_->Verify(unit, transfer.piece, 0, transfer.request.data)]==]
  [==[? absl::OkStatus()]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(ends_while_a_worker_checks swap/mover/mover.cc
  [==[passes_.at_rest() && !prefetch_.busy() && engine_->pending() == 0]==]
  [==[passes_.at_rest() && engine_->pending() == 0]==]
  [==[ended by signal 11]==])
spillway_sim_mutant(update_unverified swap/mover/tile_work.cc
  [==[RETURN_IF_ERROR(store_->Verify(unit, tile, p, job.planes[p]));]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(gradient_unverified swap/mover/tile_work.cc
  [==[RETURN_IF_ERROR(store_->VerifyGradientChecksum(unit, tile, checksum));]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])

spillway_sim_mutant(input_unverified swap/mover/prefetch.cc
  [==[: store_->VerifyPiece(unit, transfer.piece, transfer.request.data);]==]
  [==[: absl::OkStatus();]==]
  [==[computes with other inputs than its forward]==])

# --- Transfers.
spillway_sim_mutant(short_result_ignored io/block_queue.cc
  [==[if (got_bytes == block.size_bytes) return false;]==]
  [==[if (got_bytes > 0) return false;]==]
  [==[DATA_LOSS.*not those that were written]==])
spillway_sim_mutant(short_result_not_aligned io/block_queue.cc
  [==[const uint64_t moved_bytes = got_bytes - got_bytes % request.file->alignment_bytes();]==]
  [==[const uint64_t moved_bytes = got_bytes;]==]
  [==[without a fault: .*\(EINVAL\)]==])
spillway_sim_mutant(interruption_is_an_error io/block_queue.cc
  [==[if (result < 0 && result != -EINTR && result != -EAGAIN) {]==]
  [==[if (result < 0 && result != -EAGAIN) {]==]
  [==[without a fault: .*\(EINTR\)]==])
spillway_sim_mutant(error_ignored io/block_queue.cc
  [==[    Fail(request, TransferError(block, static_cast<int>(-result)));
    return false;]==]
  [==[    return false;]==]
  [==[DATA_LOSS.*not those that were written]==])

# --- Who may go before whom.
spillway_sim_mutant(updates_not_held swap/mover/passes.cc
  [==[if (!pass.updates() || pass.version <= held_after_) return false;]==]
  [==[return false;]==]
  [==[swap_store.cc:[0-9]+: check failed: !plane.stale]==])
spillway_sim_mutant(rounded_gradient_not_taken_home swap/mover/tile_work.cc
  [==[if (job.gradient != job.sums) {]==]
  [==[if (job.gradient == nullptr) {]==]
  [==[gradients have another norm]==])
spillway_sim_mutant(commit_does_not_wait swap/mover/committer.cc
  [==[  if (passes_->AnyAwaitedBy(run_->version)) return;]==]
  [==[]==]
  [==[swap_store.cc:[0-9]+: check failed: !plane.stale]==])
spillway_sim_mutant(memory_not_saved swap/mover/tile_work.cc
  [==[if (!store_->IsStale(unit, tile, plane)) continue;]==]
  [==[if (store_->CurrentGeneration(unit, tile, plane) > 0) continue;]==]
  [==[swap_store.cc:[0-9]+: check failed: !plane.stale]==])
spillway_sim_mutant(fetch_of_another_version swap/mover/prefetch.cc
  [==[if (buffer->state() == BufferState::kAllocated && buffers_->CanFetch(*buffer)) {]==]
  [==[if (buffer->state() == BufferState::kAllocated &&
        (buffer->use == BufferUse::kWeights || buffers_->CanFetch(*buffer))) {]==]
  [==[sim: the run hangs]==])
spillway_sim_mutant(input_read_before_it_is_written swap/mover/buffers.cc
  [==[saved_[buffer.unit] == buffer.version;]==]
  [==[true;]==]
  [==[swap_store.cc:[0-9]+: check failed: state.slot >= 0]==])
spillway_sim_mutant(input_released_before_it_is_written swap/mover/prefetch.cc
  [==[  buffer.Become(BufferState::kWriting);]==]
  [==[  buffer.Become(BufferState::kWriting);
  buffer.span.bytes = 0;  // in nobody's way]==]
  [==[plane activation.*not those that were written]==])
spillway_sim_mutant(addresses_not_free swap/mover/buffers.cc
  [==[    if (!AddressesFree(i)) continue;
]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(turn_memory_given_back_with_tiles_in_it swap/mover/tile_buffers.cc
  [==[      all = false;
      continue;]==]
  [==[]==]
  [==[DATA_LOSS.*not those that were written|tile_buffers.cc:[0-9]+: check failed: free_at_turn_]==])
spillway_sim_mutant(turn_takes_the_tiles_of_another_step swap/mover/tile_buffers.cc
  [==[  if (all) ahead_.clear();]==]
  [==[]==]
  [==[tile_buffers.cc:[0-9]+: check failed: ahead->then == nullptr]==])
spillway_sim_mutant(update_settled_before_written swap/mover/passes.cc
  [==[  const bool last = ++pass.tiles_computed == pass.num_tiles;]==]
  [==[  const bool last = ++pass.tiles_computed == pass.num_tiles;
  if (last && pass.updates()) buffers_->Settle(pass.unit, pass.version);
  if (last && pass.updates()) --pass.version;]==]
  [==[buffers.cc:[0-9]+: check failed: .*settled_]==])
spillway_sim_mutant(update_before_its_gradient swap/mover/passes.cc
  [==[return !pass.deferred || pass.begun || !passes_.AnyRound(pass.unit);]==]
  [==[return true;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(weights_released_before_their_update swap/mover/op_gate.cc
  [==[} else if (!buffer.feeds_update && buffer.use != BufferUse::kTurnTiles) {]==]
  [==[} else if (buffer.use != BufferUse::kTurnTiles) {]==]
  [==[passes.cc:[0-9]+: check failed: pass.weights->state]==])
spillway_sim_mutant(deferred_update_forgotten_at_a_flush swap/mover/passes.cc
  [==[pass.fills_forward = pass.deferred && !flushing_;]==]
  [==[pass.fills_forward = pass.deferred;]==]
  [==[sim: the run hangs]==])
spillway_sim_mutant(abandoned_buffers_in_the_way swap/mover/op_gate.cc
  [==[    if (buffer->abandoned) continue;
    if (buffer->first_op > op) break;]==]
  [==[    if (buffer->first_op > op) break;]==]
  [==[sim: the run hangs|check failed: a buffer of unit .* may not go from]==])
spillway_sim_mutant(part_of_a_step_taken_for_whole swap/mover/op_gate.cc
  [==[const auto later = [&](int64_t other) { return other > version; };]==]
  [==[const auto later = [&](int64_t other) { return other > version + 1; };]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(updates_under_way_taken_for_none swap/mover/passes.cc
  [==[return passes_.newest_version().value_or(0) > version;]==]
  [==[return false;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(nobody_woken swap/mover/mover_thread.cc
  [==[    inbox_.push_back(std::move(task));
  }
  engine_->Wake();]==]
  [==[    inbox_.push_back(std::move(task));
  }]==]
  [==[sim: the run hangs]==])
spillway_sim_mutant(descriptor_leaked swap/store/swap_store.cc
  [==[SwapStore::~SwapStore() = default;]==]
  [==[SwapStore::~SwapStore() {
  for (auto& file : files_) (void)file.release();
}]==]
  [==[check failed: .*open_handles|files are still open]==])
spillway_sim_mutant(failed_creation_leaves_files swap/store/swap_store.cc
  [==[    store->Remove();  // only the files that this call made]==]
  [==[]==]
  [==[a store that could not be made left]==])

# --- A forward that begins before all of its unit is updated.
spillway_sim_mutant(begins_before_its_tiles_are_there swap/mover/passes.cc
  [==[if (job.first && --pass.first_left == 0) FirstTilesComputed(pass);]==]
  [==[if (job.first && pass.first_left-- == pass.first_tiles) FirstTilesComputed(pass);]==]
  [==[computes with wrong weights]==])
spillway_sim_mutant(begins_with_the_tiles_of_another_program swap/mover/passes.cc
  [==[return first_version_ == version && first_there_ == read;]==]
  [==[return first_version_ == version && first_there_.unit == read.unit;]==]
  [==[computes with wrong weights]==])
spillway_sim_mutant(rest_written_where_others_are_by_now swap/mover/tile_work.cc
  [==[if (pass.destination != nullptr && (job.first || !pass.fills_first)) {]==]
  [==[if (pass.destination != nullptr) {]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(gradient_rounded_over_the_one_before swap/mover/passes.cc
  [==[if (pass.kind == PassKind::kRound) return !ahead_of_update_[pass.unit];]==]
  [==[if (pass.kind == PassKind::kRound) return true;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(rest_waits_for_the_next_gradient swap/mover/passes.cc
  [==[return !pass.deferred || pass.begun || !passes_.AnyRound(pass.unit);]==]
  [==[return !pass.deferred || !passes_.AnyRound(pass.unit);]==]
  [==[sim: the run hangs]==])

# --- A device with memory of its own: each thing that waits for another there.
spillway_sim_mutant(computes_before_its_weights_are_there swap/mover/op_gate.cc
  [==[context_.lane->OpWaitsFor(weights.filled);]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(sums_before_their_addresses_are_free swap/mover/op_gate.cc
  [==[buffers_->WaitForAddresses(sums, context_.lane->ops_stream());]==]
  [==[sums.used = true;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(weights_from_memory_before_their_addresses_are_free swap/mover/prefetch.cc
  [==[  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);
  if (tiles > 0) {]==]
  [==[  buffer.used = true;
  if (tiles > 0) {]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(weights_from_the_store_before_their_addresses_are_free swap/mover/prefetch.cc
  [==[  Buffer& buffer = *transfer.buffer;
  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);]==]
  [==[  Buffer& buffer = *transfer.buffer;
  buffer.used = true;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(updated_weights_before_their_addresses_are_free swap/mover/device_tiles.cc
  [==[buffers_->WaitForAddresses(*pass.destination, StreamId::kToDevice);]==]
  [==[pass.destination->used = true;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(measured_without_the_weights_that_live_there swap/mover/tile_work.cc
  [==[return (pass.reads_state() || pass.kind == PassKind::kSave)]==]
  [==[return (pass.updates() || pass.kind == PassKind::kSave)]==]
  [==[not all tiles were measured, or not as they are updated]==])
spillway_sim_mutant(gradient_brought_before_it_is_complete swap/mover/device_tiles.cc
  [==[context_.lane->Wait(StreamId::kToHost, std::exchange(pass.sums_complete, nullptr));]==]
  [==[]==]
  [==[gradients have another norm|is not the oracle's]==])
spillway_sim_mutant(last_use_forgotten swap/mover/buffers.cc
  [==[for (const DeviceEvent& event : {buffer.filled, buffer.last_use}) {]==]
  [==[for (const DeviceEvent& event : {buffer.filled}) {]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(stage_used_again_too_early swap/mover/prefetch.cc
  [==[  context_.lane->WhenDone(StreamId::kToDevice, [this, stage = transfer.stage](absl::Status) {
    free_stages_.push_back(stage);
    SPILLWAY_CHECK(free_stages_.size() <= plan_.stage_spans.size());
  });]==]
  [==[  free_stages_.push_back(transfer.stage);]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(gradient_used_before_it_is_there swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::CopiedIn>(StreamId::kToHost, job);]==]
  [==[WhenDone<&TileWork::CopiedIn>(StreamId::kToDevice, job);]==]
  [==[gradients have another norm|is not the oracle's]==])
spillway_sim_mutant(settled_before_the_device_has_updated_it swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::UpdatedInPlace>(StreamId::kToHost, job);]==]
  [==[WhenDone<&TileWork::UpdatedInPlace>(StreamId::kToDevice, job);]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(what_lives_on_the_device_not_saved swap/mover/device_tiles.cc
  [==[  } else if (pass.kind != PassKind::kRound) {]==]
  [==[  } else if (pass.kind == PassKind::kUpdate) {]==]
  [==[is not the oracle's]==])
spillway_sim_mutant(tile_buffer_used_again_too_early swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::WriteEnded>(StreamId::kToDevice, job);]==]
  [==[WhenDone<&TileWork::WriteEnded>(StreamId::kToHost, job);]==]
  [==[is not the oracle's]==])
spillway_sim_mutant(filled_before_the_last_tile swap/mover/prefetch.cc
  [==[if (buffer.transfers_left == 1) buffer.filled]==]
  [==[if (!buffer.filled) buffer.filled]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(input_saved_before_it_is_there swap/mover/op_gate.cc
  [==[context_.lane->WhenDone(context_.lane->ops_stream(),]==]
  [==[context_.lane->WhenDone(StreamId::kToHost,]==]
  [==[plane activation.*not those that were written]==])
spillway_sim_mutant(ends_while_the_device_works swap/mover/mover.cc
  [==[  lane_->Synchronize().IgnoreError();]==]
  [==[]==]
  [==[test_device.cc:[0-9]+: check failed: idle\(\)]==])

# --- Streamed updates.
spillway_sim_mutant(streamed_update_before_its_planes_are_there swap/mover/device_tiles.cc
  [==[  lane.Wait(StreamId::kToHost, lane.Record(StreamId::kToDevice));]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(streamed_weights_before_their_addresses_are_free swap/mover/device_tiles.cc
  [==[buffers_->WaitForAddresses(*pass.destination, StreamId::kToHost);]==]
  [==[pass.destination->used = true;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(streamed_weights_used_before_they_are_there swap/mover/passes.cc
  [==[    destination->filled = streamed;]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(sums_left_before_they_are_rounded swap/mover/passes.cc
  [==[    buffer->last_use = streamed;]==]
  [==[    if (used == &pass.weights) buffer->last_use = streamed;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(weights_left_before_they_are_taken swap/mover/passes.cc
  [==[    buffer->last_use = streamed;]==]
  [==[    if (used == &pass.sums) buffer->last_use = streamed;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(streamed_planes_used_before_they_are_back swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::Streamed>(StreamId::kToHost, job);]==]
  [==[WhenDone<&TileWork::Streamed>(StreamId::kToDevice, job);]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])
spillway_sim_mutant(device_tile_used_again_too_early swap/mover/tile_work.cc
  [==[    device_tiles_->UpdateStreamed(job);]==]
  [==[    device_tiles_->UpdateStreamed(job);
    const int device_tile = job.device_tile;
    device_tiles_->GiveBackMemory(job);
    job.device_tile = device_tile;]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm|check failed: free_tiles_]==])
spillway_sim_mutant(streamed_update_unverified swap/mover/tile_work.cc
  [==[job.status = Verify(job);]==]
  [==[]==]
  [==[computes with wrong weights|is not the oracle's|gradients have another norm]==])

# --- What a manifest says.
spillway_sim_mutant(manifest_checksum_unchecked swap/store/manifest.cc
  [==[if (fields[1] != absl::StrCat(absl::Hex(Checksum(body.data(), body.size()), absl::kZeroPad16))) {]==]
  [==[if (false) {]==]
  [==[resume found the commit|instead of that of|came back with the text]==])
spillway_sim_mutant(slot_not_read swap/store/manifest.cc
  [==[  tile->slot = static_cast<uint32_t>(slot);]==]
  [==[]==]
  [==[DATA_LOSS.*not those that were written]==])
spillway_sim_mutant(slots_read_as_one swap/store/manifest.cc
  [==[!ReadUint(json[2], kMaxFileBytes, &tile->slot_offsets[1])]==]
  [==[!ReadUint(json[1], kMaxFileBytes, &tile->slot_offsets[1])]==]
  [==[without a fault: .*names a store of one slot]==])
spillway_sim_mutant(one_generation_for_all_planes swap/store/manifest.cc
  [==[if (!ReadUint(generations[i], UINT64_MAX, &tile->generations[i])) return false;]==]
  [==[if (!ReadUint(generations[0], UINT64_MAX, &tile->generations[i])) return false;]==]
  [==[DATA_LOSS.*not those that were written]==])
spillway_sim_mutant(engine_state_not_read swap/store/manifest.cc
  [==[!ReadString(body["engine_state"], &manifest->engine_state)) {]==]
  [==[!body["engine_state"].is_string()) {]==]
  [==[came back with the text]==])
spillway_sim_mutant(frozen_units_read_as_others swap/store/manifest.cc
  [==[    units.push_back(std::move(unit));]==]
  [==[    unit.frozen = false;
    units.push_back(std::move(unit));]==]
  [==[malformed|does not have]==])
spillway_sim_mutant(all_tiles_read_as_in_the_first_file swap/store/manifest.cc
  [==[  tile->file = static_cast<uint32_t>(file);]==]
  [==[]==]
  [==[DATA_LOSS]==])

# --- Plans: what fits, and what lives where.
spillway_sim_mutant(what_does_not_fit_is_kept swap/plan/planner.cc
  [==[if (!Fits(builder_.Measure(next))) return false;]==]
  [==[]==]
  [==[planner.cc:[0-9]+: check failed: Fits]==])
spillway_sim_mutant(only_the_first_budgets_fit swap/plan/planner.cc
  [==[    return !fits;]==]
  [==[    return false;]==]
  [==[no plan: RESOURCE_EXHAUSTED]==])
spillway_sim_mutant(last_plane_lives_nowhere swap/plan/plan_builder.cc
  [==[placement.last_nvme_plane = optimizer ? planes : (weight ? 1 : 0);]==]
  [==[placement.last_nvme_plane = optimizer ? planes - 1 : (weight ? 1 : 0);]==]
  [==[check_plan.cc:[0-9]+: check failed: placement.InStore]==])
spillway_sim_mutant(every_stay_feeds_the_update swap/plan/plan_builder.cc
  [==[!added.empty() &&
                          added.back() == stay.last_op;]==]
  [==[!added.empty();]==]
  [==[check_plan.cc:[0-9]+: check failed: !stay->feeds_update]==])
spillway_sim_mutant(taken_over_at_another_place swap/plan/plan_builder.cc
  [==[if (stay.feeds_update && other >= 0) stay.span.offset = plan.weight_stays[other].span.offset;]==]
  [==[(void)other;]==]
  [==[check_plan.cc:[0-9]+: check failed: takes_over->span.offset]==])
spillway_sim_mutant(sums_take_half_of_what_they_need swap/plan/plan_builder.cc
  [==[(plan.rounded_sums[unit] ? gradient_bytes : sizeof(float));]==]
  [==[gradient_bytes;]==]
  [==[check_plan.cc:[0-9]+: check failed: stay->span.bytes]==])

# --- Buffers by their lifetimes.
spillway_sim_mutant(gap_smaller_than_the_buffer swap/plan/stay_packing.cc
  [==[if (buffer.offset + buffer.bytes <= neighbour->offset) break;]==]
  [==[if (buffer.offset < neighbour->offset) break;]==]
  [==[check_plan.cc:[0-9]+: check failed: .*Overlaps]==])
spillway_sim_mutant(neighbours_at_the_same_place swap/plan/stay_packing.cc
  [==[buffer.offset = std::max(buffer.offset, neighbour->offset + RoundUp(neighbour->bytes));]==]
  [==[buffer.offset = std::max(buffer.offset, neighbour->offset);]==]
  [==[check_plan.cc:[0-9]+: check failed: .*Overlaps]==])
spillway_sim_mutant(lifetime_without_its_last_operation swap/plan/stay_packing.cc
  [==[std::min(buffer.lifetime.last - first + 1, period);]==]
  [==[std::min(std::max(buffer.lifetime.last - first, 1), period);]==]
  [==[check_plan.cc:[0-9]+: check failed: .*Overlaps]==])
spillway_sim_mutant(last_buffer_behind_the_arena swap/plan/stay_packing.cc
  [==[used = std::max(used, buffer.offset + RoundUp(buffer.bytes));]==]
  [==[used = std::max(used, buffer.offset);]==]
  [==[check_plan.cc:[0-9]+: check failed: span.offset \+ span.bytes]==])
spillway_sim_mutant(buffers_not_aligned swap/plan/stay_packing.cc
  [==[uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }]==]
  [==[uint64_t RoundUp(uint64_t bytes) { return bytes + 2; }]==]
  [==[check_plan.cc:[0-9]+: check failed: .*offset % 4096]==])

# --- Workers. (The simulation has none: its jobs are events.)
spillway_sim_mutant(job_lost swap/mover/worker_pool.cc
  [==[if (executor_ != nullptr) return executor_->Run(std::move(job));]==]
  [==[if (executor_ != nullptr) return;]==]
  [==[sim: the run hangs]==])
spillway_unit_mutant(job_needed_first_comes_last swap/mover/worker_pool.cc
  [==[std::upper_bound(jobs_.begin(), jobs_.end(), needed_by_op, later)]==]
  [==[jobs_.end()]==]
  [==[FAILED.*JobsRunInOrderAfterThoseThatAreNeededFirst]==] swap/mover/worker_pool_test.cc)
spillway_unit_mutant(later_of_two_jobs_first swap/mover/worker_pool.cc
  [==[return op < other.needed_by_op; };
  jobs_.insert(std::upper_bound(]==]
  [==[return op <= other.needed_by_op; };
  jobs_.insert(std::upper_bound(]==]
  [==[FAILED.*JobsRunInOrderAfterThoseThatAreNeededFirst]==] swap/mover/worker_pool_test.cc)
spillway_unit_mutant(last_job_taken_first swap/mover/worker_pool.cc
  [==[      job = std::move(jobs_.front().run);
      jobs_.pop_front();]==]
  [==[      job = std::move(jobs_.back().run);
      jobs_.pop_back();]==]
  [==[FAILED.*JobsRunInOrderAfterThoseThatAreNeededFirst]==] swap/mover/worker_pool_test.cc)
spillway_unit_mutant(jobs_left_at_the_end swap/mover/worker_pool.cc
  [==[if (jobs_.empty()) return;]==]
  [==[if (stopping_) return;]==]
  [==[FAILED.*TheEndWaitsForAllJobs]==] swap/mover/worker_pool_test.cc)

# --- Who reads a store at rest, and copies it.
spillway_sim_mutant(reader_unverified swap/store/store_reader.cc
  [==[    RETURN_IF_ERROR(store.Verify(unit, tile, plane, data));]==]
  [==[]==]
  [==[read by itself, is not the oracle's]==])
spillway_sim_mutant(reader_puts_planes_at_the_same_place swap/store/store_reader.cc
  [==[buffer + layout.PlaneOffset(unit, tile, plane);]==]
  [==[buffer;]==]
  [==[read by itself, is not the oracle's]==])
spillway_sim_mutant(reader_goes_beyond_the_planes_of_a_unit swap/store/store_reader.cc
  [==[  last_plane = std::min(last_plane, layout.NumPlanes(unit));]==]
  [==[]==]
  [==[swap_store.cc:[0-9]+: check failed: first_plane >= 0]==])
spillway_sim_mutant(reader_takes_the_first_plane_for_all swap/store/store_reader.cc
  [==[store.CurrentTile(unit, tile, plane, plane + 1);]==]
  [==[store.CurrentTile(unit, tile, 0, 1);]==]
  [==[DATA_LOSS.*not those that were written]==])
spillway_unit_mutant(piece_in_place_read_from_its_block swap/store/store_reader.cc
  [==[std::memcpy(data + done, blocks + (at - begin), wanted);]==]
  [==[std::memcpy(data + done, blocks, wanted);]==]
  [==[FAILED.*InPlace]==] swap/store/in_place_tiles_test.cc)
spillway_unit_mutant(padding_in_place_not_cleared swap/store/store_reader.cc
  [==[  std::memset(data, 0, store.layout().PlaneBytes(unit, tile, 0));]==]
  [==[]==]
  [==[FAILED.*InPlace]==] swap/store/in_place_tiles_test.cc)
spillway_sim_mutant(window_unverified swap/mover/tile_window.cc
  [==[      RETURN_IF_ERROR(store->VerifyChecksum(unit, index, plane, tile.checksums_.back()));]==]
  [==[]==]
  [==[is not the oracle's]==])
spillway_sim_mutant(copy_under_another_generation swap/mover/tile_window.cc
  [==[                                  store->CurrentGeneration(unit, index, plane));]==]
  [==[                                  store->CurrentGeneration(unit, index, plane) + 1);]==]
  [==[does not open: DATA_LOSS.*/sim/copy/tiles]==])
spillway_sim_mutant(tile_said_to_be_at_the_start swap/mover/whole_store.cc
  [==[    view.first_parameter = store->layout().TileBegin(index);]==]
  [==[]==]
  [==[is not the oracle's]==])
spillway_sim_mutant(copied_before_it_is_written swap/mover/whole_store.cc
  [==[return window->Finish();]==]
  [==[return absl::OkStatus();]==]
  [==[swap_store.cc:[0-9]+: check failed: !plane.stale]==])
