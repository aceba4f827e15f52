/* Ranks of `dlprof train`: processes that share the workers of one run, from meeting to the result,
 * which rank 0 prints. */
#ifndef DL_PROFILER_RANKS_H
#define DL_PROFILER_RANKS_H

#include "common/options.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/train/train.h"
#include "profiler/recorder.h"

/* Which rank of `dlprof train` a process is: one that mpirun, srun or torchrun has started is one
 * of several that share the workers of a run.
 *
 * Which one it is, and of how many, the launcher says in the environment; where rank 0 waits for
 * the others, --rendezvous or, where it can be known from there, the environment too:
 *
 *   RANK, WORLD_SIZE, LOCAL_WORLD_SIZE                          torchrun: MASTER_ADDR, MASTER_PORT
 *   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE                    Open MPI: the loopback, on one host
 *   PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS                         MPICH, Intel MPI: the same
 *   SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS          srun: the first host of
 *                                                               SLURM_STEP_NODELIST
 *
 * The port is made of the job's number, so that runs side by side have different ones (mostly). */

/* Targets of the options. */
typedef struct dl_rank_options {
    int ranks; /* index of a choice */
    const char *rendezvous;
    double limit_s;
} dl_rank_options;

/* What can be known before the ranks meet: errors of dl_launch_find, and those of
 * dl_train_check_ranks where there are several. */
dl_status dl_ranks_check(const dl_rank_options *options, const dl_train_config *config,
                         dl_error *err) DL_MUST_CHECK;

/* Joins the other ranks. *group stays NULL where there is only one. `settings` is what all must
 * agree in. Errors as dl_launch_find and dl_rank_group_join. */
dl_status dl_ranks_join(const dl_rank_options *options, const char *settings, dl_rank_group **group,
                        dl_error *err) DL_MUST_CHECK;

/* Hands the ranks to a configuration, and chooses how workers wait where that is open: spinning if
 * all workers of this host have a core of their own. NULL is fine, here and below. */
void dl_ranks_apply(dl_rank_group *group, dl_train_config *config);

/* DL_ERR_DATA where a rank has other data than rank 0. */
dl_status dl_ranks_check_data(dl_rank_group *group, const dl_data_set *data,
                              dl_error *err) DL_MUST_CHECK;

/* The file of this rank: "run.rank1.dlt" of "run.dlt"; without ranks `path` itself. free() it. */
char *dl_ranks_path(const dl_rank_group *group, const char *path);

/* Meta keys rank, world_size, local_rank, rank_exchange ("tcp" or "nccl"). */
void dl_ranks_meta(const dl_rank_group *group, const dl_train_config *config,
                   dl_trace_writer *writer);

/* Gives rank 0's recorder the steps of all workers of the run. */
dl_status dl_ranks_gather_steps(dl_rank_group *group, dl_recorder *recorder,
                                dl_error *err) DL_MUST_CHECK;

#define DL_RANK_OPTION_COUNT 3

/* Ranks where a launcher has started them; 60 s. */
dl_rank_options dl_rank_options_default(void);

/* Fills table[DL_RANK_OPTION_COUNT], whose targets lie in *options. */
void dl_rank_options_table(dl_rank_options *options, dl_option *table);

/* What is known of a process before it has met others. */
typedef struct dl_launch {
    int rank, size;                /* 0 and 1 without a launcher */
    char host[DL_RANK_HOST_BYTES]; /* "" = not known */
    int port;                      /* 0 = not known */
    char job[256];                 /* what the launcher calls the job; "" if nothing */
} dl_launch;

/* Reads options and environment. DL_ERR_USAGE for a --rendezvous that is no HOST:PORT; DL_ERR_DATA
 * where the environment contradicts itself, or leaves open where to meet. */
dl_status dl_launch_find(const dl_rank_options *options, dl_launch *launch,
                         dl_error *err) DL_MUST_CHECK;

#endif
