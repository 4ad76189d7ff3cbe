/* The clipped gradient of three classes and more for one type of numbers, as `steps.h` has it for two.

   Classes stand side by side in LANES, filled up with empty places, so that a record's scores stay in registers. */

/* Probabilities less the label, in place of the scores of FOUR records; empty places get nothing. What is not finite has
   none. Squared lengths of each; every step is taken for all FOUR, which do not wait for each other. */
INLINE void NAME(slopes)(long wide, const REAL *labels, long count, REAL *restrict scores, REAL *restrict squares)
{
    REAL top[FOUR], over[FOUR];
    for (long t = 0; t < FOUR; t++) {
        NAME(Lanes) *of = (NAME(Lanes) *)(scores + t * wide), highest = of[0];
        NAME(Wholes) finite = highest < (REAL)INFINITY;
        for (long c = 1; c < wide / LANES; c++) {
            finite &= of[c] < (REAL)INFINITY;
            highest = NAME(chosen)(of[c] > highest, of[c], highest);
        }
        highest = NAME(chosen)(finite, highest, (NAME(Lanes)){0} + (REAL)INFINITY);
        for (long half = LANES / 2; half > 0; half /= 2)
            for (long i = 0; i < half; i++) highest[i] = highest[i + half] > highest[i] ? highest[i + half] : highest[i];
        top[t] = highest[0];
    }
    for (long t = 0; t < FOUR; t++) {
        NAME(Lanes) *of = (NAME(Lanes) *)(scores + t * wide);
        for (long c = 0; c < wide / LANES; c++) of[c] = NAME(exponentials)(of[c] - top[t]);
    }
    REAL total[FOUR] = {0}; /* in the order of the text: where one class is certain, what is left of it is their last digits */
    for (long c = 0; c < wide; c++)
        for (long t = 0; t < FOUR; t++) total[t] += scores[t * wide + c];
    for (long t = 0; t < FOUR; t++) over[t] = top[t] - top[t] == 0 ? 1 / total[t] : (REAL)NAN; /* finite, that is */
    for (long t = 0; t < FOUR; t++) {
        NAME(Lanes) *of = (NAME(Lanes) *)(scores + t * wide);
        for (long c = 0; c < wide / LANES; c++) of[c] *= over[t];
    }
    for (long t = 0; t < count; t++) scores[t * wide + (long)labels[t]] -= 1;
    for (long t = 0; t < FOUR; t++) {
        NAME(Lanes) *of = (NAME(Lanes) *)(scores + t * wide), sums = {0};
        for (long c = 0; c < wide / LANES; c++) sums += of[c] * of[c];
        for (long half = LANES / 2; half > 0; half /= 2)
            for (long i = 0; i < half; i++) sums[i] += sums[i + half];
        squares[t] = sums[0];
    }
}

/* One client's sum of clipped gradients into `sum`, by weights whose rows are `wide`; the share that was clipped.

   `scores` has room for FOUR records, and before them what those of empty places begin with. */
INLINE REAL NAME(batch_of_many)(long records, long columns, long outputs, long wide, NAME(Rows) rows,
                                const REAL *restrict labels, const REAL *restrict shares, REAL divisor, REAL bound,
                                const REAL *restrict weights, REAL *restrict sum, REAL *restrict norms,
                                REAL *restrict nowhere)
{
    long longer = 0, present = 0;
    REAL *scores = nowhere + wide;
    for (long i = 0; i < columns * wide; i++) sum[i] = 0;
    for (long c = 0; c < wide; c++) nowhere[c] = c < outputs ? 0 : (REAL)-1e30;
    for (long r = 0; r < records; r += FOUR) {
        long count = records - r < FOUR ? records - r : FOUR;
        const REAL *row[FOUR];
        for (long t = 0; t < FOUR; t++) row[t] = NAME(row)(rows, columns, r, t, count);
        NAME(ask_ahead)(rows, columns, r, count);
        for (long c = 0; c < wide; c += LANES) {
            NAME(Lanes) score[FOUR];
            for (long t = 0; t < FOUR; t++) score[t] = *(const NAME(Lanes) *)(nowhere + c);
            for (long j = 0; j < columns; j++) {
                NAME(Lanes) weight = *(const NAME(Lanes) *)(weights + j * wide + c);
                for (long t = 0; t < FOUR; t++) score[t] += row[t][j] * weight;
            }
            for (long t = 0; t < FOUR; t++) *(NAME(Lanes) *)(scores + t * wide + c) = score[t];
        }
        REAL counts[FOUR] = {0}, lengths[FOUR];
        NAME(slopes)(wide, labels + r, count, scores, lengths);
        for (long t = 0; t < count; t++) {
            REAL square = NAME(dot)(row[t], row[t], columns);
            REAL norm = SQRT(square * lengths[t]), over = norm / bound;
            if (norms) norms[r + t] = norm;
            longer += norm > (REAL)LONGER * bound;
            present += square > 0;
            over = (over > 1 ? over : 1) * divisor;
            counts[t] = (shares ? shares[r + t] : 1) / over;
        }
        for (long t = count; t < FOUR; t++)
            for (long c = 0; c < wide; c++) scores[t * wide + c] = 0;
        for (long c = 0; c < wide; c += LANES) {
            NAME(Lanes) slope[FOUR];
            for (long t = 0; t < FOUR; t++) slope[t] = *(const NAME(Lanes) *)(scores + t * wide + c) * counts[t];
            for (long j = 0; j < columns; j++) {
                NAME(Lanes) *to = (NAME(Lanes) *)(sum + j * wide + c), at = *to;
                for (long t = 0; t < FOUR; t++) at += row[t][j] * slope[t];
                *to = at;
            }
        }
    }
    return (REAL)longer / (REAL)(present > 0 ? present : 1);
}
