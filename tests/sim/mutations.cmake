# Lines of the product made wrong, one at a time: a name, the source, what stands there, and
# what the mutant has instead. Each must be noticed by a seed of the simulation.

# --- Commits: what is made durable, and in which order.
spillway_sim_mutant(no_data_sync swap/store/swap_store.cc
  [==[absl::Status status = file->Sync(); !status.ok()]==]
  [==[absl::Status status; !status.ok()]==])
spillway_sim_mutant(no_directory_sync io/file_system.cc
  [==[return files.SyncDirectory(ParentPath(name));]==]
  [==[return absl::OkStatus();]==])
spillway_sim_mutant(no_manifest_sync io/file_system.cc
  [==[RETURN_IF_ERROR(file->Sync());]==]
  [==[]==])
spillway_sim_mutant(manifest_in_place io/file_system.cc
  [==[if (status.ok()) status = files.Rename(temporary, name);]==]
  [==[if (status.ok() && (void(files.Remove(name)), true)) status = files.Rename(temporary, name);]==])
spillway_sim_mutant(manifest_before_data swap/store/swap_store.cc
  [==[  // Data before the manifest that names it: the order is what makes a commit whole.]==]
  [==[  RETURN_IF_ERROR(WriteFileAtomically(*file_system_, commit.manifest_path, *text));]==])
spillway_sim_mutant(new_file_not_synced swap/store/swap_store.cc
  [==[RETURN_IF_ERROR(file_system_->SyncDirectory(directories_[i]));]==]
  [==[]==])
spillway_sim_mutant(resume_not_synced swap/store/swap_store.cc
  [==[if (!read_only) RETURN_IF_ERROR(files.SyncDirectory(beside));]==]
  [==[]==])
spillway_sim_mutant(temporary_left io/file_system.cc
  [==[(void)files.Remove(temporary);]==]
  [==[]==])

# --- Slots and generations.
spillway_sim_mutant(committed_slot_overwritten swap/store/swap_store.cc
  [==[return tile.committed_slot == 0 ? 1 : 0;]==]
  [==[return tile.committed_slot == 1 ? 1 : 0;]==])
spillway_sim_mutant(committed_slot_forgotten swap/store/swap_store.cc
  [==[for (TileState& tile : unit) tile.committed_slot = tile.planes[0].slot;]==]
  [==[for (TileState& tile : unit) tile.committed_slot = 0;]==])
spillway_sim_mutant(generation_unchecked io/checksum.cc
  [==[std::memcpy(bytes + 16, &identity.generation, 8);]==]
  [==[std::memset(bytes + 16, 0, 8);]==])
spillway_sim_mutant(place_unchecked io/checksum.cc
  [==[std::memcpy(bytes + 8, &identity.tile, 8);]==]
  [==[std::memset(bytes + 8, 0, 8);]==])
spillway_sim_mutant(checksum_unchecked swap/store/swap_store.cc
  [==[if (checksum == state.checksum) return absl::OkStatus();]==]
  [==[return absl::OkStatus();]==])
spillway_sim_mutant(fetch_unverified swap/mover/prefetch.cc
  [==[? store_->Verify(unit, transfer.piece, 0, transfer.request.data)]==]
  [==[? absl::OkStatus()]==])
spillway_sim_mutant(ends_while_a_worker_checks swap/mover/mover.cc
  [==[passes_.at_rest() && !prefetch_.busy() && engine_->pending() == 0]==]
  [==[passes_.at_rest() && engine_->pending() == 0]==])
spillway_sim_mutant(update_unverified swap/mover/tile_work.cc
  [==[RETURN_IF_ERROR(store_->Verify(unit, tile, p, task.planes[p]));]==]
  [==[]==])
spillway_sim_mutant(gradient_unverified swap/mover/tile_work.cc
  [==[RETURN_IF_ERROR(store_->VerifyGradientChecksum(unit, tile, checksum));]==]
  [==[]==])

spillway_sim_mutant(input_unverified swap/mover/prefetch.cc
  [==[: store_->VerifyPiece(unit, transfer.piece, transfer.request.data);]==]
  [==[: absl::OkStatus();]==])

# --- Transfers.
spillway_sim_mutant(short_result_ignored io/block_queue.cc
  [==[if (got_bytes == block.size_bytes) return false;]==]
  [==[if (got_bytes > 0) return false;]==])
spillway_sim_mutant(short_result_not_aligned io/block_queue.cc
  [==[const uint64_t moved_bytes = got_bytes - got_bytes % request.file->alignment_bytes();]==]
  [==[const uint64_t moved_bytes = got_bytes;]==])
spillway_sim_mutant(interruption_is_an_error io/block_queue.cc
  [==[if (result < 0 && result != -EINTR && result != -EAGAIN) {]==]
  [==[if (result < 0 && result != -EAGAIN) {]==])
spillway_sim_mutant(error_ignored io/block_queue.cc
  [==[    Fail(request, TransferError(block, static_cast<int>(-result)));
    return false;]==]
  [==[    return false;]==])

# --- Who may go before whom.
spillway_sim_mutant(updates_not_held swap/mover/passes.cc
  [==[if (!pass.updates() || pass.version <= held_after_) return false;]==]
  [==[return false;]==])
spillway_sim_mutant(rounded_gradient_not_taken_home swap/mover/tile_work.cc
  [==[if (task.gradient != task.sums) {]==]
  [==[if (task.gradient == nullptr) {]==])
spillway_sim_mutant(commit_does_not_wait swap/mover/committer.cc
  [==[  if (passes_->AnyAwaitedBy(run_->version)) return;]==]
  [==[]==])
spillway_sim_mutant(memory_not_saved swap/mover/tile_work.cc
  [==[if (!store_->IsStale(unit, tile, plane)) continue;]==]
  [==[if (store_->CurrentGeneration(unit, tile, plane) > 0) continue;]==])
spillway_sim_mutant(fetch_of_another_version swap/mover/prefetch.cc
  [==[if (buffer->state == BufferState::kAllocated && buffers_->CanFetch(*buffer)) {]==]
  [==[if (buffer->state == BufferState::kAllocated &&
        (buffer->use == BufferUse::kWeights || buffers_->CanFetch(*buffer))) {]==])
spillway_sim_mutant(input_read_before_it_is_written swap/mover/buffers.cc
  [==[saved_[buffer.unit] == buffer.version;]==]
  [==[true;]==])
spillway_sim_mutant(input_released_before_it_is_written swap/mover/prefetch.cc
  [==[  buffer.state = BufferState::kWriting;]==]
  [==[  buffer.state = BufferState::kWriting;
  buffer.span.bytes = 0;  // in nobody's way]==])
spillway_sim_mutant(addresses_not_free swap/mover/buffers.cc
  [==[    if (!AddressesFree(i)) continue;
]==]
  [==[]==])
spillway_sim_mutant(boundary_memory_given_back_with_tiles_in_it swap/mover/tile_buffers.cc
  [==[      all = false;
      continue;]==]
  [==[]==])
spillway_sim_mutant(boundary_takes_the_tiles_of_another_step swap/mover/tile_buffers.cc
  [==[  if (all) ahead_.clear();]==]
  [==[]==])
spillway_sim_mutant(update_settled_before_written swap/mover/passes.cc
  [==[  const bool last = ++pass.tiles_computed == pass.num_tiles;]==]
  [==[  const bool last = ++pass.tiles_computed == pass.num_tiles;
  if (last && pass.updates()) buffers_->Settle(pass.unit, pass.version);
  if (last && pass.updates()) --pass.version;]==])
spillway_sim_mutant(update_before_its_gradient swap/mover/passes.cc
  [==[return !pass.deferred || !passes_.AnyRound(pass.unit);]==]
  [==[return true;]==])
spillway_sim_mutant(weights_released_before_their_update swap/mover/op_gate.cc
  [==[} else if (!buffer.feeds_update && buffer.use != BufferUse::kBoundaryTiles) {]==]
  [==[} else if (buffer.use != BufferUse::kBoundaryTiles) {]==])
spillway_sim_mutant(deferred_update_forgotten_at_a_flush swap/mover/passes.cc
  [==[pass.fills_forward = pass.deferred && !flushing_;]==]
  [==[pass.fills_forward = pass.deferred;]==])
spillway_sim_mutant(abandoned_buffers_in_the_way swap/mover/op_gate.cc
  [==[    if (buffer->abandoned) continue;
    if (buffer->first_op > op) break;]==]
  [==[    if (buffer->first_op > op) break;]==])
spillway_sim_mutant(part_of_a_step_taken_for_whole swap/mover/op_gate.cc
  [==[const auto later = [&](int64_t other) { return other > version; };]==]
  [==[const auto later = [&](int64_t other) { return other > version + 1; };]==])
spillway_sim_mutant(updates_under_way_taken_for_none swap/mover/passes.cc
  [==[return passes_.newest_version().value_or(0) > version;]==]
  [==[return false;]==])
spillway_sim_mutant(nobody_woken swap/mover/mover_thread.cc
  [==[    inbox_.push_back(std::move(task));
  }
  engine_->Wake();]==]
  [==[    inbox_.push_back(std::move(task));
  }]==])
spillway_sim_mutant(descriptor_leaked swap/store/swap_store.cc
  [==[SwapStore::~SwapStore() = default;]==]
  [==[SwapStore::~SwapStore() {
  for (auto& file : files_) (void)file.release();
}]==])
spillway_sim_mutant(failed_creation_leaves_files swap/store/swap_store.cc
  [==[    store->Remove();  // only the files that this call made]==]
  [==[]==])

# --- A device with memory of its own: each thing that waits for another there.
spillway_sim_mutant(computes_before_its_weights_are_there swap/mover/op_gate.cc
  [==[context_.lane->OpWaitsFor(weights.filled);]==]
  [==[]==])
spillway_sim_mutant(sums_before_their_addresses_are_free swap/mover/op_gate.cc
  [==[buffers_->WaitForAddresses(sums, context_.lane->ops_stream());]==]
  [==[sums.used = true;]==])
spillway_sim_mutant(weights_from_memory_before_their_addresses_are_free swap/mover/prefetch.cc
  [==[  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);
  if (tiles > 0) {]==]
  [==[  buffer.used = true;
  if (tiles > 0) {]==])
spillway_sim_mutant(weights_from_the_store_before_their_addresses_are_free swap/mover/prefetch.cc
  [==[  Buffer& buffer = *transfer.buffer;
  buffers_->WaitForAddresses(buffer, StreamId::kToDevice);]==]
  [==[  Buffer& buffer = *transfer.buffer;
  buffer.used = true;]==])
spillway_sim_mutant(updated_weights_before_their_addresses_are_free swap/mover/device_tiles.cc
  [==[buffers_->WaitForAddresses(*pass.destination, StreamId::kToDevice);]==]
  [==[pass.destination->used = true;]==])
spillway_sim_mutant(gradient_brought_before_it_is_complete swap/mover/device_tiles.cc
  [==[context_.lane->Wait(StreamId::kToHost, std::exchange(pass.sums_complete, nullptr));]==]
  [==[]==])
spillway_sim_mutant(last_use_forgotten swap/mover/buffers.cc
  [==[for (const DeviceEvent& event : {buffer.filled, buffer.last_use}) {]==]
  [==[for (const DeviceEvent& event : {buffer.filled}) {]==])
spillway_sim_mutant(stage_used_again_too_early swap/mover/prefetch.cc
  [==[  context_.lane->WhenDone(StreamId::kToDevice, [this, stage = transfer.stage](absl::Status) {
    free_stages_.push_back(stage);
  });]==]
  [==[  free_stages_.push_back(transfer.stage);]==])
spillway_sim_mutant(gradient_used_before_it_is_there swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::CopiedIn>(StreamId::kToHost, task);]==]
  [==[WhenDone<&TileWork::CopiedIn>(StreamId::kToDevice, task);]==])
spillway_sim_mutant(settled_before_the_device_has_updated_it swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::UpdatedInPlace>(StreamId::kToHost, task);]==]
  [==[WhenDone<&TileWork::UpdatedInPlace>(StreamId::kToDevice, task);]==])
spillway_sim_mutant(what_lives_on_the_device_not_saved swap/mover/device_tiles.cc
  [==[  } else if (pass.kind != PassKind::kRound) {]==]
  [==[  } else if (pass.kind == PassKind::kUpdate) {]==])
spillway_sim_mutant(tile_buffer_used_again_too_early swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::WriteEnded>(StreamId::kToDevice, task);]==]
  [==[WhenDone<&TileWork::WriteEnded>(StreamId::kToHost, task);]==])
spillway_sim_mutant(filled_before_the_last_tile swap/mover/prefetch.cc
  [==[if (buffer.transfers_left == 1) buffer.filled]==]
  [==[if (!buffer.filled) buffer.filled]==])
spillway_sim_mutant(input_saved_before_it_is_there swap/mover/op_gate.cc
  [==[context_.lane->WhenDone(context_.lane->ops_stream(),]==]
  [==[context_.lane->WhenDone(StreamId::kToHost,]==])
spillway_sim_mutant(ends_while_the_device_works swap/mover/mover.cc
  [==[  lane_->Synchronize().IgnoreError();]==]
  [==[]==])

# --- Staged updates.
spillway_sim_mutant(staged_update_before_its_planes_are_there swap/mover/device_tiles.cc
  [==[  lane.Wait(StreamId::kToHost, lane.Record(StreamId::kToDevice));]==]
  [==[]==])
spillway_sim_mutant(staged_weights_before_their_addresses_are_free swap/mover/device_tiles.cc
  [==[buffers_->WaitForAddresses(*pass.destination, StreamId::kToHost);]==]
  [==[pass.destination->used = true;]==])
spillway_sim_mutant(staged_weights_used_before_they_are_there swap/mover/passes.cc
  [==[    destination->filled = staged;]==]
  [==[]==])
spillway_sim_mutant(sums_left_before_they_are_rounded swap/mover/passes.cc
  [==[    buffer->last_use = staged;]==]
  [==[    if (used == &pass.weights) buffer->last_use = staged;]==])
spillway_sim_mutant(weights_left_before_they_are_taken swap/mover/passes.cc
  [==[    buffer->last_use = staged;]==]
  [==[    if (used == &pass.sums) buffer->last_use = staged;]==])
spillway_sim_mutant(staged_planes_used_before_they_are_back swap/mover/tile_work.cc
  [==[WhenDone<&TileWork::Staged>(StreamId::kToHost, task);]==]
  [==[WhenDone<&TileWork::Staged>(StreamId::kToDevice, task);]==])
spillway_sim_mutant(device_tile_used_again_too_early swap/mover/tile_work.cc
  [==[    device_tiles_->UpdateStaged(task);]==]
  [==[    device_tiles_->UpdateStaged(task);
    const int device_tile = task.device_tile;
    device_tiles_->GiveBackMemory(task);
    task.device_tile = device_tile;]==])
spillway_sim_mutant(staged_update_unverified swap/mover/tile_work.cc
  [==[task.status = Verify(task);]==]
  [==[]==])
