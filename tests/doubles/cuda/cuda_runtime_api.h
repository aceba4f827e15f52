/* Replaces CUDA's header of this name where kernels are compiled for the processor (cuda_runtime.h
 * beside it). */
#ifndef DL_TESTS_DOUBLES_CUDA_RUNTIME_API_H
#define DL_TESTS_DOUBLES_CUDA_RUNTIME_API_H

typedef enum cudaError { cudaSuccess } cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#endif
