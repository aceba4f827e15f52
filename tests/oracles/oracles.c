/* Usage: oracles [GROUP...]: prints the table of the groups (all by default); fails if a row does.
 */
#include "tests/oracles/oracles.h"

static int rows, failures;

static void row(bool ok, double expected, double simulated, double tolerance, const char *relation,
                const char *name, va_list args)
{
    char text[96];
    vsnprintf(text, sizeof text, name, args);
    printf("%-58s %s%12.6g %12.6g %11.3g %11.3g  %s\n", text, relation, expected, simulated,
           simulated - expected, tolerance, ok ? "ok" : "FAIL");
    rows++;
    failures += !ok;
}

void oracle_near(double expected, double simulated, double tolerance, const char *name, ...)
{
    va_list args;
    va_start(args, name);
    bool ok = fabs(simulated - expected) <= tolerance;
    row(ok, expected, simulated, tolerance, "  ", name, args);
    va_end(args);
}

void oracle_at_most(double limit, double simulated, const char *name, ...)
{
    va_list args;
    va_start(args, name);
    row(simulated <= limit, limit, simulated, 0, "<=", name, args);
    va_end(args);
}

oracle_staleness oracle_staleness_of(const dl_run_result *result, int worker)
{
    oracle_staleness s = {0};
    double sum = 0, squares = 0;
    for (int w = 0; w < result->workers; w++) {
        if (worker >= 0 && w != worker) continue;
        for (int k = 0; k < result->staleness_bins; k++) {
            double count = (double)result->staleness[w * result->staleness_bins + k];
            s.count += count;
            sum += count * k;
            squares += count * k * k;
            if (count > 0 && k > s.max) s.max = k;
        }
    }
    s.mean = sum / s.count;
    s.sd = sqrt(fmax(0, squares / s.count - s.mean * s.mean));
    return s;
}

double oracle_staleness_from(const dl_run_result *result, int from)
{
    double count = 0;
    for (int w = 0; w < result->workers; w++) {
        for (int k = from; k < result->staleness_bins; k++)
            count += (double)result->staleness[w * result->staleness_bins + k];
    }
    return count / oracle_staleness_of(result, -1).count;
}

dl_run_result oracle_run(const char *mode, int workers, int steps, const char *sync,
                         const char *noise)
{
    char rest[160];
    snprintf(rest, sizeof rest, "[noise]\n%s", noise);
    return fixture_run_mode(FIXTURE_COMPUTE_ONLY, mode, workers, workers, steps, sync, rest);
}

double oracle_harmonic(int n, double power)
{
    double sum = 0;
    for (int i = n; i >= 1; i--)
        sum += pow(i, -power);
    return sum;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } groups[] = {{"staleness", oracles_staleness},
                  {"softsync", oracles_softsync},
                  {"ssp", oracles_ssp},
                  {"time", oracles_time},
                  {"amounts", oracles_amounts},
                  {"gpus", oracles_gpus},
                  {"monotone", oracles_monotone},
                  {"pipeline", oracles_pipeline},
                  {"local_sgd", oracles_local_sgd},
                  {"input", oracles_input}};
    const size_t count = sizeof groups / sizeof *groups;
    printf("%-58s %14s %12s %11s %11s\n", "", "expected", "simulated", "error", "tolerance");
    int known = 0;
    for (size_t g = 0; g < count; g++) {
        bool wanted = argc < 2;
        for (int a = 1; a < argc; a++) {
            if (strcmp(argv[a], groups[g].name) != 0) continue;
            wanted = true;
            known++;
        }
        if (wanted) groups[g].run();
    }
    if (known < argc - 1) {
        fprintf(stderr, "oracles: groups are staleness, softsync, ssp, time, amounts, gpus, "
                        "monotone, pipeline, local_sgd, input\n");
        return 2;
    }
    printf("%d rows, %d failed\n", rows, failures);
    return failures > 0;
}
