/* The clipped gradient of two classes for one type of numbers, REAL and what goes with it, and proximal steps of any.

   Records are read once, by BLOCKs: scores, slopes and their part of the sum follow while they are in the nearest cache. Clients
   stand apart, so a result does not depend on who is computed beside it. */

#include "lanes.h"

/* One client's sum of clipped gradients by the contrast, into `sum`; the share of its records that were clipped. */
INLINE REAL NAME(batch)(long records, long columns, NAME(Rows) rows, const REAL *restrict labels,
                        const REAL *restrict shares, REAL divisor, REAL bound, const REAL *restrict contrast,
                        REAL *restrict sum, REAL *restrict norms)
{
    long longer = 0, present = 0;
    for (long j = 0; j < columns; j++) sum[j] = 0;
    for (long r = 0; r < records; r += BLOCK) {
        long count = records - r < BLOCK ? records - r : BLOCK;
        REAL slopes[BLOCK] = {0}, squares[BLOCK] = {0}, tails[BLOCK];
        NAME(products)(r, count, columns, rows, contrast, slopes, squares);
        NAME(probabilities)(slopes, tails);
        for (long i = 0; i < count; i++) {
            REAL slope = slopes[i] - labels[r + i];
            REAL norm = SQRT(2 * squares[i] * slope * slope);
            REAL over = norm / bound;
            if (norms) norms[r + i] = norm;
            longer += norm > (REAL)LONGER * bound;
            present += squares[i] > 0;
            over = (over > 1 ? over : 1) * divisor;
            if (shares) slope *= shares[r + i];
            slopes[i] = slope / over;
        }
        for (long i = count; i < BLOCK; i++) slopes[i] = 0;
        NAME(add_rows)(r, count, columns, rows, slopes, sum);
    }
    return (REAL)longer / (REAL)(present > 0 ? present : 1);
}

#include "classes.h"

/* Places of a row of sums: two classes have one contrast. */
INLINE long NAME(wide)(long outputs)
{
    return outputs == 2 ? 1 : (outputs + LANES - 1) / LANES * LANES;
}

/* One client's sum of clipped gradients at its weights; `seen` are these as its records see them. */
INLINE REAL NAME(look_at)(long records, long columns, long outputs, long wide, NAME(Rows) rows, const REAL *labels,
                          const REAL *shares, REAL divisor, REAL bound, const REAL *weights, REAL *seen, REAL *sum,
                          REAL *norms, REAL *scores)
{
    if (outputs == 2) {
        for (long j = 0; j < columns; j++) seen[j] = weights[2 * j + 1] - weights[2 * j];
        return NAME(batch)(records, columns, rows, labels, shares, divisor, bound, seen, sum, norms);
    }
    for (long j = 0; j < columns; j++)
        for (long c = 0; c < wide; c++) seen[j * wide + c] = c < outputs ? weights[j * outputs + c] : 0;
    return NAME(batch_of_many)(records, columns, outputs, wide, rows, labels, shares, divisor, bound, seen, sum,
                               norms, scores);
}

/* A sum as a gradient by all weights: what one of two classes gains the other loses. */
INLINE void NAME(spread)(long columns, long outputs, long wide, const REAL *restrict sum, REAL *restrict gradient)
{
    for (long j = 0; j < columns; j++) {
        if (outputs == 2) gradient[2 * j] = -sum[j], gradient[2 * j + 1] = sum[j];
        else
            for (long c = 0; c < outputs; c++) gradient[j * outputs + c] = sum[j * wide + c];
    }
}

/* Clipped gradients of stacked clients at their weights (clients, columns, outputs). `apart` is how far one client's first
   record is from the next one's, in numbers. */
CLONES void NAME(gradients)(long clients, long records, long columns, long outputs, const REAL *features, long apart,
                            const REAL *labels, const REAL *shares, const REAL *divisors, REAL bound,
                            const REAL *weights, REAL *mean, REAL *norms, REAL *clipped, REAL *scratch)
{
    long wide = NAME(wide)(outputs), width = columns * outputs;
    REAL *seen = scratch, *sum = seen + columns * wide;
    for (long k = 0; k < clients; k++) {
        NAME(Rows) rows = {features + k * apart, 0, 0};
        clipped[k] = NAME(look_at)(records, columns, outputs, wide, rows, labels + k * records,
                                   shares ? shares + k * records : 0, divisors[k], bound, weights + k * width, seen, sum,
                                   norms ? norms + k * records : 0, sum + columns * wide);
        NAME(spread)(columns, outputs, wide, sum, mean + k * width);
    }
}

/* Proximal steps of stacked clients: x <- prox(keep x + anchor - gradient), soft-thresholding and then shrinking. */
CLONES void NAME(steps)(long clients, long steps, long records, long columns, long outputs, const REAL *features,
                        const long long *numbers, const REAL *labels, const REAL *shares, const REAL *divisors,
                        REAL bound, REAL keep, REAL threshold, REAL shrink, REAL penalty, REAL step_size,
                        const REAL *center, long center_apart, const REAL *dual, long dual_apart, REAL *x,
                        REAL *average, REAL *clipped, REAL *scratch)
{
    long width = outputs * columns, batch = records * columns, wide = NAME(wide)(outputs);
    REAL *seen = scratch, *sum = seen + columns * wide, *scores = sum + columns * wide;
    REAL *anchor = scores + (1 + FOUR) * wide, *gradient = anchor + width;
    const long long *last = numbers ? numbers + clients * steps * records - 1 : 0;
    for (long k = 0; k < clients; k++) {
        REAL *own = x + k * width, *total = average + k * width;
        REAL shared = 0;
        for (long i = 0; i < width; i++) {
            anchor[i] = (penalty * center[k * center_apart + i] + (dual ? dual[k * dual_apart + i] : 0)) * step_size;
            total[i] = 0;
        }
        for (long q = 0; q < steps; q++) {
            long first = k * steps + q;
            NAME(Rows) rows = {numbers ? features : features + first * batch, 0, last};
            if (numbers) rows.numbers = numbers + first * records;
            shared += NAME(look_at)(records, columns, outputs, wide, rows, labels + first * records,
                                    shares ? shares + first * records : 0, divisors[k] / step_size, bound, own, seen,
                                    sum, 0, scores);
            NAME(spread)(columns, outputs, wide, sum, gradient);
#pragma omp simd
            for (long i = 0; i < width; i++) {
                REAL there = keep * own[i] + anchor[i] - gradient[i], near = there < threshold ? there : threshold;
                own[i] = there = (there - (near > -threshold ? near : -threshold)) / shrink;
                total[i] += there;
            }
        }
        for (long i = 0; i < width; i++) total[i] /= steps;
        clipped[k] = shared / steps;
    }
}
