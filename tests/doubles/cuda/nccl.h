/* Types of NCCL that the headers of the "cuda" device use; see cuda_runtime.h. */
#ifndef DL_TESTS_DOUBLES_NCCL_H
#define DL_TESTS_DOUBLES_NCCL_H

typedef struct ncclComm *ncclComm_t;
typedef enum ncclResult { ncclSuccess } ncclResult_t;

#endif
