/* Processes of one job on a cluster ("ranks", numbered from 0), started by mpirun or srun, and the
 * messages between them.
 *
 * Without a launcher a program is the only rank, and MPI is not loaded: loading would add 1.3 ms to
 * each start, and linking would make packages depend on MPI. With a launcher, dl_cluster_start
 * finds its variables in the environment and, unless they give a single process, loads
 * DL_CLUSTER_LIBRARY (common/cluster_mpi.c, built if CMake finds MPI) and calls MPI_Init_thread.
 * With DLSCALE_MPI=off in the environment each process works alone, for programs started inside
 * another program's job.
 *
 * Only rank 0 prints: the standard output of other ranks goes to /dev/null, and dl_cluster_end
 * passes their errors to rank 0, so that the job has one message and one exit status.
 *
 * All ranks must make their collective calls (agree, same, all_gather, broadcast, barrier) in the
 * same order. Any thread may call, one at a time. If a rank dies, the launcher reports rank and
 * host and stops the others. */
#ifndef DL_COMMON_CLUSTER_H
#define DL_COMMON_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

#define DL_CLUSTER_LIBRARY "libdlscale_mpi.so"
#define DL_CLUSTER_ENTRY "dl_cluster_mpi_calls"
#define DL_CLUSTER_HOST_BYTES 64

/* A launcher, as described by its environment variables. */
typedef struct dl_launcher {
    const char *name; /* "mpirun (Open MPI)"; NULL: no launcher */
    int rank, size;   /* size 0: not given by the variables */
    bool has_mpi;     /* false: srun without --mpi, whose processes cannot communicate */
} dl_launcher;

dl_launcher dl_launcher_find(void);

/* The library's MPI calls, collective unless stated otherwise. Failures are DL_ERR_SYSTEM with
 * MPI's text. */
typedef struct dl_cluster_calls {
    size_t bytes; /* sizeof(dl_cluster_calls) in the library; a different size in the program
                   * indicates a different version */
    dl_status (*start)(int *rank, int *size, dl_error *err);
    void (*end)(void);
    dl_status (*barrier)(dl_error *err);
    /* Sends rank 0's data[bytes] to all ranks. */
    dl_status (*broadcast)(void *data, size_t bytes, dl_error *err);
    /* Gathers each rank's mine[bytes] into all[size x bytes] on all ranks, in rank order. */
    dl_status (*all_gather)(const void *mine, void *all, size_t bytes, dl_error *err);
    /* Sends a message to another rank; tag 0 .. 32767. May block until it is received. */
    dl_status (*send)(int to, int tag, const void *data, size_t bytes, dl_error *err);
    /* Sets *found to whether a message has arrived, without blocking, and its sender, tag and
     * size. */
    dl_status (*probe)(bool *found, int *from, int *tag, size_t *bytes, dl_error *err);
    /* Receives the message found by `probe`. */
    dl_status (*receive)(int from, int tag, void *data, size_t bytes, dl_error *err);
} dl_cluster_calls;

typedef const dl_cluster_calls *(*dl_cluster_entry_function)(void);

/* Sets *function, a pointer to a function, to the library's function `name`; the library stays
 * loaded (see dl_library_function). Returns DL_ERR_UNSUPPORTED if the launcher has no MPI, or the
 * library or the function is missing or cannot be loaded. */
dl_status dl_cluster_entry(const dl_launcher *launcher, const char *name, void *function,
                           dl_error *err) DL_MUST_CHECK;

/* Checks that MPI found the ranks started by the launcher. Returns DL_ERR_UNSUPPORTED if `size`,
 * MPI's number, differs from the launcher's or, where the launcher gives none, does not exceed its
 * rank: the launcher then belongs to a different MPI than the build, and each process would work
 * alone. */
dl_status dl_launcher_check(const dl_launcher *launcher, int size, dl_error *err) DL_MUST_CHECK;

typedef struct dl_cluster {
    int rank, size;
    const dl_cluster_calls *calls;        /* NULL: MPI was not started, or its start failed */
    char (*hosts)[DL_CLUSTER_HOST_BYTES]; /* [size] host names; NULL if size is 1 */
    int local_rank, local_size;           /* rank and size among the ranks on this host */
    int cpu_count; /* cores for this rank: its affinity mask, divided among this host's ranks with
                    * the same mask; at least 1 */
    bool failed;   /* the job has failed: a rank failed, the ranks differ, or a message was lost; no
                    * more calls follow */
} dl_cluster;

/* Called once, at the start of main. Without a launcher, or if it started one process, *cluster is
 * this process alone. Returns DL_ERR_UNSUPPORTED if the launcher started several processes but MPI
 * is missing or is not the launcher's; DL_ERR_SYSTEM if MPI fails; DL_ERR_DATA if the ranks'
 * programs differ. If MPI did not start, *cluster is this process alone, with its rank from the
 * launcher's variables, so that dl_cluster_end prints the error on rank 0 only. */
dl_status dl_cluster_start(dl_cluster *cluster, dl_error *err) DL_MUST_CHECK;

/* Barrier of all ranks with agreement on a status. If this rank failed, returns `status` and keeps
 * *err; else, if another rank failed, returns the status of the first such rank, and *err is its
 * error after "rank 3 on HOST: "; else, if MPI fails, DL_ERR_SYSTEM. Returns DL_OK only if all
 * ranks succeeded. Without other ranks, or after an earlier failure, returns `status`. */
dl_status dl_cluster_agree(dl_cluster *cluster, dl_status status, dl_error *err) DL_MUST_CHECK;

/* Checks that all ranks have the same key. Returns DL_ERR_DATA: "WHAT of rank 3 on HOST differs
 * from that of rank 0"; DL_ERR_SYSTEM if MPI fails. */
dl_status dl_cluster_same(dl_cluster *cluster, unsigned long long key, const char *what,
                          dl_error *err) DL_MUST_CHECK;

/* Ends main: agrees on `status` and leaves the job. Returns the exit status: rank 0 prints the
 * error, if any, as `program`; other ranks return 0, so that the launcher reports only one
 * failure. */
int dl_cluster_end(dl_cluster *cluster, dl_status status, dl_error *err, const char *program);

#endif
