/* Which rank of `dlprof train` a process is: one that mpirun, srun or torchrun has started is one of
 * several that share the workers of a run.
 *
 * Which one it is, and of how many, the launcher says in the environment; where rank 0 waits for the
 * others, --rendezvous or, where it can be known from there, the environment too:
 *
 *   RANK, WORLD_SIZE, LOCAL_WORLD_SIZE                          torchrun: MASTER_ADDR, MASTER_PORT
 *   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE                    Open MPI: the loopback, on one host
 *   PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS                         MPICH, Intel MPI: the same
 *   SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS          srun: the first host of
 *                                                               SLURM_STEP_NODELIST
 *
 * The port is made of the job's number, so that runs side by side have different ones (mostly). */
#ifndef DL_PROFILER_RANK_LAUNCH_H
#define DL_PROFILER_RANK_LAUNCH_H

#include "common/options.h"
#include "kernels/ranks/rank_group.h"

/* Targets of the options. */
typedef struct dl_rank_options {
    int ranks; /* index of a choice */
    const char *rendezvous;
    double limit_s;
} dl_rank_options;

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
