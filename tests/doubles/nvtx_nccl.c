/* Calls NCCL's functions like a rank, for test_nvtx.sh. Without a GPU all of them fail, but NCCL
 * marks them before. Exit status 77 if there is a GPU: the communicator would wait for other
 * ranks. */
#include <stdio.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

int main(void)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return 77;
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
    if (ncclCommInitRank(&comm, 2, id, 1) == ncclSuccess) return 1;
    ncclAllReduce(NULL, NULL, 1000, ncclFloat, ncclSum, NULL, NULL);
    ncclAllGather(NULL, NULL, 500, ncclHalf, NULL, NULL);
    ncclReduceScatter(NULL, NULL, 300, ncclFloat, ncclSum, NULL, NULL);
    ncclBroadcast(NULL, NULL, 250, ncclDouble, 3, NULL, NULL);
    ncclReduce(NULL, NULL, 200, ncclInt8, ncclSum, 2, NULL, NULL);
    ncclSend(NULL, 100, ncclFloat, 5, NULL, NULL);
    ncclRecv(NULL, 50, ncclFloat, 6, NULL, NULL);
    return 0;
}
