/* Creates the handles of cuBLAS and cuDNN, for test_nvtx.sh: both mark their calls if requested,
 * even if the calls fail. */
#include <cublas_v2.h>
#include <cudnn.h>

int main(void)
{
    cublasHandle_t blas;
    if (cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS) cublasDestroy(blas);
    cudnnHandle_t dnn;
    if (cudnnCreate(&dnn) == CUDNN_STATUS_SUCCESS) cudnnDestroy(dnn);
    return 0;
}
