# Lines of the product made wrong, one at a time: a name, the source, what stands there, and
# what the mutant has instead. Each must be noticed by a seed of the simulation.

# --- Commits: what is made durable, and in which order.
spillway_sim_mutant(no_data_sync swap/store/swap_store.cc
  [==[absl::Status status = file->Sync(); !status.ok()]==]
  [==[absl::Status status; !status.ok()]==])
spillway_sim_mutant(no_directory_sync io/file_system.cc
  [==[return files.SyncDirectory(DirectoryOf(name));]==]
  [==[return absl::OkStatus();]==])
spillway_sim_mutant(no_manifest_sync io/file_system.cc
  [==[RETURN_IF_ERROR(file->Sync());]==]
  [==[]==])
spillway_sim_mutant(manifest_in_place io/file_system.cc
  [==[if (status.ok()) status = files.Rename(temporary, name);]==]
  [==[if (status.ok() && (void(files.Remove(name)), true)) status = files.Rename(temporary, name);]==])
spillway_sim_mutant(manifest_before_data swap/store/swap_store.cc
  [==[  // Data before the manifest that names it: the order is what makes a commit whole.]==]
  [==[  RETURN_IF_ERROR(WriteFileAtomically(*file_system_, commit.manifest_path, commit.manifest_text));]==])
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
spillway_sim_mutant(fetch_unverified swap/mover/mover_fetch.cc
  [==[? store_->Verify(unit, fetch.tile, 0, fetch.request.data)]==]
  [==[? absl::OkStatus()]==])
spillway_sim_mutant(ends_while_a_worker_checks swap/mover/mover_thread.cc
  [==[tasks_running_ == 0 && checks_running_ == 0 && engine_->pending() == 0]==]
  [==[tasks_running_ == 0 && engine_->pending() == 0]==])
spillway_sim_mutant(update_unverified swap/mover/mover_tiles.cc
  [==[RETURN_IF_ERROR(store_->Verify(unit, tile, p, task.planes[p]));]==]
  [==[]==])
spillway_sim_mutant(gradient_unverified swap/mover/mover_tiles.cc
  [==[RETURN_IF_ERROR(store_->VerifyGradientChecksum(unit, tile, checksum));]==]
  [==[]==])

spillway_sim_mutant(input_unverified swap/mover/mover_fetch.cc
  [==[: store_->VerifyPiece(unit, fetch.tile, fetch.request.data);]==]
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
spillway_sim_mutant(updates_not_held swap/mover/mover_commit.cc
  [==[if (pass.version <= commit_->version) return false;]==]
  [==[return false;]==])
spillway_sim_mutant(rounded_gradient_not_taken_home swap/mover/mover_tiles.cc
  [==[if (task.gradient != task.sums) {]==]
  [==[if (task.gradient == nullptr) {]==])
spillway_sim_mutant(commit_does_not_wait swap/mover/mover_commit.cc
  [==[    if (awaited) return;]==]
  [==[    (void)awaited;]==])
spillway_sim_mutant(memory_not_saved swap/mover/mover_commit.cc
  [==[if (!store_->IsStale(unit, task.tile, plane)) continue;]==]
  [==[if (store_->CurrentGeneration(unit, task.tile, plane) > 0) continue;]==])
spillway_sim_mutant(fetch_of_another_version swap/mover/mover_stays.cc
  [==[if (stay.state == StayState::kAllocated && CanFetch(stay)) StartFetch(stay);]==]
  [==[if (stay.state == StayState::kAllocated && (stay.use == StayUse::kWeights || CanFetch(stay))) {
      StartFetch(stay);
    }]==])
spillway_sim_mutant(input_read_before_it_is_written swap/mover/mover_stays.cc
  [==[return (stay.use == StayUse::kWeights ? settled_ : saved_)[stay.unit] == stay.version;]==]
  [==[return stay.use != StayUse::kWeights || settled_[stay.unit] == stay.version;]==])
spillway_sim_mutant(input_released_before_it_is_written swap/mover/mover_inputs.cc
  [==[  stay.fetches_left = pieces;]==]
  [==[  stay.fetches_left = pieces;
  stay.span.bytes = 0;  // in nobody's way]==])
spillway_sim_mutant(addresses_not_free swap/mover/mover_stays.cc
  [==[AddressesFree(i) && (]==]
  [==[(]==])
spillway_sim_mutant(turn_memory_given_back_with_tiles_in_it swap/mover/mover_turn.cc
  [==[      all = false;
      continue;]==]
  [==[]==])
spillway_sim_mutant(turn_takes_the_tiles_of_another_step swap/mover/mover_turn.cc
  [==[  if (all) tiles_ahead_.clear();]==]
  [==[]==])
spillway_sim_mutant(update_settled_before_written swap/mover/mover_tiles.cc
  [==[  const bool last = ++pass.tiles_computed == NumTiles(pass);]==]
  [==[  const bool last = ++pass.tiles_computed == NumTiles(pass);
  if (last && pass.kind == PassKind::kUpdate) settled_[pass.unit] = pass.version;
  if (last && pass.kind == PassKind::kUpdate) --pass.version;]==])
spillway_sim_mutant(update_before_its_gradient swap/mover/mover_passes.cc
  [==[return other->kind == PassKind::kRound && other->unit == pass.unit;]==]
  [==[return false;]==])
spillway_sim_mutant(weights_released_before_their_update swap/mover/mover.cc
  [==[} else if (!stay->feeds_update && stay->use != StayUse::kTurnTiles) {]==]
  [==[} else if (stay->use != StayUse::kTurnTiles) {]==])
spillway_sim_mutant(deferred_update_forgotten_at_a_flush swap/mover/mover_passes.cc
  [==[return pass.kind == PassKind::kUpdate && !pass.sums && !flushing_;]==]
  [==[return pass.kind == PassKind::kUpdate && !pass.sums;]==])
spillway_sim_mutant(abandoned_stays_in_the_way swap/mover/mover.cc
  [==[    if (stay->abandoned) continue;
    if (stay->first_op > op) break;]==]
  [==[    if (stay->first_op > op) break;]==])
spillway_sim_mutant(part_of_a_step_taken_for_whole swap/mover/mover.cc
  [==[    const auto later = [&](int64_t other) { return other > version; };]==]
  [==[    const auto later = [&](int64_t other) { return other > version + 1; };]==])
spillway_sim_mutant(updates_under_way_taken_for_none swap/mover/mover.cc
  [==[pass->kind == PassKind::kUpdate && later(pass->version);]==]
  [==[false;]==])
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
spillway_sim_mutant(computes_before_its_weights_are_there swap/mover/mover_device.cc
  [==[device_->Wait(ops_stream_, FindStay(StayUse::kWeights, unit, next_op_)->filled);]==]
  [==[(void)unit;]==])
spillway_sim_mutant(sums_before_their_addresses_are_free swap/mover/mover_device.cc
  [==[if (sums) WaitForAddresses(*FindStay(StayUse::kSums, unit, next_op_), ops_stream_);]==]
  [==[if (sums) FindStay(StayUse::kSums, unit, next_op_)->used = true;]==])
spillway_sim_mutant(weights_from_memory_before_their_addresses_are_free swap/mover/mover_device.cc
  [==[  WaitForAddresses(stay, StreamId::kToDevice);
  if (tiles > 0) {]==]
  [==[  stay.used = true;
  if (tiles > 0) {]==])
spillway_sim_mutant(weights_from_the_store_before_their_addresses_are_free swap/mover/mover_device.cc
  [==[  Stay& stay = *fetch.stay;
  WaitForAddresses(stay, StreamId::kToDevice);]==]
  [==[  Stay& stay = *fetch.stay;
  stay.used = true;]==])
spillway_sim_mutant(updated_weights_before_their_addresses_are_free swap/mover/mover_device.cc
  [==[WaitForAddresses(*pass.destination, StreamId::kToDevice);]==]
  [==[pass.destination->used = true;]==])
spillway_sim_mutant(gradient_brought_before_it_is_complete swap/mover/mover_device.cc
  [==[device_->Wait(StreamId::kToHost, std::exchange(pass.sums_complete, nullptr));]==]
  [==[]==])
spillway_sim_mutant(last_use_forgotten swap/mover/mover_device.cc
  [==[for (const DeviceEvent& event : {stay.filled, stay.last_use}) {]==]
  [==[for (const DeviceEvent& event : {stay.filled}) {]==])
spillway_sim_mutant(stage_used_again_too_early swap/mover/mover_device.cc
  [==[  NoteWhenDone(StreamId::kToDevice,
               [this, stage = fetch.stage](absl::Status) { free_stages_.push_back(stage); });]==]
  [==[  free_stages_.push_back(fetch.stage);]==])
spillway_sim_mutant(gradient_used_before_it_is_there swap/mover/mover_device.cc
  [==[  NoteWhenDone(StreamId::kToHost, [this, task, learned](absl::Status status) {
    if (learned != nullptr)]==]
  [==[  NoteWhenDone(StreamId::kToDevice, [this, task, learned](absl::Status status) {
    if (learned != nullptr)]==])
spillway_sim_mutant(settled_before_the_device_has_updated_it swap/mover/mover_device.cc
  [==[  NoteWhenDone(StreamId::kToHost, [this, task, learned](absl::Status status) {
    if (!status.ok()]==]
  [==[  NoteWhenDone(StreamId::kToDevice, [this, task, learned](absl::Status status) {
    if (!status.ok()]==])
spillway_sim_mutant(what_lives_on_the_device_not_saved swap/mover/mover_device.cc
  [==[  } else if (pass.kind != PassKind::kRound) {]==]
  [==[  } else if (pass.kind == PassKind::kUpdate) {]==])
spillway_sim_mutant(tile_buffer_used_again_too_early swap/mover/mover_tiles.cc
  [==[    NoteWhenDone(StreamId::kToDevice,]==]
  [==[    NoteWhenDone(StreamId::kToHost,]==])
spillway_sim_mutant(filled_before_the_last_tile swap/mover/mover_device.cc
  [==[if (stay.fetches_left == 1) stay.filled = device_->Record(StreamId::kToDevice);]==]
  [==[if (!stay.filled) stay.filled = device_->Record(StreamId::kToDevice);]==])
spillway_sim_mutant(input_saved_before_it_is_there swap/mover/mover_device.cc
  [==[  NoteWhenDone(ops_stream_, [this, input](absl::Status status) {]==]
  [==[  NoteWhenDone(StreamId::kToHost, [this, input](absl::Status status) {]==])
spillway_sim_mutant(ends_while_the_device_works swap/mover/mover_thread.cc
  [==[  if (device_ != nullptr) device_->Synchronize().IgnoreError();]==]
  [==[]==])

# --- Updates streamed through it.
spillway_sim_mutant(streamed_update_before_its_planes_are_there swap/mover/mover_streamed.cc
  [==[  device_->Wait(StreamId::kToHost, device_->Record(StreamId::kToDevice));]==]
  [==[]==])
spillway_sim_mutant(streamed_weights_before_their_addresses_are_free swap/mover/mover_streamed.cc
  [==[    WaitForAddresses(*pass.destination, StreamId::kToHost);]==]
  [==[    pass.destination->used = true;]==])
spillway_sim_mutant(streamed_weights_used_before_they_are_there swap/mover/mover_streamed.cc
  [==[    destination->filled = streamed;]==]
  [==[]==])
spillway_sim_mutant(sums_left_before_they_are_rounded swap/mover/mover_streamed.cc
  [==[    stay->last_use = streamed;]==]
  [==[    if (used == &pass.weights) stay->last_use = streamed;]==])
spillway_sim_mutant(weights_left_before_they_are_taken swap/mover/mover_streamed.cc
  [==[    stay->last_use = streamed;]==]
  [==[    if (used == &pass.sums) stay->last_use = streamed;]==])
spillway_sim_mutant(streamed_planes_used_before_they_are_back swap/mover/mover_streamed.cc
  [==[  NoteWhenDone(StreamId::kToHost,]==]
  [==[  NoteWhenDone(StreamId::kToDevice,]==])
spillway_sim_mutant(device_tile_used_again_too_early swap/mover/mover_streamed.cc
  [==[  if (++pass.tiles_streamed == NumTiles(pass)) PassStreamed(pass);]==]
  [==[  free_device_tiles_.push_back(task->device_tile);
  if (++pass.tiles_streamed == NumTiles(pass)) PassStreamed(pass);]==])
spillway_sim_mutant(streamed_update_unverified swap/mover/mover_streamed.cc
  [==[      status = VerifyTile(*task);]==]
  [==[]==])
