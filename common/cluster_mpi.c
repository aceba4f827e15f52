/* The library DL_CLUSTER_LIBRARY: implements the calls of common/cluster.h with MPI. */
#include <limits.h>
#include <mpi.h>

#include "common/cluster.h"

const dl_cluster_calls *dl_cluster_mpi_calls(void);

static dl_status check(int code, const char *call, dl_error *err)
{
    if (code == MPI_SUCCESS) return DL_OK;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return dl_error_set(err, DL_ERR_SYSTEM, "%s: %.400s", call, text);
}

static dl_status check_bytes(size_t bytes, const char *call, dl_error *err)
{
    if (bytes <= INT_MAX) return DL_OK;
    return dl_error_set(err, DL_ERR_SYSTEM, "%s of %zu bytes: at most %d go at once", call, bytes,
                        INT_MAX);
}

static dl_status start(int *rank, int *size, dl_error *err)
{
    int provided = MPI_THREAD_SINGLE;
    dl_status status = check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided),
                             "MPI_Init_thread", err);
    if (status != DL_OK) return status;
    if (provided < MPI_THREAD_SERIALIZED) {
        MPI_Finalize();
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "this MPI may not be called by threads");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    status = check(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank", err);
    return status != DL_OK ? status
                           : check(MPI_Comm_size(MPI_COMM_WORLD, size), "MPI_Comm_size", err);
}

static void end(void)
{
    MPI_Finalize();
}

static dl_status barrier(dl_error *err)
{
    return check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier", err);
}

static dl_status broadcast(void *data, size_t bytes, dl_error *err)
{
    const dl_status status = check_bytes(bytes, "MPI_Bcast", err);
    if (status != DL_OK) return status;
    return check(MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast", err);
}

static dl_status all_gather(const void *mine, void *all, size_t bytes, dl_error *err)
{
    const dl_status status = check_bytes(bytes, "MPI_Allgather", err);
    if (status != DL_OK) return status;
    return check(
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD),
        "MPI_Allgather", err);
}

static dl_status send(int to, int tag, const void *data, size_t bytes, dl_error *err)
{
    const dl_status status = check_bytes(bytes, "MPI_Send", err);
    if (status != DL_OK) return status;
    return check(MPI_Send(data, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD), "MPI_Send", err);
}

static dl_status probe(bool *found, int *from, int *tag, size_t *bytes, dl_error *err)
{
    int flag = 0, count = 0;
    MPI_Status message;
    dl_status status =
        check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message),
              "MPI_Iprobe", err);
    *found = status == DL_OK && flag != 0;
    if (!*found) return status;
    status = check(MPI_Get_count(&message, MPI_BYTE, &count), "MPI_Get_count", err);
    *from = message.MPI_SOURCE;
    *tag = message.MPI_TAG;
    *bytes = (size_t)count;
    return status;
}

static dl_status receive(int from, int tag, void *data, size_t bytes, dl_error *err)
{
    const dl_status status = check_bytes(bytes, "MPI_Recv", err);
    if (status != DL_OK) return status;
    return check(MPI_Recv(data, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                 "MPI_Recv", err);
}

__attribute__((visibility("default"))) const dl_cluster_calls *dl_cluster_mpi_calls(void)
{
    static const dl_cluster_calls calls = {
        .bytes = sizeof calls,
        .start = start,
        .end = end,
        .barrier = barrier,
        .broadcast = broadcast,
        .all_gather = all_gather,
        .send = send,
        .probe = probe,
        .receive = receive,
    };
    return &calls;
}
