/* What stands out of an image: runs of px above a level, and which of them touch. */
#include "kernels.h"
#include "splines.h"

void count_runs(const float *image, int64_t rows, int64_t cols, float level, int64_t *count)
{
    int64_t found = 0;
    for (int64_t row = 0; row < rows; row++) {
        const float *line = image + row * cols;
        found += cols > 0 && line[0] > level;
        for (int64_t col = 1; col < cols; col++) {
            found += (line[col] > level) & !(line[col - 1] > level);
        }
    }
    *count = found;
}

/* Row, first column, column after the last of a run. */
static inline int32_t *run_at(int32_t *runs, int64_t run) { return runs + 3 * run; }

/* The earliest run that a run is known to be connected with; makes the way there shorter. */
static int32_t root(int32_t *parents, int32_t run)
{
    while (parents[run] != run) {
        parents[run] = parents[parents[run]];
        run = parents[run];
    }
    return run;
}

/* Fill in the runs of a row, from number `now` on; returns the number after the last. */
static int64_t runs_of_row(const float *line, int64_t row, int64_t cols, float level,
                           int32_t *runs, int32_t *parents, int64_t now)
{
    int64_t col = 0;
    while (col < cols) {
        if (!(line[col] > level)) {
            col++;
            continue;
        }
        int32_t *run = run_at(runs, now);
        run[0] = (int32_t)row;
        run[1] = (int32_t)col;
        while (col < cols && line[col] > level) {
            col++;
        }
        run[2] = (int32_t)col;
        parents[now] = (int32_t)now;
        now++;
    }
    return now;
}

/* Fill in runs, and for each one an earlier run, or itself, that it is connected with. */
static void find(const float *image, int64_t rows, int64_t cols, float level, int32_t *runs,
                 int32_t *parents)
{
    int64_t before = 0, begin = 0; /* first runs of the row above and of this row */
    for (int64_t row = 0; row < rows; row++) {
        int64_t now = runs_of_row(image + row * cols, row, cols, level, runs, parents, begin);
        int64_t above = before;
        for (int64_t run = begin; run < now; run++) {
            /* runs of the row above that end before this one begins touch no later one either */
            while (above < begin && run_at(runs, above)[2] < run_at(runs, run)[1]) {
                above++;
            }
            for (int64_t other = above;
                 other < begin && run_at(runs, other)[1] <= run_at(runs, run)[2]; other++) {
                int32_t a = root(parents, (int32_t)run), b = root(parents, (int32_t)other);
                parents[larger(a, b)] = (int32_t)smaller(a, b);
            }
        }
        before = begin;
        begin = now;
    }
}

/* Replace what each run is connected with by the number of its component. */
static void number(int32_t *parents, int64_t count)
{
    int32_t components = 0;
    for (int64_t run = 0; run < count; run++) {
        if (parents[run] == run) {
            components++;
            parents[run] = -components; /* negative: this one has its number */
        } else {
            parents[run] = parents[parents[run]];
        }
    }
    for (int64_t run = 0; run < count; run++) {
        parents[run] = -parents[run] - 1;
    }
}

void connect_runs(const float *image, int64_t rows, int64_t cols, float level, int32_t *runs,
                  int32_t *labels, int64_t count)
{
    find(image, rows, cols, level, runs, labels);
    number(labels, count);
}

void copy_runs(const float *image, int64_t cols, const int32_t *runs, const int32_t *moves,
               int64_t count, float *out, int64_t width)
{
    for (int64_t run = 0; run < count; run++) {
        const int32_t *at = runs + 3 * run, *by = moves + 2 * run;
        const float *source = image + (int64_t)at[0] * cols;
        float *target = out + ((int64_t)at[0] + by[0]) * width + by[1];
        for (int64_t col = at[1]; col < at[2]; col++) {
            target[col] = source[col];
        }
    }
}
