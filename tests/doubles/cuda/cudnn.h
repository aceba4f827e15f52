/* Types of cuDNN that the headers of the "cuda" device use; see cuda_runtime.h. */
#ifndef DL_TESTS_DOUBLES_CUDNN_H
#define DL_TESTS_DOUBLES_CUDNN_H

typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;
typedef enum cudnnStatus { CUDNN_STATUS_SUCCESS } cudnnStatus_t;

#endif
