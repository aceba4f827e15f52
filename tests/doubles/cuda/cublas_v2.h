/* Types of cuBLAS that the headers of the "cuda" device use; see cuda_runtime.h. */
#ifndef DL_TESTS_DOUBLES_CUBLAS_V2_H
#define DL_TESTS_DOUBLES_CUBLAS_V2_H

typedef struct cublasContext *cublasHandle_t;
typedef enum cublasStatus { CUBLAS_STATUS_SUCCESS } cublasStatus_t;

#endif
