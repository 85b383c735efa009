#include "engine/ranks/launch_environment.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

// As torchrun --nproc-per-node 4 --nnodes 2 sets them, in the sixth rank.
EnvironmentMap Torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"MASTER_ADDR", "node1"},
          {"MASTER_PORT", "29400"},
          {"TORCHELASTIC_RUN_ID", "job7"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

// As Open MPI 4.1's mpirun -n 2 sets them on one machine.
EnvironmentMap Mpirun() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},        {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"OMPI_COMM_WORLD_NODE_RANK", "1"},   {"OMPI_MCA_ess_base_jobid", "1285029889"},
          {"PMIX_NAMESPACE", "1285029889"},     {"PMIX_RANK", "1"},
          {"OMPI_MCA_orte_ess_num_procs", "2"}, {"OMPI_UNIVERSE_SIZE", "2"}};
}

// As srun -N 3 -n 5 sets them, in the last task.
EnvironmentMap Srun() {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_PROCID", "4"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "2"},
          {"SLURM_NTASKS", "5"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_STEP_NODELIST", "gpu[08-10]"},
          {"SLURM_JOB_NODELIST", "cpu1,gpu[08-10]"}};
}

// What a batch script sees that asked for five tasks.
EnvironmentMap Batch() {
  return {{"SLURM_JOB_ID", "4711"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "0"},    {"SLURM_NTASKS", "5"}, {"SLURM_JOB_NODELIST", "gpu[08-10]"}};
}

EnvironmentMap With(EnvironmentMap environment, const EnvironmentMap& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

Launch Read(const EnvironmentMap& environment, std::optional<int> ranks = std::nullopt) {
  const auto launch = ReadLaunch(environment, ranks);
  EXPECT_TRUE(launch.ok()) << launch.status();
  return launch.value_or(Launch());
}

void Refused(const EnvironmentMap& environment, const std::vector<std::string>& parts,
             std::optional<int> ranks = std::nullopt) {
  ExpectError(ReadLaunch(environment, ranks).status(), absl::StatusCode::kInvalidArgument, parts);
}

void ExpectAlone(const Launch& launch) {
  EXPECT_EQ(launch.launcher, "");
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.world, 1);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_EQ(launch.local_world, 1);
  EXPECT_EQ(launch.master_address, "");
  EXPECT_FALSE(launch.to_be_spawned());
}

TEST(LaunchEnvironment, WithoutALauncherThereIsOneRank) {
  ExpectAlone(Read({}));
  ExpectAlone(Read({}, 1));
  ExpectAlone(Read({{"WORLD_SIZE", "1"}, {"MASTER_ADDR", "here"}, {"RANK", ""}}));
}

TEST(LaunchEnvironment, RanksWithoutALauncherAreToBeSpawned) {
  for (const EnvironmentMap& environment :
       {EnvironmentMap(), Batch(), EnvironmentMap{{"WORLD_SIZE", "3"}}}) {
    const Launch launch = Read(environment, 3);
    EXPECT_TRUE(launch.to_be_spawned());
    EXPECT_EQ(launch.world, 3);
    EXPECT_EQ(launch.local_world, 3);
    EXPECT_EQ(launch.rank, 0);
  }
}

TEST(LaunchEnvironment, Torchrun) {
  const Launch launch = Read(Torchrun());
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 4);
  EXPECT_EQ(launch.node_rank, 1);
  EXPECT_EQ(launch.master_address, "node1");
  EXPECT_EQ(launch.master_port, 29400);
  EXPECT_EQ(launch.job_id, "job7");
  EXPECT_EQ(launch.restart, 2);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_FALSE(launch.to_be_spawned());
  EXPECT_FALSE(Read(With(Torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
  EXPECT_FALSE(Read(With(Torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", ""}})).agent_store);
}

TEST(LaunchEnvironment, OurOwnRanksAreNotTorchruns) {
  const Launch launch = Read(With(Torchrun(), {{"SPILLWAY_LAUNCHER", "ranks"}}), 8);
  EXPECT_EQ(launch.launcher, "--ranks");
  EXPECT_FALSE(launch.agent_store);
  EXPECT_EQ(launch.restart, 0);
}

TEST(LaunchEnvironment, RankByHand) {
  const EnvironmentMap bare = {
      {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1234"}};
  Launch launch = Read(bare);
  EXPECT_EQ(launch.launcher, "RANK");
  EXPECT_EQ(launch.local_rank, 0) << "one rank a machine";
  EXPECT_EQ(launch.local_world, 1);
  for (const char* here : {"127.0.0.1", "localhost", "::1"}) {
    launch = Read(With(bare, {{"MASTER_ADDR", here}}));
    EXPECT_EQ(launch.local_rank, 1) << here;
    EXPECT_EQ(launch.local_world, 4) << here;
  }
  launch = Read(With(bare, {{"LOCAL_RANK", "1"}}));
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 4);
  Refused(With(bare, {{"MASTER_PORT", ""}}), {"WORLD_SIZE=4", "MASTER_PORT is not"});
  Refused(With(bare, {{"MASTER_ADDR", ""}}), {"MASTER_ADDR", "export MASTER_ADDR=HOST"});
}

TEST(LaunchEnvironment, RanksOfThisMachineWhereTheyAreNotTorchruns) {
  const EnvironmentMap bare = {{"RANK", "4"},
                               {"WORLD_SIZE", "5"},
                               {"LOCAL_RANK", "0"},
                               {"MASTER_ADDR", "a"},
                               {"MASTER_PORT", "1"}};
  EXPECT_EQ(Read(bare).local_world, 5) << "one machine";
  EXPECT_EQ(Read(With(bare, {{"LOCAL_SIZE", "2"}})).local_world, 2) << "DeepSpeed's";
  EXPECT_EQ(Read(With(bare, Srun())).local_world, 1);
  EXPECT_EQ(Read(With(With(bare, Srun()), {{"LOCAL_SIZE", "2"}})).local_world, 2);
  EXPECT_EQ(Read(With(With(bare, Srun()), {{"SLURM_STEP_NUM_TASKS", "3"}})).local_world, 5)
      << "of tasks that are not the ranks";
  EnvironmentMap mpirun = {{"OMPI_COMM_WORLD_RANK", "4"},
                           {"OMPI_COMM_WORLD_SIZE", "5"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
  EXPECT_EQ(Read(With(bare, mpirun)).local_world, 3);
  mpirun["OMPI_COMM_WORLD_SIZE"] = "6";
  EXPECT_EQ(Read(With(bare, mpirun)).local_world, 5);
}

TEST(LaunchEnvironment, ThreadsAreTheCoresOfARank) {
  EXPECT_EQ(Launch().default_threads(8), 8);
  EXPECT_EQ(Read(Torchrun()).default_threads(8), 2) << "an equal part of the machine's";
  EXPECT_EQ(Read(Torchrun()).default_threads(3), 1);
  const Launch task = Read(With(Srun(), {{"SLURM_PROCID", "1"},
                                         {"SLURM_LOCALID", "1"},
                                         {"SLURM_NODEID", "0"},
                                         {"SLURM_CPUS_PER_TASK", "4"}}));
  ASSERT_EQ(task.local_world, 2);
  EXPECT_EQ(task.default_threads(4), 4) << "the mask is this task's alone";
  EXPECT_EQ(task.default_threads(8), 4) << "the mask is the node's";
  EXPECT_EQ(task.default_threads(3), 3);
  const EnvironmentMap script = With(Srun(), {{"RANK", "4"},
                                              {"WORLD_SIZE", "5"},
                                              {"MASTER_ADDR", "a"},
                                              {"MASTER_PORT", "1"},
                                              {"SLURM_CPUS_PER_TASK", "4"}});
  EXPECT_EQ(Read(script).default_threads(4), 4);
  EXPECT_EQ(Read(With(Torchrun(), script)).own_cores, 0) << "torchrun's ranks share the task's";
}

TEST(LaunchEnvironment, MpirunOnOneMachineNeedsNothingElse) {
  const Launch launch = Read(Mpirun());
  EXPECT_EQ(launch.launcher, "mpirun");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world, 2);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.master_address, "127.0.0.1");
  EXPECT_EQ(launch.master_port, PortOfJob("1285029889"));
  EXPECT_EQ(Read(With(Mpirun(), {{"OMPI_MCA_ess_base_jobid", ""}})).master_port,
            launch.master_port);
  EXPECT_EQ(Read(With(Mpirun(), {{"MASTER_PORT", "31000"}})).master_port, 31000);
}

TEST(LaunchEnvironment, MpirunOverMachinesNeedsAnAddress) {
  const EnvironmentMap far = With(Mpirun(), {{"OMPI_COMM_WORLD_SIZE", "4"}});
  Refused(far, {"OMPI_COMM_WORLD_SIZE=4", "MASTER_ADDR is not", "mpirun -x MASTER_ADDR=HOST"});
  const Launch launch = Read(With(far, {{"MASTER_ADDR", "a"}}));
  EXPECT_EQ(launch.master_address, "a");
  EXPECT_EQ(launch.master_port, PortOfJob("1285029889"));
}

TEST(LaunchEnvironment, Mpich) {
  const EnvironmentMap mpich = {{"PMI_RANK", "3"},        {"PMI_SIZE", "4"},
                                {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"},
                                {"MASTER_ADDR", "a"},     {"MASTER_PORT", "2000"}};
  const Launch launch = Read(mpich);
  EXPECT_EQ(launch.launcher, "mpiexec");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  Refused(With(mpich, {{"MASTER_ADDR", ""}}), {"mpiexec -genv MASTER_ADDR HOST"});
  Refused(With(mpich, {{"MASTER_PORT", ""}}), {"mpiexec -genv MASTER_PORT 29500"});
  Refused(With(mpich, {{"MPI_LOCALRANKID", ""}}), {"PMI_SIZE=4", "MPI_LOCALRANKID is not"});
  ExpectAlone([] {
    Launch launch = Read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
    EXPECT_EQ(launch.launcher, "mpiexec");
    launch.launcher = "";
    return launch;
  }());
}

TEST(LaunchEnvironment, Srun) {
  const Launch launch = Read(Srun());
  EXPECT_EQ(launch.launcher, "srun");
  EXPECT_EQ(launch.rank, 4);
  EXPECT_EQ(launch.world, 5);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_EQ(launch.local_world, 1);
  EXPECT_EQ(launch.node_rank, 2);
  EXPECT_EQ(launch.master_address, "gpu08");
  EXPECT_EQ(launch.master_port, PortOfJob("4711.2"));
  EXPECT_EQ(launch.job_id, "4711.2");
  const Launch first =
      Read(With(Srun(), {{"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "0"}}));
  EXPECT_EQ(first.local_world, 2);
  EXPECT_EQ(first.master_port, launch.master_port);
  EXPECT_NE(Read(With(Srun(), {{"SLURM_STEP_ID", "3"}})).master_port, launch.master_port);
  // What the user says goes before the node list.
  EXPECT_EQ(Read(With(Srun(), {{"MASTER_ADDR", "b"}})).master_address, "b");
  EXPECT_EQ(Read(With(Srun(), {{"SLURM_STEP_NODELIST", ""}})).master_address, "cpu1");
  // PMI2's variables, of srun --mpi=pmi2, say no more.
  EXPECT_EQ(Read(With(Srun(), {{"PMI_RANK", "4"}, {"PMI_SIZE", "5"}})).launcher, "srun");
  // Scripts export what others read.
  EXPECT_EQ(Read(With(Srun(), {{"WORLD_SIZE", "5"}})).world, 5);
}

TEST(LaunchEnvironment, ABatchScriptWithoutSrunIsOneRank) {
  ExpectAlone(Read(Batch()));
  // Of the script itself, and of an interactive allocation's shell.
  for (const char* step : {"4294967291", "4294967290", "batch"}) {
    ExpectAlone(Read(With(Batch(), {{"SLURM_STEP_ID", step}})));
  }
  // A shell inside an allocation (salloc) has no rank at all.
  ExpectAlone(Read({{"SLURM_JOB_ID", "4711"}, {"SLURM_NTASKS", "5"}}));
}

TEST(LaunchEnvironment, AShellOfSrunsIsOneRank) {
  // srun -n 5 --pty bash: all tasks have the variable, the first one has the terminal.
  const EnvironmentMap shell =
      With(Srun(), {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_PTY_PORT", "38241"}});
  ExpectAlone(Read(shell));
  EXPECT_TRUE(Read(shell, 2).to_be_spawned());
}

TEST(LaunchEnvironment, WhereALauncherStartedOneProcessRanksAreStarted) {
  const EnvironmentMap pod = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "pod-0"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(Read(pod).launcher, "RANK");
  EXPECT_EQ(Read(pod, 1).launcher, "RANK");
  const EnvironmentMap mpirun = With(Mpirun(), {{"OMPI_COMM_WORLD_RANK", "0"},
                                                {"OMPI_COMM_WORLD_SIZE", "1"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  for (const EnvironmentMap& one : {pod, mpirun}) {
    const Launch launch = Read(one, 3);
    EXPECT_TRUE(launch.to_be_spawned());
    EXPECT_EQ(launch.world, 3);
    EXPECT_EQ(launch.local_world, 3);
  }
}

TEST(LaunchEnvironment, AStepOfOneTaskMayStartRanksItself) {
  const EnvironmentMap shell = With(Srun(), {{"SLURM_PROCID", "0"},
                                             {"SLURM_NODEID", "0"},
                                             {"SLURM_NTASKS", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "1"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "1"}});
  EXPECT_EQ(Read(shell).world, 1);
  EXPECT_EQ(Read(shell).launcher, "srun");
  EXPECT_TRUE(Read(shell, 4).to_be_spawned());
}

TEST(LaunchEnvironment, TheInnermostLauncherCounts) {
  // srun torchrun ...: one task a node, and torchrun's ranks.
  EnvironmentMap all = Srun();
  all.merge(Mpirun());
  EXPECT_EQ(Read(all).launcher, "mpirun");
  all.merge(Torchrun());
  EXPECT_EQ(Read(all).launcher, "torchrun");
  EXPECT_EQ(Read(all).rank, 5);
}

TEST(LaunchEnvironment, RankExportedOutsideOfTheStepIsFound) {
  const EnvironmentMap exported = With(
      Srun(),
      {{"RANK", "0"}, {"WORLD_SIZE", "5"}, {"MASTER_ADDR", "gpu08"}, {"MASTER_PORT", "29500"}});
  Refused(exported, {"RANK=0", "SLURM_PROCID=4", "unset RANK"});
  EXPECT_EQ(Read(With(exported, {{"RANK", "4"}})).launcher, "RANK");
  EXPECT_EQ(Read(With(exported, {{"TORCHELASTIC_RUN_ID", "none"}})).launcher, "torchrun")
      << "which numbers its ranks as it likes";
}

TEST(LaunchEnvironment, ContradictionsNameTheVariables) {
  const auto torchrun = [](const EnvironmentMap& changes) { return With(Torchrun(), changes); };
  Refused(torchrun({{"RANK", "8"}}), {"RANK=8", "WORLD_SIZE=8", "0 to 7"});
  Refused(torchrun({{"RANK", "-1"}}), {"RANK=-1"});
  Refused(torchrun({{"RANK", "one"}}), {"RANK=one", "unset it"});
  Refused(torchrun({{"WORLD_SIZE", "0"}}), {"WORLD_SIZE=0"});
  Refused(torchrun({{"WORLD_SIZE", ""}}), {"RANK=5", "WORLD_SIZE is not"});
  Refused(torchrun({{"LOCAL_RANK", "4"}}), {"local rank 4 of 4", "LOCAL_RANK=4"});
  Refused(torchrun({{"LOCAL_WORLD_SIZE", "9"}}), {"of 9", "WORLD_SIZE=8"});
  Refused(torchrun({{"MASTER_PORT", "70000"}}), {"MASTER_PORT=70000"});
  Refused({{"WORLD_SIZE", "4"}}, {"WORLD_SIZE=4", "RANK is not", "torchrun", "--ranks 4"});
  Refused({{"WORLD_SIZE", "4"}}, {"WORLD_SIZE=4"}, 2);
  Refused(With(Srun(), {{"WORLD_SIZE", "4"}}), {"WORLD_SIZE=4", "SLURM_STEP_NUM_TASKS=5"});
  Refused(With(Batch(), {{"WORLD_SIZE", "5"}}), {"WORLD_SIZE=5", "RANK is not"});
  Refused(With(Srun(), {{"SLURM_STEP_NODELIST", "n["}}), {"SLURM_STEP_NODELIST", "n["});
  Refused(With(Srun(), {{"SLURM_STEP_TASKS_PER_NODE", "?"}}), {"SLURM_STEP_TASKS_PER_NODE"});
  Refused(With(Srun(), {{"SLURM_NODEID", "3"}}), {"SLURM_NODEID=3", "2(x2),1"});
}

TEST(LaunchEnvironment, RanksUnderALauncherMustBeItsNumber) {
  EXPECT_EQ(Read(Torchrun(), 8).world, 8);
  Refused(Torchrun(), {"--ranks 2", "torchrun", "8 ranks", "WORLD_SIZE=8", "leave --ranks out"}, 2);
  Refused(Srun(), {"--ranks 1", "srun", "SLURM_STEP_NUM_TASKS=5"}, 1);
  Refused(Mpirun(), {"--ranks 4", "mpirun", "OMPI_COMM_WORLD_SIZE=2"}, 4);
}

TEST(LaunchEnvironment, TheSecretIsWhoeverStartsTheRanksSays) {
  const std::string secret = "0123456789abcdef";
  EXPECT_EQ(Read(Torchrun()).secret, "");
  EXPECT_EQ(Read(With(Torchrun(), {{"SPILLWAY_SECRET", secret}})).secret, secret);
  EXPECT_EQ(Read(With(Srun(), {{"SPILLWAY_SECRET", secret}})).secret, secret);
  EXPECT_EQ(Read({{"SPILLWAY_SECRET", "short"}}).world, 1);  // one rank needs none
  const absl::Status refused =
      ReadLaunch(With(Mpirun(), {{"SPILLWAY_SECRET", "only fifteen ch"}}), {}).status();
  ExpectError(refused, absl::StatusCode::kInvalidArgument,
              {"SPILLWAY_SECRET has 15 characters", "at least 16", "openssl rand"});
  EXPECT_EQ(std::string(refused.message()).find("only fifteen"), std::string::npos);
  EXPECT_EQ(NewRankSecret().size(), 64u);
  EXPECT_NE(NewRankSecret(), NewRankSecret());
}

TEST(LaunchEnvironment, PortsOfJobsAreSpreadBelowTheKernelsOwn) {
  std::set<int> ports;
  for (int job = 0; job < 1000; ++job) {
    const int port = PortOfJob(absl::StrCat(job, ".0"));
    EXPECT_GE(port, 20000);
    EXPECT_LE(port, 32767);
    EXPECT_EQ(port, PortOfJob(absl::StrCat(job, ".0")));
    ports.insert(port);
  }
  EXPECT_GT(ports.size(), 900u);
}

TEST(LaunchEnvironment, ThisEnvironmentHasTheProcesssVariables) {
  ASSERT_EQ(setenv("SPILLWAY_TEST_VARIABLE", "a=b", 1), 0);
  EXPECT_EQ(ThisEnvironment()["SPILLWAY_TEST_VARIABLE"], "a=b");
  unsetenv("SPILLWAY_TEST_VARIABLE");
}

}  // namespace
}  // namespace spillway
