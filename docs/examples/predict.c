/* Prints what a scenario predicts: workers, batch, speedup, samples per second of each point.
 *
 *   cc -o predict predict.c $(pkg-config --cflags --libs dlscale)
 *   ./predict scenario.ini */
#include <dlscale.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    dlscale_result *result;
    dlscale_error error;
    if (argc != 2) {
        fprintf(stderr, "usage: %s SCENARIO\n", argv[0]);
        return 2;
    }
    if (dlscale_simulate_file(argv[1], 0, &result, &error) != DLSCALE_OK) {
        fprintf(stderr, "%s:%d: %s\n", error.file, error.line, error.text);
        return 1;
    }
    printf("workers,batch,speedup,throughput_per_s\n");
    for (size_t row = 0; row < dlscale_rows(result); row++) {
        printf("%.0f,%.0f,%.6g,%.6g\n", dlscale_value(result, row, "workers"),
               dlscale_value(result, row, "batch"), dlscale_value(result, row, "speedup"),
               dlscale_value(result, row, "throughput_per_s"));
    }
    for (size_t i = 0; i < dlscale_notes(result); i++)
        fprintf(stderr, "note: %s\n", dlscale_note(result, i));
    dlscale_free(result);
    return 0;
}
