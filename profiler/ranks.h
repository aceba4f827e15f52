/* Ranks of `dlprof train`: processes that share the workers of one run. Covers them from joining to
 * the result, which rank 0 prints. */
#ifndef DL_PROFILER_RANKS_H
#define DL_PROFILER_RANKS_H

#include "common/options.h"
#include "kernels/ranks/rank_group.h"
#include "kernels/train/train.h"
#include "profiler/recorder.h"

/* Values of these options, as the command line sets them. */
typedef struct dl_rank_options {
    int ranks; /* index of --ranks' choice: 0 auto, 1 off */
    double limit_s;
} dl_rank_options;

/* Returns the defaults: ranks if a launcher has started several processes; a limit of 60 s. */
dl_rank_options dl_rank_options_default(void);

#define DL_RANK_OPTION_COUNT 2

/* Fills table[DL_RANK_OPTION_COUNT], whose targets lie in *options. */
void dl_rank_options_table(dl_rank_options *options, dl_option *table);

/* Returns the launcher that started this process as one of several that share the workers of a run.
 * Its name is NULL for a single process, and with --ranks off. */
dl_launcher dl_ranks_launcher(const dl_rank_options *options);

/* Checks the options before the ranks meet. Errors of dl_train_check_ranks if there are several
 * ranks; DL_ERR_USAGE for processes of torchrun, which cannot be ranks. */
dl_status dl_ranks_check(const dl_rank_options *options, const dl_train_config *config,
                         dl_error *err) DL_MUST_CHECK;

/* Joins the other ranks, which must pass the same `settings`; *group stays NULL if there are none.
 * Errors as dl_rank_group_join. */
dl_status dl_ranks_join(const dl_rank_options *options, const char *settings, dl_rank_group **group,
                        dl_error *err) DL_MUST_CHECK;

/* Sets the ranks of a configuration, and resolves the waiting mode `auto`: spinning if every worker
 * thread on this host has its own core. The group may be NULL, here and below. */
void dl_ranks_apply(dl_rank_group *group, dl_train_config *config);

/* Compares the data of all ranks by name, number of samples and labels: DL_ERR_DATA if a rank has
 * other data than rank 0. */
dl_status dl_ranks_check_data(dl_rank_group *group, const dl_data_set *data,
                              dl_error *err) DL_MUST_CHECK;

/* Returns the path of this rank's file: "run.rank1.dlt" for "run.dlt"; without ranks `path` itself.
 * free() it. */
char *dl_ranks_path(const dl_rank_group *group, const char *path);

/* Writes the meta keys rank, world_size, local_rank and rank_exchange ("mpi" or "nccl"). */
void dl_ranks_meta(const dl_rank_group *group, const dl_train_config *config,
                   dl_trace_writer *writer);

/* Gathers the steps of all workers of the run in rank 0's recorder. */
dl_status dl_ranks_gather_steps(dl_rank_group *group, dl_recorder *recorder,
                                dl_error *err) DL_MUST_CHECK;

#endif
