/* The processes of one job on a cluster ("ranks", numbered from 0), as mpirun or srun starts them,
 * and the bytes that they send one another.
 *
 * Without a launcher a program is the only rank, and nothing of MPI is even loaded: that would add
 * 1.3 ms to each start, and packages would depend on it. With one, dl_cluster_start finds its
 * variables in the environment, loads DL_CLUSTER_LIBRARY (common/cluster_mpi.c, built where CMake
 * finds MPI) and calls MPI_Init_thread. DLSCALE_MPI=off in the environment keeps each process on
 * its own, for a program that is started inside of another one's job.
 *
 * Rank 0 speaks for the job: the standard output of the others goes to /dev/null, and
 * dl_cluster_end passes their errors to rank 0, so that one message and one exit status remain.
 *
 * Calls that all ranks make together (agree, all_gather, broadcast, barrier) must come in the same
 * order on all. One thread at a time may call, any thread. A rank that dies ends the whole job:
 * the launcher notices, names rank and host, and stops the others. */
#ifndef DL_COMMON_CLUSTER_H
#define DL_COMMON_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

#define DL_CLUSTER_LIBRARY "libdlscale_mpi.so"
#define DL_CLUSTER_ENTRY "dl_cluster_mpi_calls"
#define DL_CLUSTER_HOST_BYTES 64

/* What a launcher's variables say. */
typedef struct dl_launcher {
    const char *name; /* "mpirun (Open MPI)"; NULL: there is none */
    int rank, size;   /* size 0: the variables do not say */
    bool has_mpi;     /* false: srun without --mpi, whose processes cannot reach one another */
} dl_launcher;

dl_launcher dl_launcher_find(void);

/* What the library does with MPI; functions of the whole job unless it says otherwise. Failures are
 * DL_ERR_SYSTEM with MPI's text. */
typedef struct dl_cluster_calls {
    size_t bytes; /* sizeof(dl_cluster_calls) of the library: that of the program, or it is of
                     another version */
    dl_status (*start)(int *rank, int *size, dl_error *err);
    void (*end)(void);
    dl_status (*barrier)(dl_error *err);
    /* Rank 0's data[bytes] to all. */
    dl_status (*broadcast)(void *data, size_t bytes, dl_error *err);
    /* Each rank's mine[bytes] into all[size x bytes] of all ranks, by rank. */
    dl_status (*all_gather)(const void *mine, void *all, size_t bytes, dl_error *err);
    /* One message from this rank to another one; tag 0 .. 32767. May wait for its receiver. */
    dl_status (*send)(int to, int tag, const void *data, size_t bytes, dl_error *err);
    /* Whether a message has arrived, without waiting: from whom, its tag, its size. */
    dl_status (*probe)(bool *found, int *from, int *tag, size_t *bytes, dl_error *err);
    /* Takes the message that `probe` found. */
    dl_status (*receive)(int from, int tag, void *data, size_t bytes, dl_error *err);
} dl_cluster_calls;

typedef const dl_cluster_calls *(*dl_cluster_entry_function)(void);

/* *function, a pointer to a function, becomes `name` of the library, which stays loaded (as
 * dl_library_function). DL_ERR_UNSUPPORTED where the launcher has
 * no MPI, the library is not there or has no such function. */
dl_status dl_cluster_entry(const dl_launcher *launcher, const char *name, void *function,
                           dl_error *err) DL_MUST_CHECK;

/* Whether MPI has found the ranks that the launcher has started: DL_ERR_UNSUPPORTED where `size`,
 * MPI's, is another number. The launcher is then another MPI's than the build's, and each process
 * would work alone. */
dl_status dl_launcher_check(const dl_launcher *launcher, int size, dl_error *err) DL_MUST_CHECK;

typedef struct dl_cluster {
    int rank, size;
    const dl_cluster_calls *calls;        /* NULL: size is 1 */
    char (*hosts)[DL_CLUSTER_HOST_BYTES]; /* [size] names; NULL: size is 1 */
    int local_rank, local_size;           /* among the ranks on this host */
    int cpu_count; /* cores for this rank: its affinity mask, divided among the ranks on this host
                      that have the same one; at least 1 */
    bool failed;   /* the ranks have agreed that the job has failed: there are no more calls */
} dl_cluster;

/* Called once, at the start of main. *cluster is this process alone where no launcher is found or
 * it has started one process. DL_ERR_UNSUPPORTED where there are several and MPI is not there, or is another one;
 * DL_ERR_SYSTEM where MPI does not start;
 * DL_ERR_DATA where the ranks' programs differ. After a failure the process is alone, and rank 0
 * (as the launcher's variables say) is to print it: dl_cluster_end does. */
dl_status dl_cluster_start(dl_cluster *cluster, dl_error *err) DL_MUST_CHECK;

/* All ranks meet. Returns `status` and keeps *err where it is a failure of this rank's own; if it
 * is not, but another rank has failed, returns that one's status, and on rank 0 *err is its error
 * with "rank 3 on HOST: " before it. DL_OK only on all ranks together. Alone, returns `status`. */
dl_status dl_cluster_agree(dl_cluster *cluster, dl_status status, dl_error *err) DL_MUST_CHECK;

/* All ranks have the same key, or DL_ERR_DATA: "WHAT of rank 3 on HOST differs from that of rank
 * 0". */
dl_status dl_cluster_same(dl_cluster *cluster, unsigned long long key, const char *what,
                          dl_error *err) DL_MUST_CHECK;

/* The end of main: agrees on `status`, and leaves the job. Returns the exit status: rank 0 prints
 * the error, if there is one, as `program`; other ranks return 0, so that the launcher has only one
 * to report. */
int dl_cluster_end(dl_cluster *cluster, dl_status status, dl_error *err, const char *program);

#endif
