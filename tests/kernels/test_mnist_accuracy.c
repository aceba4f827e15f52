/* LeNet learns MNIST: at least 98.5 % of the test images after two epochs. */
#include <stdlib.h>

#include "tests/check.h"

#include "kernels/train/train.h"

#define SKIPPED 77 /* ctest's SKIP_RETURN_CODE */

static dl_data_set train, test;

/* Reads both sets from DL_DATA/mnist. */
static dl_status read_mnist(dl_error *err)
{
    const char *root = getenv("DL_DATA");
    if (root == NULL) return dl_error_set(err, DL_ERR_IO, "DL_DATA is not set");
    DL_AUTOFREE char *folder = dl_format("%s/mnist", root);
    dl_status status = dl_data_set_read_mnist(&train, folder, 0, err);
    if (status == DL_OK) status = dl_data_set_read_mnist(&test, folder, 1, err);
    return status;
}

static void lenet_learns_mnist_in_two_epochs(void **state DL_UNUSED)
{
    dl_train_config config = dl_train_default_config();
    config.model = "lenet";
    config.seed = 3; /* seeds 1 to 5 ended between 98.58 and 98.98 % (OpenBLAS 0.3.21, AMD EPYC) */
    config.optimizer = (dl_optimizer_config){.name = "sgd", .learning_rate = 0.02, .momentum = 0.9};
    config.batch = 64;
    config.steps = 2 * 60000 / config.batch;
    DL_SCOPED(dl_train_result) result = {0};
    dl_error err = {0};
    double accuracy = 0;
    if (dl_train_run(&config, &train, NULL, &result, &err) != DL_OK) fail_msg("%s", err.text);
    if (dl_train_accuracy("lenet", result.parameters, &test, &accuracy, &err) != DL_OK) {
        fail_msg("%s", err.text);
    }
    print_message("test accuracy %.2f %%, %.0f samples/s\n", 100 * accuracy, result.samples_per_s);
    assert_true(accuracy >= 0.985);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lenet_learns_mnist_in_two_epochs)};
    dl_error err = {0};
    const dl_status status = read_mnist(&err);
    int result = SKIPPED;
    if (status == DL_OK) {
        result = cmocka_run_group_tests(tests, NULL, NULL);
    } else {
        dl_error_print(&err, status == DL_ERR_IO ? "skipped" : "failed", stdout);
        if (status != DL_ERR_IO) result = 1;
    }
    dl_data_set_free(&train);
    dl_data_set_free(&test);
    return result;
}
